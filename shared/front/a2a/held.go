package a2a

import (
	"sync"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Streams that one sender may have open in a process, and that may be open of one vacant. A
// stream holds a connection and its memory for minutes, and on Lambda a whole instance.
const (
	maxStreamsOfSender = 16
	maxStreamsOfVacant = 64
)

// held counts the streams that are open.
type held struct {
	mu   sync.Mutex
	open map[any]int // by account, address or vacant
}

// hold runs a stream if its sender, an account or an address, and its vacant have one left.
func (d *api) hold(r *request, stream func() error) error {
	var sender any = caller.Origin(r.RemoteAddr)
	if r.payer != nil {
		sender = r.payer.Account
	}
	switch free, full := d.held.take(sender, r.vacant.ID); {
	case free == nil && full == sender:
		r.ResponseWriter.Header().Set("Retry-After", retrySeconds)
		return problem.New(problem.TooMany, "you have %d streams open; end one, or read the task with GetTask", maxStreamsOfSender)
	case free == nil:
		r.ResponseWriter.Header().Set("Retry-After", retrySeconds)
		return problem.New(problem.TooMany, "the agent has %d streams open; read the task with GetTask, or try again", maxStreamsOfVacant)
	default:
		defer free()
		return stream()
	}
}

// retrySeconds is told to who finds no stream left.
const retrySeconds = "5"

func (h *held) take(sender, vacant any) (free func(), full any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.open[sender] >= maxStreamsOfSender:
		return nil, sender
	case h.open[vacant] >= maxStreamsOfVacant:
		return nil, vacant
	}
	h.open[sender]++
	h.open[vacant]++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, k := range []any{sender, vacant} {
			if h.open[k]--; h.open[k] == 0 {
				delete(h.open, k)
			}
		}
	}, nil
}
