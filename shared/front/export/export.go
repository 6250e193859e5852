// Package export is the part of the operator's API that reads everything: a
// check of the whole host and the history of a pair, as JSON lines from one
// view, while the host continues to answer; and pages, from which package
// remote does the same elsewhere.
//
// The invariants: it writes nothing. A report without its last line is
// incomplete, and the reader can tell. A reader that is gone or stalls ends the
// transaction. No vacant's seed is opened for a page.
package export

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/call/transcript"
	"github.com/vacancy-host/vacancy/shared/host/fsck"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// Config is what the reports and pages need.
type Config struct {
	Source fsck.Source
	Vault  custody.Vault
	Now    func() time.Time
	// Retention is how long the host keeps text keys after their day;
	// textkeys.MinRetention if 0.
	Retention time.Duration
	// Log gets a line for each page of Pages; nil: none.
	Log *slog.Logger
}

// patience is how long a reader may leave a line unread: who pages through a
// history does not keep the transaction, and so the file, open for the day.
const patience = 10 * time.Minute

// VerifyLine is a line of a check. The last one has a result, or the error
// that kept the check from its end.
type VerifyLine struct {
	Finding  *fsck.Finding    `json:"finding,omitempty"`
	Progress *fsck.Result     `json:"progress,omitempty"`
	Result   *fsck.Result     `json:"result,omitempty"`
	Error    *httpapi.Refusal `json:"error,omitempty"`
}

// Verify returns the handler of GET /v1/admin/verify: a check of the host, in lines.
func Verify(c Config) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := newLines(w)
		result, err := fsck.Run(r.Context(), fsck.Config{
			Source: c.Source, Vault: c.Vault, Now: c.Now, Retention: c.Retention,
			Found:    func(f fsck.Finding) error { return out.put(VerifyLine{Finding: &f}, true) },
			Progress: func(p fsck.Result) { _ = out.put(VerifyLine{Progress: &p}, true) },
		})
		last := VerifyLine{Result: &result}
		if err != nil {
			last = VerifyLine{Error: refusal(err)}
		}
		_ = out.put(last, true)
	})
}

// ChainLine is a line of a history. The first one has the pair, the last one
// the count of the entries, or the error that kept the history from its end.
type ChainLine struct {
	Pair  *Pair            `json:"pair,omitempty"`
	Entry *Entry           `json:"entry,omitempty"`
	End   *End             `json:"end,omitempty"`
	Error *httpapi.Refusal `json:"error,omitempty"`
}

// Chain returns the handler of GET /v1/admin/chain/{from}/{to}?last=: the history of
// a pair, in lines. Who is not found is refused before the first line.
func Chain(c Config) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last, err := lastOf(r)
		if err != nil {
			httpapi.Fail(w, err)
			return
		}
		var out *lines
		var end End
		err = c.Source.Walk(r.Context(), func(v store.View) error {
			pair, err := transcript.Find(r.Context(), v, r.PathValue("from"), r.PathValue("to"))
			if err != nil {
				return err
			}
			out = newLines(w)
			if err := out.put(ChainLine{Pair: &Pair{pair.Caller, pair.Vacant}}, false); err != nil {
				return err
			}
			return transcript.Read(r.Context(), v, textkeys.NewReader(v, c.Vault, c.Now, c.Retention), pair, last, func(e transcript.Entry) error {
				end.Entries++
				return out.put(ChainLine{Entry: entryOf(&e)}, false)
			})
		})
		switch {
		case err != nil && out == nil:
			httpapi.Fail(w, fault(err))
		case err != nil:
			_ = out.put(ChainLine{Error: refusal(err)}, true)
		default:
			_ = out.put(ChainLine{End: &end}, true)
		}
	})
}

func lastOf(r *http.Request) (uint64, error) {
	s := r.URL.Query().Get("last")
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || n == 0 {
		return 0, problem.Invalid("last", "a positive number", strconv.Quote(s[:min(len(s), 80)]))
	}
	return n, nil
}

// refusal is an error as the last line shows it. The reader is the operator:
// what is wrong with the data is theirs to know.
func refusal(err error) *httpapi.Refusal {
	p := problem.Of(fault(err))
	detail := p.Text()
	if p.Kind == problem.Damaged {
		detail = p.Error()
	}
	return &httpapi.Refusal{Detail: detail, Code: p.Kind.String(), Field: p.Field}
}

// fault gives an error of the store its kind; problems have theirs.
func fault(err error) error {
	if errors.Is(err, store.ErrUnavailable) && !errors.As(err, new(*problem.Error)) {
		return problem.Wrap(problem.Unavailable, err, "storage is unavailable; the same command may be run again")
	}
	return err
}

// lines writes JSON lines.
type lines struct {
	json *json.Encoder
	rc   *http.ResponseController
	n    int
}

func newLines(w http.ResponseWriter) *lines {
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	l := &lines{json: json.NewEncoder(w), rc: http.NewResponseController(w)}
	l.json.SetEscapeHTML(false)
	return l
}

// put writes a line, and with now sends it off.
func (l *lines) put(v any, now bool) error {
	const often = 64 // lines, which are less than what is buffered on the way
	if now || l.n%often == 0 {
		// In one process there is no deadline to set: the reader is this one.
		_ = l.rc.SetWriteDeadline(time.Now().Add(patience))
	}
	l.n++
	if err := l.json.Encode(v); err != nil {
		return gone(err)
	}
	if now {
		return gone(l.rc.Flush())
	}
	return nil
}

func gone(err error) error {
	if err == nil {
		return nil
	}
	return problem.Wrap(problem.Canceled, err, "the reader has gone")
}
