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

// WithSender adds the sender of each request to its context, because the journal limits the lines
// of each sender.
func WithSender(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sender := obs.Sender{ID: caller.RateLimitPrefix(r.RemoteAddr).String(), Guest: r.Header["Authorization"] == nil}
		next.ServeHTTP(w, r.WithContext(obs.WithSender(r.Context(), sender)))
	})
}

// The fuller the file of a day, the fewer kinds of lines the journal accepts.
type lineKind int

const (
	guestLine   lineKind = iota // answered request of a guest
	requestLine                 // other request that did not fail
	failureLine                 // failure, or line of the host itself
)

var lineLimits = [...]struct {
	part    float64 // fraction of the file's maximum size
	dropped string
}{
	guestLine:   {1. / 2, "the journal records no more answered requests of guests today, because it is half full"},
	requestLine: {3. / 4, "the journal records only failures today, because it is three quarters full"},
	failureLine: {1, "the journal records nothing more today, because it is full"},
}

// One sender may use senderFraction of the day's file, and in addition failureFraction for
// failures. failureFraction is small, so that space remains for failures of other senders.
const (
	senderFraction  = 1. / 16
	failureFraction = 1. / 64
)

// A keyed hash maps senders to a fixed number of counters, so a flood of addresses uses no
// additional memory.
const senderCounters = 1 << 14

type journalShares struct {
	seed         maphash.Seed
	otherBytes   [senderCounters]int64
	failureBytes [senderCounters]int64
	droppedKinds [len(lineLimits)]bool
}

// accept reports whether the journal accepts a line. It returns a warning for the first dropped
// line of a kind or sender.
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
