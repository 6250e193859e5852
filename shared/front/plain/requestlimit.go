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
// most MaxUnaryTime. A list occupies the memory of its page until the client has read it.
var (
	streamLimit = requestLimit{16, 64, "streams open, or requests that wait for a slow agent", "wait for the end of one", "end one, or read the task with GetTask", "5"}
	answerLimit = requestLimit{64, 256, "answers under way", "wait for one", "wait for one, or send messages in the background", "1"}
	listLimit   = requestLimit{4, 64, "lists of tasks under way", "read an answer first", "read an answer first", "5"}
)

// requestLimit limits the concurrent requests of one kind per sender and per vacant. The strings
// are parts of its refusals.
type requestLimit struct {
	perSender, perVacant int
	requestKind          string
	advice, taskAdvice   string // advice to a sender without and with operations on tasks
	retryAfter           string // Retry-After of a refusal, in seconds
}

// maxAcquireWait limits how long a request waits in line for another request to end. The limit is
// short because refused clients retry.
const maxAcquireWait = 10 * time.Second

// RequestLimiter counts the concurrent requests of one kind.
type RequestLimiter struct {
	requestLimit
	maxAcquireWait time.Duration
	mu             sync.Mutex
	activeCounts   map[any]int   // active requests by owner, address or vacant
	waitingCounts  map[any]int   // waiting requests by the same keys
	requestEnded   chan struct{} // closed when a request ends while other requests wait
}

func newRequestLimiter(limit requestLimit) *RequestLimiter {
	return &RequestLimiter{requestLimit: limit, maxAcquireWait: maxAcquireWait, activeCounts: map[any]int{}, waitingCounts: map[any]int{}, requestEnded: make(chan struct{})}
}

// Run calls run unless the caller's sender or vacant has reached its limit. A request for the
// host's own address has no vacant.
func (l *RequestLimiter) Run(c *Caller, run func() error) error {
	sender, vacant := countKeys(c)
	switch release, fullKey := l.acquire(l.activeCounts, sender, vacant); {
	case release != nil:
		defer release()
		return run()
	case fullKey == vacant:
		return &retryableError{problem.New(problem.TooManyRequests, "the agent has %d %s; try again", l.perVacant, l.requestKind), l.retryAfter}
	}
	advice := l.advice
	if c.HasTasks {
		advice = l.taskAdvice
	}
	return &retryableError{problem.New(problem.TooManyRequests, "you have %d %s; %s", l.perSender, l.requestKind, advice), l.retryAfter}
}

// RunOrWait is like Run, but if a limit is reached, it first waits up to maxAcquireWait for another
// request to end. It is for requests whose clients wait for an answer anyway. As many requests may
// wait as may be active.
func (l *RequestLimiter) RunOrWait(ctx context.Context, c *Caller, run func() error) error {
	sender, vacant := countKeys(c)
	release, fullKey := l.acquireOrWait(ctx, sender, vacant)
	if release != nil {
		defer release()
		return run()
	}
	err := problem.New(problem.TooManyRequests, "the agent answers %d requests, and none ended in time for this one; try again", l.perVacant)
	if fullKey == sender {
		err = problem.New(problem.TooManyRequests, "%d of your requests are under way, and none ended in time for this one; send fewer at once, or try again", l.perSender)
	}
	return &retryableError{err, "1"}
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

// WaitLimiter returns the limiter for requests that wait for one answer of the caller's vacant. A
// slow vacant's requests count as streams, because they occupy as much.
func (c *Caller) WaitLimiter() *RequestLimiter {
	if c.IsSlow() {
		return c.service.Streams
	}
	return c.service.Answers
}

// retryableError is a refusal with a Retry-After value in seconds.
type retryableError struct {
	error
	retryAfter string
}

func (r *retryableError) Unwrap() error { return r.error }

func CheckNewPair(ctx context.Context) error {
	h := http.Header{}
	if err := message.CheckNewPair(ctx, h); err != nil {
		return &retryableError{err, h.Get("Retry-After")}
	}
	return nil
}

func (l *RequestLimiter) acquireOrWait(ctx context.Context, sender, vacant any) (release func(), fullKey any) {
	if release, fullKey = l.acquire(l.activeCounts, sender, vacant); release != nil {
		return release, nil
	}
	stopWaiting, _ := l.acquire(l.waitingCounts, sender, vacant)
	if stopWaiting == nil {
		return nil, fullKey
	}
	defer stopWaiting()
	timeout := time.NewTimer(l.maxAcquireWait)
	defer timeout.Stop()
	for {
		l.mu.Lock()
		requestEnded := l.requestEnded
		l.mu.Unlock()
		if release, fullKey = l.acquire(l.activeCounts, sender, vacant); release != nil {
			return release, nil
		}
		select {
		case <-requestEnded:
		case <-timeout.C:
			return nil, fullKey
		case <-ctx.Done():
			return nil, fullKey
		}
	}
}

// acquire counts a request in counts, and returns the function that ends the count. If a key has
// reached its limit, release is nil and fullKey is the key. vacant may be nil.
func (l *RequestLimiter) acquire(counts map[any]int, sender, vacant any) (release func(), fullKey any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := []any{sender}
	switch {
	case counts[sender] >= l.perSender:
		return nil, sender
	case vacant != nil && counts[vacant] >= l.perVacant:
		return nil, vacant
	case vacant != nil:
		keys = append(keys, vacant)
	}
	for _, k := range keys {
		counts[k]++
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, k := range keys {
			if counts[k]--; counts[k] == 0 {
				delete(counts, k)
			}
		}
		if len(l.waitingCounts) > 0 {
			close(l.requestEnded)
			l.requestEnded = make(chan struct{})
		}
	}, nil
}
