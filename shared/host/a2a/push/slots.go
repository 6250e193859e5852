package push

import (
	"slices"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
)

// Limits of slots in total, per host and per sender. A slot is held for the duration of one
// attempt.
const (
	maxAtOnce   = 128
	maxOfHost   = maxAtOnce / 4
	maxOfSender = maxAtOnce / 8
	// maxOfSenderHost leaves slots for the other hosts of a sender if one host hangs.
	maxOfSenderHost = maxOfSender / 4
)

// share is the key of a count of used slots. It selects the slots of a sender, the slots of a host
// of URLs, or, with both fields, the slots that a sender uses for a host.
type share struct {
	sender task.Sender
	host   string
}

// slots decides which configuration gets the next slot. The senders take turns. A sender's slot goes
// to the configuration whose host uses the fewest slots of this sender.
type slots struct {
	taken   int           // used slots
	byShare map[share]int // used slots
	senders map[task.Sender]*sender
	ring    []*sender // senders with configurations that wait for a slot
}

type sender struct {
	id      task.Sender
	entries int      // configurations that Run knows
	ready   []*entry // configurations that wait for a slot
}

func newSlots() slots { return slots{byShare: map[share]int{}, senders: map[task.Sender]*sender{}} }

func (s *slots) sender(id task.Sender) *sender {
	from := s.senders[id]
	if from == nil {
		from = &sender{id: id}
		s.senders[id] = from
	}
	return from
}

func (s *slots) wait(e *entry) {
	// The configuration is queued, and take gives it a slot later.
	if len(e.from.ready) == 0 {
		s.ring = append(s.ring, e.from)
	}
	e.from.ready = append(e.from.ready, e)
}

// bounded is a share and the maximum number of its slots.
type bounded struct {
	share
	most int
}

func (e *entry) shares() [3]bounded {
	// take compares the first share, so it must be the one of the sender and the host.
	return [...]bounded{
		{share{e.from.id, e.host}, maxOfSenderHost},
		{share{sender: e.from.id}, maxOfSender},
		{share{host: e.host}, maxOfHost},
	}
}

// take gives a slot to the next configuration. If no configuration may have one, take returns nil.
func (s *slots) take() *entry {
	if s.taken >= maxAtOnce {
		return nil
	}
	for range len(s.ring) {
		from := s.ring[0]
		s.ring = s.ring[1:]
		index, least := -1, 0
		for i, e := range from.ready {
			shares := e.shares()
			full := slices.ContainsFunc(shares[:], func(b bounded) bool { return s.byShare[b.share] >= b.most })
			if n := s.byShare[shares[0].share]; !full && (index < 0 || n < least) {
				index, least = i, n
			}
		}
		var e *entry
		if index >= 0 {
			e = from.ready[index]
			from.ready = slices.Delete(from.ready, index, index+1)
		}
		if len(from.ready) > 0 {
			s.ring = append(s.ring, from)
		}
		if e != nil {
			s.taken++
			e.holds = e.shares()
			for _, b := range e.holds {
				s.byShare[b.share]++
			}
			return e
		}
	}
	return nil
}

func (s *slots) release(e *entry) {
	s.taken--
	for _, b := range e.holds {
		if s.byShare[b.share]--; s.byShare[b.share] == 0 {
			delete(s.byShare, b.share)
		}
	}
}

func (s *slots) forget(from *sender) {
	if from.entries == 0 {
		delete(s.senders, from.id)
	}
}
