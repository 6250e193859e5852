package push

import (
	"fmt"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
)

// A sender and a host have a share of the slots, however many configurations they have, and a slot
// that is given back is taken again.
func TestSharesOfSlots(t *testing.T) {
	for name, tt := range map[string]struct{ senders, hosts, want int }{
		"one of each":                  {1, 1, 4},
		"a sender with many hosts":     {1, 600, 16},
		"a host of many senders":       {600, 1, 32},
		"many senders with many hosts": {600, 600, 128},
	} {
		s := newSlots()
		for i := range 600 {
			from := s.ensureQueue(task.Sender(fmt.Sprint("sender", i%tt.senders)))
			s.enqueue(&entry{queue: from, host: fmt.Sprint(i % tt.hosts)})
		}
		var held []*entry
		for e := s.assignNext(); e != nil; e = s.assignNext() {
			held = append(held, e)
		}
		if len(held) != tt.want {
			t.Errorf("%s: %d slots, want %d", name, len(held), tt.want)
		}
		s.release(held[0])
		if s.assignNext() == nil || s.assignNext() != nil {
			t.Errorf("%s: a slot that is given back is not taken once", name)
		}
	}
}

// A configuration for which there was no room is read again as soon as there is room, so that
// later ones do not overtake it for ever.
func TestRoomIsForWhatWasMissed(t *testing.T) {
	p := &Pusher{Config: Config{Now: time.Now}, schedule: newSchedule()}
	p.takePending() // the first scan
	for i := range maxSenderEntries + 1 {
		p.addEntries([]task.ActivePushConfig{{Task: task.Ref{ID: fmt.Sprint(i)}, Config: task.PushConfig{URL: "https://a.example", ClientAddress: "1"}}}, true)
	}
	if !p.hasMissed || p.scanNeeded {
		t.Fatalf("missed %t, scan %t; want one that was missed and no scan yet", p.hasMissed, p.scanNeeded)
	}
	e := p.slots.assignNext()
	p.slots.release(e)
	p.applyOutcome(t.Context(), e, outcome{}, nil)
	if !p.scanNeeded {
		t.Error("there is room, and no scan")
	}
}
