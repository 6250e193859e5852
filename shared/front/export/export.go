// Package export lets the operator read a complete host while the host keeps answering. It serves a
// consistency check, the history of a pair as JSON lines, and pages from which package remote runs
// the same check on another machine.
//
// No handler writes to the store. A reader detects an incomplete report, because its last line is
// missing. If the reader disconnects or stalls, the read transaction ends. No page decrypts a
// vacant's seed (its private key).
//
// On a single machine, the check needs no pages. It reads a snapshot of the host, in which balances
// match their rows. It also decrypts seeds.
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

// Config contains the dependencies of the reports and pages.
type Config struct {
	Source    fsck.Source
	Vault     custody.Vault
	OpenBlobs func() (blob.Blobs, error) // opens the storage of files; if nil, files are not checked
	Now       func() time.Time
	// Retention is the time for which the host keeps a text key after the end of its day. A text key
	// encrypts the message texts of one day. The default is textkeys.MinRetention.
	Retention time.Duration
	// Log receives a line for each request of PagesHandler. If Log is nil, requests are not logged.
	Log *slog.Logger
}

// lineTimeout limits how long a reader may leave a line unread, because the read transaction keeps
// the data file open until the reader has finished. A user who pages through a history by hand must
// not keep the file open for a day.
const lineTimeout = 10 * time.Minute

// VerifyLine is a line of a check. The last line contains a result, or the error that ended the
// check early.
type VerifyLine struct {
	Finding  *fsck.Finding    `json:"finding,omitempty"`
	Progress *fsck.Result     `json:"progress,omitempty"`
	Result   *fsck.Result     `json:"result,omitempty"`
	Error    *httpapi.Refusal `json:"error,omitempty"`
}

// VerifyHandler handles GET /v1/admin/verify: a check of the complete host as JSON lines.
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

// ChainLine is a line of a history. The first line contains the pair. The last line contains the
// number of entries, or the error that ended the history early.
type ChainLine struct {
	Pair  *Pair            `json:"pair,omitempty"`
	Entry *Entry           `json:"entry,omitempty"`
	End   *End             `json:"end,omitempty"`
	Error *httpapi.Refusal `json:"error,omitempty"`
}

// ChainHandler handles GET /v1/admin/chain/{from}/{to}?own=&last=: the history of a pair as JSON
// lines. If the reader has an identity of its own with the name from, own is the id of this
// identity. An unknown or ambiguous vacant is refused before the first line.
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
			from, err := transcript.ResolveOwn(r.Context(), v, r.PathValue("from"), r.URL.Query().Get("own"))
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

// newRefusal converts an error for the last line of a report. The reader is the operator, so
// details of damaged data are included.
func newRefusal(err error) *httpapi.Refusal {
	p := problem.AsError(asUnavailable(err))
	detail := p.Text()
	if p.Kind == problem.Damaged {
		detail = p.Error()
	}
	return &httpapi.Refusal{Detail: detail, Code: p.Kind.String(), Field: p.Field}
}

// asUnavailable converts an error of an unavailable store to a problem of kind Unavailable. It
// returns other errors unchanged.
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

// writeLine writes a line. If flush is set, it also flushes.
func (l *lineWriter) writeLine(v any, flush bool) error {
	const deadlineInterval = 64 // lines between two updates of the write deadline, too few to fill a write buffer
	if flush || l.lineCount%deadlineInterval == 0 {
		// In-process tests have no connection whose deadline could be set, so the error is ignored.
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
