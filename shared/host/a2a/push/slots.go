package push

import (
	"slices"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
)

// A slot is held for one attempt.
const (
	maxSlots       = 128
	maxHostSlots   = maxSlots / 4
	maxSenderSlots = maxSlots / 8
	// maxSenderHostSlots leaves slots for the other hosts of a sender if one host hangs.
	maxSenderHostSlots = maxSenderSlots / 4
)

// share identifies slots by sender, by host, or by both.
type share struct {
	sender task.Sender
	host   string
}

// slots assigns slots to the senders in turn. A sender's slot goes to the configuration whose host
// uses the fewest slots of the sender.
type slots struct {
	usedSlots     int
	usedByShare   map[share]int
	senders       map[task.Sender]*senderQueue
	waitingQueues []*senderQueue
}

type senderQueue struct {
	id             task.Sender
	entryCount     int
	waitingEntries []*entry
}

func newSlots() slots {
	return slots{usedByShare: map[share]int{}, senders: map[task.Sender]*senderQueue{}}
}

func (s *slots) ensureQueue(id task.Sender) *senderQueue {
	queue := s.senders[id]
	if queue == nil {
		queue = &senderQueue{id: id}
		s.senders[id] = queue
	}
	return queue
}

func (s *slots) enqueue(e *entry) {
	if len(e.queue.waitingEntries) == 0 {
		s.waitingQueues = append(s.waitingQueues, e.queue)
	}
	e.queue.waitingEntries = append(e.queue.waitingEntries, e)
}

type boundedShare struct {
	share
	limit int
}

func (e *entry) shares() [3]boundedShare {
	// assignNext compares the first share, so it must be the one of the sender and the host.
	return [...]boundedShare{
		{share{e.queue.id, e.host}, maxSenderHostSlots},
		{share{sender: e.queue.id}, maxSenderSlots},
		{share{host: e.host}, maxHostSlots},
	}
}

func (s *slots) assignNext() *entry {
	if s.usedSlots >= maxSlots {
		return nil
	}
	for range len(s.waitingQueues) {
		queue := s.waitingQueues[0]
		s.waitingQueues = s.waitingQueues[1:]
		index, fewest := -1, 0
		for i, e := range queue.waitingEntries {
			shares := e.shares()
			isFull := slices.ContainsFunc(shares[:], func(b boundedShare) bool { return s.usedByShare[b.share] >= b.limit })
			if n := s.usedByShare[shares[0].share]; !isFull && (index < 0 || n < fewest) {
				index, fewest = i, n
			}
		}
		var e *entry
		if index >= 0 {
			e = queue.waitingEntries[index]
			queue.waitingEntries = slices.Delete(queue.waitingEntries, index, index+1)
		}
		if len(queue.waitingEntries) > 0 {
			s.waitingQueues = append(s.waitingQueues, queue)
		}
		if e != nil {
			s.usedSlots++
			e.usedShares = e.shares()
			for _, b := range e.usedShares {
				s.usedByShare[b.share]++
			}
			return e
		}
	}
	return nil
}

func (s *slots) release(e *entry) {
	s.usedSlots--
	for _, b := range e.usedShares {
		if s.usedByShare[b.share]--; s.usedByShare[b.share] == 0 {
			delete(s.usedByShare, b.share)
		}
	}
}

func (s *slots) removeIfEmpty(queue *senderQueue) {
	if queue.entryCount == 0 {
		delete(s.senders, queue.id)
	}
}
