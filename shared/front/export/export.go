// Package export lets the operator read a complete host while the host keeps answering. It serves a
// consistency check, the history of a pair as JSON lines, and pages from which package remote runs
// the same check on another machine.
//
// A report without its last line is incomplete. No page decrypts a vacant's seed (its private key).
package export

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/fsck"
	"github.com/vacancy-host/vacancy/shared/host/fsck/transcript"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/blob"
)

type Config struct {
	Source    fsck.Source
	Vault     custody.Vault
	OpenBlobs func() (blob.Blobs, error) // if nil, files are not checked
	Now       func() time.Time
	// Retention is the time for which the host keeps a text key after its day. The default is
	// textkeys.MinRetention.
	Retention time.Duration
	Log       *slog.Logger
}

// lineTimeout limits how long a reader may leave a line unread, because the read transaction keeps
// the data file open.
const lineTimeout = 10 * time.Minute

// VerifyLine is a line of a check. The last line contains Result or Error.
type VerifyLine struct {
	Finding  *fsck.Finding    `json:"finding,omitempty"`
	Progress *fsck.Result     `json:"progress,omitempty"`
	Result   *fsck.Result     `json:"result,omitempty"`
	Error    *httpapi.Refusal `json:"error,omitempty"`
}

// VerifyHandler handles GET /v1/admin/verify.
func VerifyHandler(c Config) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := newLineWriter(w)
		result, err := fsck.Run(r.Context(), fsck.Config{
			Source: c.Source, Vault: c.Vault, Blobs: c.OpenBlobs, Now: c.Now, Retention: c.Retention,
			ReportFinding: func(f fsck.Finding) error { return out.writeLine(VerifyLine{Finding: &f}, true) },
			Progress:      func(p fsck.Result) { _ = out.writeLine(VerifyLine{Progress: &p}, true) },
		})
		lastLine := VerifyLine{Result: &result}
		if err != nil {
			lastLine = VerifyLine{Error: newRefusal(err)}
		}
		_ = out.writeLine(lastLine, true)
	})
}

// ChainLine is a line of a history. The last line contains End or Error.
type ChainLine struct {
	Pair  *Pair            `json:"pair,omitempty"`
	Entry *Entry           `json:"entry,omitempty"`
	End   *End             `json:"end,omitempty"`
	Error *httpapi.Refusal `json:"error,omitempty"`
}

// ChainHandler handles GET /v1/admin/chain/{from}/{to}?own=&last=. own is the id of the reader's
// own identity with the name from.
func ChainHandler(c Config) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var maxEntries uint64
		if s := r.URL.Query().Get("last"); s != "" {
			var err error
			if maxEntries, err = strconv.ParseUint(s, 10, 63); err != nil || maxEntries == 0 {
				httpapi.Fail(w, problem.Invalid("last", "a positive number", quoteTruncated(s)))
				return
			}
		}
		var out *lineWriter
		var end End
		err := c.Source.Walk(r.Context(), func(v store.View) error {
			from, err := transcript.ResolveOwnReference(r.Context(), v, r.PathValue("from"), r.URL.Query().Get("own"))
			if err != nil {
				return err
			}
			pair, err := transcript.Find(r.Context(), v, from, r.PathValue("to"))
			if err != nil {
				return err
			}
			out = newLineWriter(w)
			if err := out.writeLine(ChainLine{Pair: &Pair{pair.Caller, pair.Vacant}}, false); err != nil {
				return err
			}
			return transcript.Read(r.Context(), v, textkeys.NewReader(v, c.Vault, c.Now, c.Retention), pair, maxEntries, func(e transcript.Entry) error {
				end.Entries++
				return out.writeLine(ChainLine{Entry: entryOf(&e)}, false)
			})
		})
		switch {
		case err != nil && out == nil:
			httpapi.Fail(w, asUnavailable(err))
		case err != nil:
			_ = out.writeLine(ChainLine{Error: newRefusal(err)}, true)
		default:
			_ = out.writeLine(ChainLine{End: &end}, true)
		}
	})
}

// newRefusal includes details of damaged data, because the reader is the operator.
func newRefusal(err error) *httpapi.Refusal {
	p := problem.AsError(asUnavailable(err))
	detail := p.Text()
	if p.Kind == problem.Damaged {
		detail = p.Error()
	}
	return &httpapi.Refusal{Detail: detail, Code: p.Kind.String(), Field: p.Field}
}

func asUnavailable(err error) error {
	if errors.Is(err, store.ErrUnavailable) && !errors.As(err, new(*problem.Error)) {
		return problem.Wrap(problem.Unavailable, err, "storage is unavailable; run the same command again")
	}
	return err
}

type lineWriter struct {
	json       *json.Encoder
	controller *http.ResponseController
	lineCount  int
}

func newLineWriter(w http.ResponseWriter) *lineWriter {
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	l := &lineWriter{json: json.NewEncoder(w), controller: http.NewResponseController(w)}
	l.json.SetEscapeHTML(false)
	return l
}

func (l *lineWriter) writeLine(v any, flush bool) error {
	const deadlineInterval = 64 // lines between two updates of the write deadline, too few to fill a write buffer
	if flush || l.lineCount%deadlineInterval == 0 {
		// The error is ignored, because in-process tests have no connection.
		_ = l.controller.SetWriteDeadline(time.Now().Add(lineTimeout))
	}
	l.lineCount++
	err := l.json.Encode(v)
	if err == nil && flush {
		err = l.controller.Flush()
	}
	if err != nil {
		return problem.Wrap(problem.Canceled, err, "the client has stopped reading")
	}
	return nil
}
