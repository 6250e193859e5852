package hostcmd

import (
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/host/client/witness"
	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// checkpointResult is a checkpoint signed by its host.
type checkpointResult struct {
	URL       string          `json:"url"`
	Host      identity.ID     `json:"host_id"`
	Size      uint64          `json:"tree_size"`
	Root      string          `json:"root_hash_hex"`
	Witnesses []witnessResult `json:"cosignatures"`
	Note      string          `json:"note"`
	Key       string          `json:"verifier_key"` // for other tools of signed notes
}

type witnessResult struct {
	Name string `json:"name"`
	Time string `json:"time"`
}

func newCheckpointResult(url string, note []byte) (checkpointResult, error) {
	c, cosigned, err := translog.Open(note)
	r := checkpointResult{URL: url, Host: c.Host, Size: c.Size, Root: hex.EncodeToString(c.Root[:]), Witnesses: []witnessResult{},
		Note: string(note), Key: translog.VerifierKey(c.Host)}
	for _, s := range cosigned {
		r.Witnesses = append(r.Witnesses, witnessResult{s.Name, time.Unix(s.Time, 0).UTC().Format(time.RFC3339)})
	}
	return r, err
}

func (r checkpointResult) Print(w io.Writer) { fmt.Fprint(w, r.Note) }

// logResult is a verified log.
type logResult struct {
	URL       string          `json:"url"`
	Host      identity.ID     `json:"host_id"`
	Size      uint64          `json:"tree_size"`
	Root      string          `json:"root_hash_hex"`
	Witnesses []witnessResult `json:"cosignatures"`
	Since     *uint64         `json:"since_size,omitempty"` // of the checkpoint that it continues
	Leaves    uint64          `json:"hashes_verified"`
	Events    uint64          `json:"events_verified"`
	Hidden    uint64          `json:"events_hidden"`

	report witness.Report
}

func newLogResult(url string, v witness.Report) logResult {
	r := logResult{URL: url, Host: v.Host, Size: v.Size, Root: hex.EncodeToString(v.Root[:]), Witnesses: []witnessResult{},
		Leaves: v.Leaves, Events: v.Checked, Hidden: v.Hidden, report: v}
	if v.Since != nil {
		r.Since = &v.Since.Size
	}
	for _, s := range v.Cosignatures {
		r.Witnesses = append(r.Witnesses, witnessResult{s.Name, time.Unix(s.Time, 0).UTC().Format(time.RFC3339)})
	}
	return r
}

func (r logResult) Print(w io.Writer) {
	fmt.Fprintf(w, "The log of host %s at %s\n", r.Host, kit.Printable(r.URL))
	fmt.Fprintf(w, "  signed   %s, by the host\n", kit.Counted(r.Size, "event"))
	switch {
	case r.Since == nil:
		fmt.Fprintf(w, "  before   nothing was known of it; from now on it must continue this\n")
	default:
		fmt.Fprintf(w, "  before   %s; it only grew\n", kit.Counted(*r.Since, "event"))
	}
	fmt.Fprintf(w, "  hashes   of all %s; they make the signed root\n", kit.Counted(r.Leaves, "event"))
	switch r.Events {
	case 0:
		fmt.Fprint(w, "  events   no new one to verify")
	case 1:
		fmt.Fprint(w, "  events   1 new one has its signature, hash and place")
	default:
		fmt.Fprintf(w, "  events   %d new ones have their signature, hash and place", r.Events)
	}
	if r.Hidden > 0 {
		fmt.Fprintf(w, "; not for everybody: %d", r.Hidden)
	}
	fmt.Fprintln(w)
	for _, s := range r.Witnesses {
		fmt.Fprintf(w, "  witness  %s, %s\n", strings.TrimPrefix(s.Name, "vacant/"), s.Time)
	}
	fmt.Fprintln(w, "whole")
}

// cosignResult is a verified log and its cosigners.
type cosignResult struct {
	logResult
	As           string      `json:"as"`
	Witness      identity.ID `json:"witness_id"`
	Cosignatures int         `json:"cosignatures_now"`
}

func (r cosignResult) Print(w io.Writer) {
	r.logResult.Print(w)
	fmt.Fprintf(w, "%s cosigned it; the checkpoint has %s now\n", kit.Printable(r.As), kit.Counted(r.Cosignatures, "cosignature"))
}
