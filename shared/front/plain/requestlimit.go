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

// A stream, or a request that waits for a slow vacant or for a task, occupies a connection for
// minutes, and on Lambda a complete instance.
var (
	streamLimit = requestLimit{16, 64, "streams open, or requests that wait for a slow agent", "wait until one of them ends", "end one, or read the task with GetTask", "5"}
	answerLimit = requestLimit{64, 256, "answers under way", "wait for one", "wait for one, or send messages in the background", "1"}
	listLimit   = requestLimit{4, 64, "lists of tasks under way", "read an answer first", "read an answer first", "5"}
)

type requestLimit struct {
	perSender, perVacant int
	requestKind          string
	advice, taskAdvice   string // taskAdvice is for senders with operations on tasks
	retryAfter           string
}

const maxAcquireWait = 10 * time.Second

type RequestLimiter struct {
	requestLimit
	maxAcquireWait time.Duration
	mu             sync.Mutex
	activeCounts   map[any]int
	waitingCounts  map[any]int
	requestEnded   chan struct{} // closed when a request ends while other requests wait
}

func newRequestLimiter(limit requestLimit) *RequestLimiter {
	return &RequestLimiter{requestLimit: limit, maxAcquireWait: maxAcquireWait, activeCounts: map[any]int{}, waitingCounts: map[any]int{}, requestEnded: make(chan struct{})}
}

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

// RunOrWait is like Run, but if a limit is reached, it waits up to maxAcquireWait for another
// request to end.
func (l *RequestLimiter) RunOrWait(ctx context.Context, c *Caller, run func() error) error {
	sender, vacant := countKeys(c)
	release, fullKey := l.acquireOrWait(ctx, sender, vacant)
	if release != nil {
		defer release()
		return run()
	}
	err := problem.New(problem.TooManyRequests, "the agent is answering %d requests, which is its limit; try again", l.perVacant)
	if fullKey == sender {
		err = problem.New(problem.TooManyRequests, "%d of your requests are in progress, which is the limit; send fewer at once, or try again", l.perSender)
	}
	return &retryableError{err, "1"}
}

// Many people may share an account, so each token subject of an account counts as a sender.
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

// WaitLimiter counts a request to a slow vacant as a stream, because it occupies as much.
func (c *Caller) WaitLimiter() *RequestLimiter {
	if c.IsSlow() {
		return c.service.Streams
	}
	return c.service.Answers
}

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

// If a key has reached its limit, release is nil. vacant may be nil.
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
