package push

import (
	"slices"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
)

// A slot is held for the time of one try.
const (
	maxAtOnce   = 128
	maxOfHost   = maxAtOnce / 4
	maxOfSender = maxAtOnce / 8
	// An owner, or a host that hangs, leaves slots to the other owners and hosts of a sender.
	maxOfOwner      = maxOfSender / 2
	maxOfSenderHost = maxOfSender / 2
	maxOfOwnerHost  = maxOfOwner / 2
)

// share is a sender, an owner of tasks, a host of URLs, or a combination of them.
type share struct {
	sender task.Sender
	owner  call.Owner
	host   string
}

// slots decides which configuration has the next slot. The senders take turns. Of a sender's
// configurations the one goes first whose owner, and then whose host, has the fewest slots.
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

// shares returns the shares that a slot of e counts for. The shares of its owner and its
// host within the sender come first, because load reads them.
func (e *entry) shares() [5]bounded {
	from, owner := e.from.id, e.task.Owner
	return [...]bounded{
		{share{sender: from, owner: owner}, maxOfOwner},
		{share{sender: from, host: e.host}, maxOfSenderHost},
		{share{sender: from, owner: owner, host: e.host}, maxOfOwnerHost},
		{share{sender: from}, maxOfSender},
		{share{host: e.host}, maxOfHost},
	}
}

// load returns how many slots the owner and the host of e hold; ok is false if e may have no
// slot.
func (s *slots) load(e *entry) (load [2]int, ok bool) {
	for i, b := range e.shares() {
		n := s.byShare[b.share]
		if n >= b.most {
			return load, false
		}
		if i < len(load) {
			load[i] = n
		}
	}
	return load, true
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
		at, least := -1, [2]int{}
		for i, e := range from.ready {
			if load, ok := s.load(e); ok && (at < 0 || slices.Compare(load[:], least[:]) < 0) {
				at, least = i, load
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
