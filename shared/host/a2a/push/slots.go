package push

import (
	"slices"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
)

// A slot is held for the time of one try.
const (
	maxAtOnce   = 128
	maxOfHost   = maxAtOnce / 4
	maxOfSender = maxAtOnce / 8
	// maxOfSenderHost leaves slots to the other hosts of a sender if a host hangs.
	maxOfSenderHost = maxOfSender / 4
)

// share is a sender, a host of URLs, or a sender's host.
type share struct {
	sender task.Sender
	host   string
}

// slots decides which configuration has the next slot. The senders take turns. Of a sender's
// configurations the one goes first whose host has the fewest of the sender's slots.
type slots struct {
	taken   int
	byShare map[share]int
	senders map[task.Sender]*sender
	ring    []*sender // those with configurations that wait for a slot
}

// sender is a sender with configurations.
type sender struct {
	id      task.Sender
	entries int      // that Run knows
	ready   []*entry // that wait for a slot
}

func newSlots() slots { return slots{byShare: map[share]int{}, senders: map[task.Sender]*sender{}} }

// sender returns the sender of an id.
func (s *slots) sender(id task.Sender) *sender {
	from := s.senders[id]
	if from == nil {
		from = &sender{id: id}
		s.senders[id] = from
	}
	return from
}

// wait has a configuration wait for a slot.
func (s *slots) wait(e *entry) {
	if len(e.from.ready) == 0 {
		s.ring = append(s.ring, e.from)
	}
	e.from.ready = append(e.from.ready, e)
}

// bounded is a share with the most slots that it may hold.
type bounded struct {
	share
	most int
}

// shares returns the shares that a slot of e counts for. The share of the sender's host comes first,
// because take compares it.
func (e *entry) shares() [3]bounded {
	return [...]bounded{
		{share{e.from.id, e.host}, maxOfSenderHost},
		{share{sender: e.from.id}, maxOfSender},
		{share{host: e.host}, maxOfHost},
	}
}

// take gives a slot to the next configuration, or returns nil if no configuration may
// have one.
func (s *slots) take() *entry {
	if s.taken >= maxAtOnce {
		return nil
	}
	for range len(s.ring) {
		from := s.ring[0]
		s.ring = s.ring[1:]
		at, least := -1, 0
		for i, e := range from.ready {
			all := e.shares()
			full := slices.ContainsFunc(all[:], func(b bounded) bool { return s.byShare[b.share] >= b.most })
			if n := s.byShare[all[0].share]; !full && (at < 0 || n < least) {
				at, least = i, n
			}
		}
		var e *entry
		if at >= 0 {
			e = from.ready[at]
			from.ready = slices.Delete(from.ready, at, at+1)
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

// give takes a slot back.
func (s *slots) give(e *entry) {
	s.taken--
	for _, b := range e.holds {
		if s.byShare[b.share]--; s.byShare[b.share] == 0 {
			delete(s.byShare, b.share)
		}
	}
}

// forget drops a sender without configurations.
func (s *slots) forget(from *sender) {
	if from.entries == 0 {
		delete(s.senders, from.id)
	}
}
