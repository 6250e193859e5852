package plain

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Limits for concurrent requests in a process, per sender and per vacant. A stream occupies a
// connection and its memory for minutes, and on Lambda a complete instance. A request that waits
// for a slow vacant or for a task occupies as much, even without a stream. Other answers take at
// most UnaryTime. A list occupies the memory of its page until the client has read it.
var (
	streams = bound{16, 64, "streams open, or requests that wait for a slow agent", "wait for the end of one", "end one, or read the task with GetTask", "5"}
	answers = bound{64, 256, "answers under way", "wait for one", "wait for one, or send messages in the background", "1"}
	lists   = bound{4, 64, "lists of tasks under way", "read an answer first", "read an answer first", "5"}
)

// bound limits the concurrent requests of one kind per sender and per vacant. The strings are parts
// of its refusals.
type bound struct {
	ofSender, ofVacant int
	what               string
	helps, taskHelps   string // advice to a sender without and with operations on tasks
	retry              string // Retry-After of a refusal, in seconds
}

// lineTime limits how long a request waits in line for another request to end. The limit is short
// because refused clients retry.
const lineTime = 10 * time.Second

// RequestCounter counts the concurrent requests of one kind.
type RequestCounter struct {
	bound
	lineTime time.Duration
	mu       sync.Mutex
	open     map[any]int   // active requests by owner, address or vacant
	inLine   map[any]int   // waiting requests by the same keys
	freed    chan struct{} // closed when a request ends while other requests wait
}

func newRequestCounter(b bound) *RequestCounter {
	return &RequestCounter{bound: b, lineTime: lineTime, open: map[any]int{}, inLine: map[any]int{}, freed: make(chan struct{})}
}

// Hold calls run unless the caller's sender or vacant has reached its limit. A request for the
// host's own address has no vacant.
func (h *RequestCounter) Hold(c *Caller, run func() error) error {
	sender, vacant := countKeys(c)
	switch free, full := h.count(h.open, sender, vacant); {
	case free != nil:
		defer free()
		return run()
	case full == vacant:
		return &retryable{problem.New(problem.TooMany, "the agent has %d %s; try again", h.ofVacant, h.what), h.retry}
	}
	helps := h.helps
	if c.HasTasks {
		helps = h.taskHelps
	}
	return &retryable{problem.New(problem.TooMany, "you have %d %s; %s", h.ofSender, h.what, helps), h.retry}
}

// HoldInLine calls run as Hold does, but if a limit is reached, it first waits up to lineTime for
// another request to end. It is for requests whose clients wait for an answer anyway. The limits
// for active requests also apply, separately, to the waiting requests.
func (h *RequestCounter) HoldInLine(ctx context.Context, c *Caller, run func() error) error {
	sender, vacant := countKeys(c)
	free, full := h.takeInLine(ctx, sender, vacant)
	if free != nil {
		defer free()
		return run()
	}
	err := problem.New(problem.TooMany, "the agent answers %d requests, and none ended in time for this one; try again", h.ofVacant)
	if full == sender {
		err = problem.New(problem.TooMany, "%d of your requests are under way, and none ended in time for this one; send fewer at once, or try again", h.ofSender)
	}
	return &retryable{err, "1"}
}

// countKeys returns the keys by which a caller's requests are counted. The sender is an account, a
// token subject of an account (because many people may share the account), or the address of a
// guest.
func countKeys(c *Caller) (sender, vacant any) {
	sender = c.Address
	if c.Payer != nil {
		sender = c.Payer.Owner()
	}
	if c.Vacant.ID != (identity.ID{}) {
		vacant = c.Vacant.ID
	}
	return sender, vacant
}

// WaitCounter returns the counter for requests that wait for one answer of the caller's vacant. A slow
// vacant's requests count as streams, because they occupy as much.
func (c *Caller) WaitCounter() *RequestCounter {
	if c.IsSlow() {
		return c.s.Streams
	}
	return c.s.Answers
}

// retryable is a refusal with a Retry-After value in seconds.
type retryable struct {
	error
	after string
}

func (r *retryable) Unwrap() error { return r.error }

func CheckNewPair(ctx context.Context) error {
	h := http.Header{}
	if err := message.CheckNewPair(ctx, h); err != nil {
		return &retryable{err, h.Get("Retry-After")}
	}
	return nil
}

func (h *RequestCounter) takeInLine(ctx context.Context, sender, vacant any) (free func(), full any) {
	if free, full = h.count(h.open, sender, vacant); free != nil {
		return free, nil
	}
	leave, _ := h.count(h.inLine, sender, vacant)
	if leave == nil {
		return nil, full
	}
	defer leave()
	late := time.NewTimer(h.lineTime)
	defer late.Stop()
	for {
		h.mu.Lock()
		freed := h.freed
		h.mu.Unlock()
		if free, full = h.count(h.open, sender, vacant); free != nil {
			return free, nil
		}
		select {
		case <-freed:
		case <-late.C:
			return nil, full
		case <-ctx.Done():
			return nil, full
		}
	}
}

// count counts a request in the map in, and returns the function that ends the count. If a key has
// reached its limit, free is nil and full is the key. vacant may be nil.
func (h *RequestCounter) count(in map[any]int, sender, vacant any) (free func(), full any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	counted := []any{sender}
	switch {
	case in[sender] >= h.ofSender:
		return nil, sender
	case vacant != nil && in[vacant] >= h.ofVacant:
		return nil, vacant
	case vacant != nil:
		counted = append(counted, vacant)
	}
	for _, k := range counted {
		in[k]++
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, k := range counted {
			if in[k]--; in[k] == 0 {
				delete(in, k)
			}
		}
		if len(h.inLine) > 0 {
			close(h.freed)
			h.freed = make(chan struct{})
		}
	}, nil
}
