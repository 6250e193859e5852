package hostcmd

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/host/client/witness"
	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type checkpointResult struct {
	URL       string          `json:"url"`
	Host      identity.ID     `json:"host_id"`
	Size      uint64          `json:"tree_size"`
	Root      string          `json:"root_hash_hex"`
	Witnesses []witnessResult `json:"cosignatures"`
	Note      string          `json:"note"`
	Key       string          `json:"verifier_key"` // key of the host for other tools
}

type witnessResult struct {
	Name string `json:"name"`
	Time string `json:"time"`
}

func witnessResults(signatures []translog.Cosignature) []witnessResult {
	results := []witnessResult{}
	for _, s := range signatures {
		results = append(results, witnessResult{s.Name, time.Unix(s.Time, 0).UTC().Format(time.RFC3339)})
	}
	return results
}

func (r checkpointResult) Print(w io.Writer) { fmt.Fprint(w, r.Note) }

type logResult struct {
	URL       string          `json:"url"`
	Host      identity.ID     `json:"host_id"`
	Size      uint64          `json:"tree_size"`
	Root      string          `json:"root_hash_hex"`
	Witnesses []witnessResult `json:"cosignatures"`
	Since     *uint64         `json:"since_size,omitempty"` // size of the continued checkpoint
	Leaves    uint64          `json:"hashes_verified"`
	Events    uint64          `json:"events_verified"`
	Hidden    uint64          `json:"events_hidden"` // not public

	report witness.Report
}

func (r logResult) Print(w io.Writer) {
	fmt.Fprintf(w, "The log of host %s at %s\n", r.Host, kit.EscapeLine(r.URL))
	continued, verifiedEvents := "no earlier checkpoint is known; later checkpoints must continue this one", "no new events to verify"
	if r.Since != nil {
		continued = kit.Plural(*r.Since, "event") + ", which the log continues"
	}
	switch {
	case r.Events == 1:
		verifiedEvents = "1 new event has a valid signature, hash and position"
	case r.Events > 1:
		verifiedEvents = fmt.Sprintf("%d new events have valid signatures, hashes and positions", r.Events)
	}
	kit.PrintFields(w, "signed", kit.Plural(r.Size, "event")+", by the host", "before", continued,
		"hashes", "of all "+kit.Plural(r.Leaves, "event")+"; they make the signed root", "events", verifiedEvents+kit.FormatIf(r.Hidden > 0, "; not public: %d", r.Hidden))
	for _, s := range r.Witnesses {
		kit.PrintFields(w, "witness", strings.TrimPrefix(s.Name, "vacant/")+", "+s.Time)
	}
	fmt.Fprintln(w, "all checks passed")
}

type cosignResult struct {
	logResult
	IdentityName string      `json:"as"`
	Witness      identity.ID `json:"witness_id"`
	Cosignatures int         `json:"cosignatures_now"`
}

func (r cosignResult) Print(w io.Writer) {
	r.logResult.Print(w)
	fmt.Fprintf(w, "%s cosigned it; the checkpoint has %s now\n", kit.EscapeLine(r.IdentityName), kit.Plural(r.Cosignatures, "cosignature"))
}
