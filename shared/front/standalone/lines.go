package standalone

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net/http"
	"sync"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/obs"
)

// WithSender adds the sender of each request to its context. The journal limits the log lines of
// each sender.
func WithSender(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sender := obs.Sender{ID: caller.RateLimitPrefix(r.RemoteAddr).String(), Guest: r.Header["Authorization"] == nil}
		next.ServeHTTP(w, r.WithContext(obs.WithSender(r.Context(), sender)))
	})
}

// lineKind is a kind of line. The fuller the file of a day, the fewer kinds the journal accepts.
type lineKind int

const (
	guestLine   lineKind = iota // answered request of a guest
	requestLine                 // other request that did not fail
	failureLine                 // failure, or line of the host itself
)

// lineLimits contains the limit of each kind of line. The journal accepts a kind until the day's
// file has reached a fraction of its maximum size.
var lineLimits = [...]struct {
	part    float64 // fraction of the maximum size
	dropped string  // warning when the first line of the kind is dropped
}{
	guestLine:   {1. / 2, "the journal records no more answered requests of guests today, because it is half full"},
	requestLine: {3. / 4, "the journal records only failures today, because it is three quarters full"},
	failureLine: {1, "the journal records nothing more today, because it is full"},
}

// Fractions of the maximum size of a day's file that one sender may use for failures and for other
// lines. The limit of failures leaves space for the failures of other senders.
const (
	senderFraction  = 1. / 16
	failureFraction = 1. / 64
)

// senderCounters is the number of counters. A keyed hash maps senders to counters, so a flood of
// addresses uses no additional memory.
const senderCounters = 1 << 14

// journalShares counts the bytes of a day by sender.
type journalShares struct {
	seed         maphash.Seed
	otherBytes   [senderCounters]int64 // bytes of lines other than failures
	failureBytes [senderCounters]int64 // bytes of failures
	droppedKinds [len(lineLimits)]bool // kinds of which a line was dropped
}

// accept reports whether the journal accepts a line of the given length, and counts it for its
// sender. fileSize is the current size of the day's file, and maxBytes is its limit. accept returns
// a warning for the first line of a kind or sender that is dropped.
func (s *journalShares) accept(lineBytes, fileSize, maxBytes int64, kind lineKind, senderID string) (accepted bool, warning string) {
	if float64(fileSize+lineBytes) > lineLimits[kind].part*float64(maxBytes) {
		if !s.droppedKinds[kind] {
			s.droppedKinds[kind], warning = true, lineLimits[kind].dropped
		}
		return false, warning
	}
	if senderID == "" {
		return true, ""
	}
	counts, fraction := &s.otherBytes, senderFraction
	if kind == failureLine {
		counts, fraction = &s.failureBytes, failureFraction
	}
	count, limit := &counts[maphash.String(s.seed, senderID)%senderCounters], int64(fraction*float64(maxBytes))
	previous := *count
	if *count += lineBytes; *count > limit && previous <= limit {
		warning = fmt.Sprintf("the journal records no more such lines from %s today", senderID)
	}
	return *count <= limit, warning
}

func (j *Journal) Handler() slog.Handler {
	w := &lineWriter{journal: j}
	return &journalHandler{slog.NewJSONHandler(w, nil), w}
}

// lineWriter writes lines to the journal. journalHandler sets kind and senderID before each line.
type lineWriter struct {
	mu       sync.Mutex
	kind     lineKind
	senderID string
	journal  *Journal
}

func (w *lineWriter) Write(line []byte) (int, error) {
	w.journal.writeLine(line, w.kind, w.senderID)
	return len(line), nil
}

type journalHandler struct {
	slog.Handler
	writer *lineWriter
}

func (h *journalHandler) Handle(ctx context.Context, r slog.Record) error {
	sender, ok := obs.SenderOf(ctx)
	kind := requestLine
	r.Attrs(func(a slog.Attr) bool {
		switch {
		case a.Key == obs.AttrFailure:
			kind = failureLine
		case a.Key == obs.AttrVerdict && a.Value.String() == "ok" && sender.Guest && kind != failureLine:
			kind = guestLine
		}
		return kind != failureLine
	})
	if !ok || r.Level >= slog.LevelError {
		kind = failureLine
	}
	if id := obs.RequestID(ctx); id != "" {
		r = r.Clone()
		r.AddAttrs(slog.String("request", id))
	}
	h.writer.mu.Lock()
	defer h.writer.mu.Unlock()
	h.writer.kind, h.writer.senderID = kind, sender.ID
	return h.Handler.Handle(ctx, r)
}

func (h *journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &journalHandler{h.Handler.WithAttrs(attrs), h.writer}
}

func (h *journalHandler) WithGroup(name string) slog.Handler {
	return &journalHandler{h.Handler.WithGroup(name), h.writer}
}
