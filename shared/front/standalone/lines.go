package standalone

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net/http"
	"sync"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/obs"
)

// WithSender lets the lines of requests count for their senders in the journal.
func WithSender(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := obs.Sender{ID: caller.Origin(r.RemoteAddr).String(), Guest: r.Header["Authorization"] == nil}
		next.ServeHTTP(w, r.WithContext(obs.WithSender(r.Context(), from)))
	})
}

// lineKind is a kind of line. The more a day has, the fewer kinds it takes.
type lineKind int

const (
	guestLine   lineKind = iota // an answered request of a guest
	requestLine                 // another request that did not fail
	failureLine                 // a failure, or a line of the host itself
)

// lineKinds are the parts of a day's size up to which the journal takes a kind of line.
var lineKinds = [...]struct {
	part    float64
	dropped string
}{
	guestLine:   {1. / 2, "the journal keeps no more lines of answered requests of guests today: it is half full"},
	requestLine: {3. / 4, "the journal keeps only failures today: it is three quarters full"},
	failureLine: {1, "the journal keeps no more lines today: it is full"},
}

// Parts of a day's size that the lines of one sender may have, and the lines of its failures: a sender
// that makes an agent fail leaves room for the failures of others.
const (
	senderPart  = 1. / 16
	failurePart = 1. / 64
)

// journalSenders is the number of counts. A keyed hash gives each sender its count, so that a flood
// of addresses takes no memory.
const journalSenders = 1 << 14

// journalShares count the bytes of a day by sender.
type journalShares struct {
	seed    maphash.Seed
	bytes   []int64
	failed  []int64
	dropped [len(lineKinds)]bool
}

func newJournalShares() journalShares {
	return journalShares{seed: maphash.MakeSeed(), bytes: make([]int64, journalSenders), failed: make([]int64, journalSenders)}
}

// take reports whether a line is kept on a day that has size bytes of max. warning tells, once, which
// lines are no longer kept.
func (s *journalShares) take(line, size, max int64, kind lineKind, from string) (kept bool, warning string) {
	if float64(size+line) > lineKinds[kind].part*float64(max) {
		if !s.dropped[kind] {
			s.dropped[kind], warning = true, lineKinds[kind].dropped
		}
		return false, warning
	}
	if from == "" {
		return true, ""
	}
	count, part := s.bytes, senderPart
	if kind == failureLine {
		count, part = s.failed, failurePart
	}
	at := maphash.String(s.seed, from) % journalSenders
	limit := int64(part * float64(max))
	before := count[at]
	if count[at] = before + line; count[at] <= limit {
		return true, ""
	}
	if before <= limit {
		warning = fmt.Sprintf("the journal keeps no more such lines of %s today", from)
	}
	return false, warning
}

// Handler returns a handler that writes JSON lines to the journal.
func (j *Journal) Handler() slog.Handler {
	b := &lineBuffer{journal: j}
	return &journalHandler{slog.NewJSONHandler(&b.Buffer, nil), b}
}

// lineBuffer holds one line at a time.
type lineBuffer struct {
	sync.Mutex
	bytes.Buffer
	journal *Journal
}

type journalHandler struct {
	slog.Handler
	line *lineBuffer
}

// Handle implements slog.Handler.
func (h *journalHandler) Handle(ctx context.Context, r slog.Record) error {
	from, ok := obs.SenderOf(ctx)
	kind := requestLine
	r.Attrs(func(a slog.Attr) bool {
		switch {
		case a.Key == obs.Failure:
			kind = failureLine
		case a.Key == obs.Verdict && a.Value.String() == "ok" && from.Guest && kind != failureLine:
			kind = guestLine
		}
		return kind != failureLine
	})
	if !ok || r.Level >= slog.LevelError {
		kind = failureLine
	}
	h.line.Lock()
	defer h.line.Unlock()
	h.line.Reset()
	if err := h.Handler.Handle(ctx, r); err != nil {
		return err
	}
	h.line.journal.keep(h.line.Bytes(), kind, from.ID)
	return nil
}

// WithAttrs implements slog.Handler.
func (h *journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &journalHandler{h.Handler.WithAttrs(attrs), h.line}
}

// WithGroup implements slog.Handler.
func (h *journalHandler) WithGroup(name string) slog.Handler {
	return &journalHandler{h.Handler.WithGroup(name), h.line}
}
