package push

import (
	"fmt"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
)

// A sender, an owner and a host have a share of the slots, however many configurations they
// have, and a slot that is given back is taken again.
func TestSharesOfSlots(t *testing.T) {
	for name, tt := range map[string]struct{ senders, owners, hosts, want int }{
		"one of each":                   {1, 1, 1, 4},
		"an owner with many hosts":      {1, 1, 600, 8},
		"a sender with many owners":     {1, 600, 1, 8},
		"owners and hosts of a sender":  {1, 600, 600, 16},
		"a host of many senders":        {600, 1, 1, 32},
		"many senders with many hosts":  {600, 1, 600, 128},
		"senders, owners and all hosts": {600, 600, 600, 128},
	} {
		s := newSlots()
		for i := range 600 {
			from := s.sender(task.Sender(fmt.Sprint("sender", i%tt.senders)))
			s.wait(&entry{place: place{task: task.Ref{Owner: call.AccountOwner(fmt.Sprint(i%tt.owners), "")}}, from: from, host: fmt.Sprint(i % tt.hosts)})
		}
		var held []*entry
		for e := s.take(); e != nil; e = s.take() {
			held = append(held, e)
		}
		if len(held) != tt.want {
			t.Errorf("%s: %d slots, want %d", name, len(held), tt.want)
		}
		s.give(held[0])
		if s.take() == nil || s.take() != nil {
			t.Errorf("%s: a slot that is given back is not taken once", name)
		}
	}
}
