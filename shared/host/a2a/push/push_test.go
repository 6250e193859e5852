package push_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/a2a/push"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func TestEventsAreDeliveredInTheirOrder(t *testing.T) {
	inBubble(t, streams(3, 2*time.Second), func(w *world) {
		c := to("a.example", "1")
		<-w.begins(w.turn("hi", &c))
		time.Sleep(time.Minute)
		got := w.got("a.example")
		if diff := cmp.Diff([]string{"task WORKING", "piece", "COMPLETED"}, slices.Compact(allTold(got))); diff != "" {
			t.Errorf("deliveries (-want +got):\n%s", diff)
		}
		if text := pieces(t, got); text != "0 1 2 " {
			t.Errorf("the pieces are %q", text)
		}
	})
}

// While one process waits for a receiver that answers slowly, another does not send the same event.
func TestTwoProcessesDeliverAnEventOnce(t *testing.T) {
	bubble(t, running, after(time.Minute), func(w *world) {
		w.hosts["slow.example"] = func(context.Context, int) int { time.Sleep(8 * time.Second); return http.StatusOK }
		c := to("slow.example", "1")
		turn := w.turn("hi", &c)
		ended := w.begins(turn) // by the first process
		w.got("slow.example")   // waits until the first try is under way
		w.start()               // the second finds the task at once
		<-ended
		time.Sleep(time.Minute)
		told := map[string]int{}
		for _, s := range w.got("slow.example") {
			if told[s.body]++; told[s.body] == 2 {
				t.Errorf("told twice: %s", s.body)
			}
		}
		if len(told) != 3 {
			t.Errorf("%d events were told, want the task, its work and its end", len(told))
		}
	})
}

// A receiver that fails is tried five times, then only the end of the task is told.
func TestAFailingReceiverIsToldTheEnd(t *testing.T) {
	inBubble(t, after(10*time.Minute), func(w *world) {
		w.hosts["a.example"], w.hosts["b.example"] = fails, failsBut(7)
		a, b := to("a.example", "1"), to("b.example", "1")
		turn := w.turn("hi", &a)
		began := time.Now()
		done := w.begins(turn)
		w.adds(turn.Ref, b)
		<-done
		time.Sleep(10 * time.Minute)
		var tries []time.Duration
		got := w.got("a.example")
		for _, s := range got {
			tries = append(tries, s.at.Sub(began).Round(time.Second))
		}
		const s, end = time.Second, 600 * time.Second
		want := []time.Duration{0, s, 6 * s, 31 * s, 156 * s, end, end + s, end + 6*s, end + 31*s, end + 156*s}
		if diff := cmp.Diff(want, tries, near); diff != "" {
			t.Errorf("tries (-want +got):\n%s", diff)
		}
		if got[4].body != got[0].body || told(got[4]) != "task WORKING" || told(got[5]) != "COMPLETED" {
			t.Errorf("the tries are of %v", allTold(got))
		}
		if last := w.got("b.example"); len(last) != 7 || told(last[6]) != "COMPLETED" {
			t.Errorf("a receiver that takes the seventh try has had %v", allTold(last))
		}
	})
}

// A receiver that the host must not ask is asked once, and its configuration ends.
func TestAForbiddenReceiverIsNotTriedAgain(t *testing.T) {
	inBubble(t, after(time.Minute), func(w *world) {
		w.hosts["a.example"] = forbidden
		a := to("a.example", "1")
		<-w.begins(w.turn("hi", &a))
		time.Sleep(10 * time.Minute)
		if got := w.got("a.example"); len(got) != 1 {
			t.Errorf("a forbidden address got %v, want one try", allTold(got))
		}
	})
}

// A receiver that asks for time gets it, in seconds or by a date, for an hour at most.
func TestAReceiverChoosesTheTimeBeforeTheNextTry(t *testing.T) {
	for name, tt := range map[string]struct {
		retryAfter string
		status     int
		want       time.Duration
	}{
		"seconds":              {"90", http.StatusTooManyRequests, 90 * time.Second},
		"seconds of a 503":     {"90", http.StatusServiceUnavailable, 90 * time.Second},
		"a date":               {"Sat, 01 Jan 2000 00:02:00 GMT", http.StatusTooManyRequests, 2 * time.Minute}, // bubbles begin at midnight
		"a date before":        {"Sat, 01 Jan 1999 00:02:00 GMT", http.StatusTooManyRequests, time.Second},
		"a day":                {"86400", http.StatusTooManyRequests, time.Hour},
		"less than the wait":   {"0", http.StatusTooManyRequests, time.Second},
		"no number":            {"soon", http.StatusTooManyRequests, time.Second},
		"a negative number":    {"-90", http.StatusTooManyRequests, time.Second},
		"a number of 20 nines": {strings.Repeat("9", 20), http.StatusTooManyRequests, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, echo, func(w *world) {
				w.retryAfter = tt.retryAfter
				w.hosts["a.example"] = func(_ context.Context, n int) int {
					return map[bool]int{true: tt.status, false: http.StatusOK}[n == 1]
				}
				a := to("a.example", "1")
				<-w.begins(w.turn("hi", &a))
				time.Sleep(2 * time.Hour)
				got := w.got("a.example")
				if len(got) < 2 || got[1].body != got[0].body {
					t.Fatalf("the receiver got %v", allTold(got))
				}
				if wait := got[1].at.Sub(got[0].at); wait < tt.want || wait > tt.want+5*time.Second {
					t.Errorf("the second try came after %s, want %s", wait, tt.want)
				}
			})
		})
	}
}

// A receiver that is gone ends its configuration.
func TestAReceiverThatIsGoneIsNotTriedAgain(t *testing.T) {
	inBubble(t, after(time.Minute), func(w *world) {
		w.hosts["a.example"] = func(context.Context, int) int { return http.StatusGone }
		a, b := to("a.example", "1"), to("b.example", "1")
		turn := w.turn("hi", &a)
		done := w.begins(turn)
		w.adds(turn.Ref, b)
		<-done
		time.Sleep(10 * time.Minute)
		if got := w.got("a.example"); len(got) != 1 {
			t.Errorf("the receiver got %v, want one try", allTold(got))
		}
		if got := allTold(w.got("b.example")); len(got) == 0 || got[len(got)-1] != "COMPLETED" {
			t.Errorf("another receiver of the task got %v", got)
		}
	})
}

// near takes times of two ways as equal: a notice may come a second or two late.
var near = cmp.Comparer(func(a, b time.Duration) bool { return (a - b).Abs() <= 5*time.Second })

// The end of a task is told whatever came before, whatever else fails.
func TestTheEndIsAlwaysTold(t *testing.T) {
	many := func(ctx context.Context, _ *call.Host, _ envelope.Envelope) (envelope.Message, error) {
		for i := range 150 {
			call.Report(ctx, call.ProvisionalEvent{Detail: task.Chunk{Artifact: task.Artifact{ID: fmt.Sprint("a", i), Parts: []task.Part{{Kind: task.Text, Text: "x"}}}, Last: true}})
		}
		return says("done"), nil
	}
	large := func(ctx context.Context, _ *call.Host, _ envelope.Envelope) (envelope.Message, error) {
		for i := range 20 {
			call.Report(ctx, call.ProvisionalEvent{Detail: task.Chunk{Artifact: task.Artifact{ID: fmt.Sprint("a", i), Parts: []task.Part{{Kind: task.Text, Text: strings.Repeat("x", 200<<10)}}}, Last: true}})
		}
		return says("done"), nil
	}
	for name, tt := range map[string]struct {
		behave call.Behaviour
		most   int
		answer bool // all of it arrives
	}{
		"160 pieces":            {streams(160, time.Second), push.MaxDeliveries, true},
		"150 artifacts":         {many, push.MaxDeliveries, false},
		"artifacts of 4 MB":     {large, push.MaxDeliveries, false},
		"an answer of one word": {echo, 3, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, tt.behave, func(w *world) {
				w.hosts["hangs.example"], w.hosts["fails.example"] = hangs, fails
				turn := w.turn("hi", &task.PushConfig{ID: "1", URL: "https://a.example/hook", ClientAddress: "1"})
				old := to("old.example", "1")
				old.Dialect = v03
				done := w.begins(turn)
				for _, c := range []task.PushConfig{old, to("hangs.example", "1"), to("fails.example", "1")} {
					w.adds(turn.Ref, c)
				}
				<-done
				time.Sleep(20 * time.Minute)
				got, of03 := w.got("a.example"), w.got("old.example")
				if last := told(got[len(got)-1]); last != "COMPLETED" || len(got) > tt.most {
					t.Errorf("%d deliveries, want at most %d; the last is %.80s", len(got), tt.most, last)
				}
				if last := of03[len(of03)-1].body; !strings.Contains(last, `"state":"completed"`) || len(of03) > tt.most {
					t.Errorf("%d deliveries in 0.3, want at most %d; the last is %.80s", len(of03), tt.most, last)
				}
				final, _, err := w.tasks.Snapshot(w.t.Context(), turn.Ref)
				if err != nil {
					t.Fatal(err)
				}
				if text := final.Artifacts[len(final.Artifacts)-1].Parts[0].Text; tt.answer && pieces(t, got) != text {
					t.Errorf("the pieces are %.80q of %d bytes, the answer is %.80q of %d", pieces(t, got), len(pieces(t, got)), text, len(text))
				}
				all, _ := w.everything()
				for _, s := range all {
					if len(s.body) > 1<<20 {
						t.Errorf("a delivery of %d bytes", len(s.body))
					}
				}
			})
		})
	}
}

// Nothing goes out by a configuration that was removed or replaced, however often its
// receiver is still to be tried.
func TestARemovedConfigurationIsNotTriedAgain(t *testing.T) {
	inBubble(t, after(10*time.Minute), func(w *world) {
		w.hosts["removed.example"], w.hosts["replaced.example"] = fails, fails
		removed, replaced := to("removed.example", "1"), to("replaced.example", "1")
		turn := w.turn("hi", &removed)
		done := w.begins(turn)
		w.adds(turn.Ref, replaced)
		time.Sleep(3 * time.Second)
		tries := len(w.got("removed.example")) + len(w.got("replaced.example"))
		if tries != 4 {
			t.Fatalf("%d tries in 3 s, want 4", tries)
		}
		if err := w.tasks.RemovePushConfig(w.t.Context(), turn.Ref, removed.ID); err != nil {
			t.Fatal(err)
		}
		by := to("new.example", "1")
		by.ID = replaced.ID
		w.adds(turn.Ref, by)
		<-done
		time.Sleep(10 * time.Minute)
		if now := len(w.got("removed.example")) + len(w.got("replaced.example")); now != tries {
			t.Errorf("%d tries after that", now-tries)
		}
		if got := allTold(w.got("new.example")); !slices.Equal(got, []string{"task WORKING", "piece", "COMPLETED"}) {
			t.Errorf("the new one has %v", got)
		}
	})
}

// A configuration that changes after it was read and before its try is not tried.
func TestAConfigurationThatChangesBeforeItsTryIsNotTried(t *testing.T) {
	for name, change := range map[string]func(w *world, r task.Ref) error{
		"removed": func(w *world, r task.Ref) error { return w.tasks.RemovePushConfig(w.t.Context(), r, "a.example") },
		"replaced": func(w *world, r task.Ref) error {
			c := to("b.example", "1")
			c.ID = "a.example"
			_, err := w.tasks.AddPushConfig(w.t.Context(), r, c)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, after(10*time.Minute), func(w *world) {
				w.hosts["a.example"] = fails
				a := to("a.example", "1")
				turn := w.turn("hi", &a)
				done := w.begins(turn)
				if n := len(w.got("a.example")); n > 1 {
					t.Fatalf("%d tries at once", n)
				}
				time.Sleep(500 * time.Millisecond)
				w.store.mu.Lock()
				w.store.afterRead = func() {
					if err := change(w, turn.Ref); err != nil {
						t.Error(err)
					}
				}
				w.store.mu.Unlock()
				<-done
				time.Sleep(time.Minute)
				if n := len(w.got("a.example")); n != 1 {
					t.Errorf("%d tries, want the one before the change", n)
				}
			})
		})
	}
}

// A try that is made again has the same events, whatever has come in between.
func TestATryIsMadeAgainAsItWas(t *testing.T) {
	inBubble(t, streams(20, time.Second), func(w *world) {
		w.hosts["a.example"] = func(_ context.Context, n int) int {
			return map[bool]int{true: http.StatusBadGateway, false: http.StatusOK}[n >= 2 && n < 5]
		}
		a := to("a.example", "1")
		<-w.begins(w.turn("hi", &a))
		time.Sleep(5 * time.Minute)
		got := w.got("a.example")
		for _, s := range got[2:5] {
			if s.body != got[1].body {
				t.Errorf("a try of %s after one of %s", s.body, got[1].body)
			}
		}
		if text := pieces(t, append(got[:1:1], got[4:]...)); !strings.HasPrefix(text, "0 1 2 ") || !strings.HasSuffix(text, "18 19 ") {
			t.Errorf("the pieces are %q", text)
		}
	})
}

// A configuration that is replaced again and again has the notices of one.
func TestAReplacedConfigurationHasNoNoticesAnyMore(t *testing.T) {
	bubble(t, notified, after(13*time.Minute), func(w *world) {
		a := to("a.example", "1")
		turn := w.turn("hi", &a)
		done := w.begins(turn)
		for range 20 {
			w.adds(turn.Ref, a)
			time.Sleep(time.Second)
		}
		time.Sleep(3 * time.Minute)
		before := w.handled.Load()
		time.Sleep(5 * time.Minute)
		if n := w.handled.Load() - before; n < 8 || n > 12 { // one each 30 s
			t.Errorf("%d notices in 5 minutes, want 10", n)
		}
		<-done
	})
}

// A task that ends between two tries changes none of what was to be told before.
func TestATaskEndsBetweenTwoTries(t *testing.T) {
	inBubble(t, after(3*time.Second), func(w *world) {
		w.hosts["a.example"] = failsBut(3)
		a := to("a.example", "1")
		<-w.begins(w.turn("hi", &a))
		time.Sleep(time.Minute)
		got := w.got("a.example")
		if diff := cmp.Diff([]string{"task WORKING", "task WORKING", "task WORKING", "piece", "COMPLETED"}, allTold(got)); diff != "" {
			t.Errorf("tries (-want +got):\n%s", diff)
		}
	})
}

// A configuration that is set on a task that has ended brings the task as it is. Only one of
// them does, whatever its id, and whatever was removed before.
func TestOneConfigurationOfAnEndedTaskDelivers(t *testing.T) {
	inBubble(t, echo, func(w *world) {
		text := strings.Repeat("x", 60<<10)
		turn := w.turn(text, nil)
		<-w.begins(turn)
		for i := range 20 {
			c := to(fmt.Sprintf("%d.example", i), "1")
			c.ID = fmt.Sprint("c", i%4)
			w.adds(turn.Ref, c)
			if i%3 == 0 {
				time.Sleep(time.Minute)
				if err := w.tasks.RemovePushConfig(w.t.Context(), turn.Ref, c.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(time.Minute)
		if got := w.got("0.example"); len(got) != 1 || told(got[0]) != "task COMPLETED" || strings.Count(got[0].body, text) != 3 {
			t.Errorf("the first has %v", allTold(got))
		}
		if sent, _ := w.everything(); len(sent) != 1 {
			t.Errorf("%d deliveries, want one", len(sent))
		}
		all, err := w.tasks.ListPushConfigs(w.t.Context(), turn.Ref)
		if err != nil || len(all) == 0 {
			t.Errorf("ListPushConfigs() = %v, %v; want those that were set", all, err)
		}
	})
}

// What a task sends is bounded by its size, whatever is set on it and whoever fails. What is
// beyond it tells the state without texts.
func TestTheBytesOfATaskAreBounded(t *testing.T) {
	text := strings.Repeat("x", 100<<10)
	late := func(_ context.Context, _ *call.Host, e envelope.Envelope) (envelope.Message, error) {
		time.Sleep(13 * time.Minute)
		return says(e.Payload.Text()), nil
	}
	inBubble(t, late, func(w *world) {
		turn := w.turn(text, nil)
		done := w.begins(turn)
		for i := range 30 {
			c := to(fmt.Sprintf("%d.example", i), "1")
			c.ID = fmt.Sprint("c", i%4)
			if i < 10 {
				w.hosts[c.ID+".example"] = fails
			}
			w.adds(turn.Ref, c)
			time.Sleep(20 * time.Second)
		}
		<-done
		time.Sleep(10 * time.Minute)
		b, err := w.tasks.ReadBacklog(w.t.Context(), task.Notice{Task: turn.Ref})
		if err != nil {
			t.Fatal(err)
		}
		sum, small := 0, 0
		all, _ := w.everything()
		for _, s := range all {
			if len(s.body) < 1024 {
				small++
			} else {
				sum += len(s.body)
			}
		}
		if most := push.MaxTaskBytes(b.EventBytes); sum > most || sum < most/3 || small < 5 {
			t.Errorf("%d bytes and %d deliveries without texts, want at most %d bytes", sum, small, most)
		}
		whole := 0
		for i := 26; i < 30; i++ {
			got := w.got(fmt.Sprintf("%d.example", i))
			last := got[len(got)-1]
			if told(last) != "COMPLETED" {
				t.Errorf("receiver %d has %v", i, allTold(got))
			}
			if strings.Contains(last.body, text) {
				whole++
			}
		}
		if whole < 2 { // half of the bytes are kept for the end
			t.Errorf("%d receivers have the end with its text, want 2", whole)
		}
	})
}

// The bytes that all tasks of a sender send in an hour are bounded, even if their
// owners and receivers differ. Later deliveries of this sender come without texts;
// deliveries of other senders are complete.
func TestTheBytesOfASenderAreBounded(t *testing.T) {
	bubble(t, running, echo, func(w *world) {
		text := strings.Repeat("x", 300<<10) // is there three times
		n := 0
		send := func(from string) (size int) {
			t.Helper()
			turn := w.turn(text, nil)
			turn.Owner = call.KeyOwner(turn.Caller)
			<-w.begins(turn)
			n++
			c := to(fmt.Sprintf("%d.example", n), from)
			w.adds(turn.Ref, c)
			time.Sleep(time.Second)
			got := w.got(c.ID)
			if len(got) != 1 || told(got[0]) != "task COMPLETED" {
				t.Fatalf("deliveries: %v", allTold(got))
			}
			return len(got[0].body)
		}
		for hour := range 2 {
			time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
			sum := 0
			for {
				size := send("1")
				if size < len(text) {
					break
				}
				sum += size
			}
			if most := 64 << 20; sum > most || sum < most-(1<<20) {
				t.Errorf("hour %d: %d bytes with texts, want nearly %d", hour, sum, most)
			}
			if size := send("2"); size < len(text) {
				t.Errorf("hour %d: another sender has %d bytes", hour, size)
			}
		}
	})
}

// A piece that the bytes of the hour do not cover ends the pieces up to the next status, also in
// the next hour. Then one delivery has all of them.
func TestPiecesEndWithTheBytesOfASender(t *testing.T) {
	bubble(t, running, streams(20, 10*time.Second), func(w *world) {
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(59 * time.Minute)))
		w.spends(task.SenderOf(call.GuestOwner, "1"), 64<<20)
		a := to("a.example", "1")
		<-w.begins(w.turn("hi", &a))
		time.Sleep(time.Minute)
		got := allTold(w.got("a.example"))
		if diff := cmp.Diff([]string{"task WORKING", "piece", "COMPLETED"}, got); diff != "" {
			t.Errorf("deliveries (-want +got):\n%s", diff)
		}
	})
}

// An account may send sixteen times the bytes of an address.
func TestAnAccountSendsMoreBytesThanAnAddress(t *testing.T) {
	bubble(t, running, echo, func(w *world) {
		text := strings.Repeat("x", 300<<10)
		for owner, most := range map[call.Owner]int64{call.AccountOwner(strings.Repeat("ac", 32), ""): 1 << 30, call.GuestOwner: 64 << 20} {
			for _, left := range []int64{1 << 20, 1 << 10} {
				w.spends(task.SenderOf(owner, "1"), most-left)
				turn := w.turn(text, nil)
				turn.Owner = owner
				<-w.begins(turn)
				c := to(fmt.Sprintf("%d.%d.example", most, left), "1")
				w.adds(turn.Ref, c)
				time.Sleep(time.Second)
				if got := w.got(c.ID); len(got) != 1 || (len(got[0].body) > len(text)) != (left == 1<<20) {
					t.Errorf("an owner with %d bytes left of %d: %d deliveries", left, most, len(got))
				}
			}
		}
	})
}

// 256 dead receivers of one owner delay another owner's notifications by nothing, however
// they die and whatever their names are.
func TestDeadReceiversDelayNobodyElse(t *testing.T) {
	for name, dead := range map[string]func(context.Context, int) int{"refuses": fails, "hangs": hangs} {
		for _, hosts := range []int{1, 256} {
			t.Run(fmt.Sprintf("%s, %d hosts", name, hosts), func(t *testing.T) {
				bubble(t, running, echo, func(w *world) {
					for i := range 256 {
						host := fmt.Sprintf("%d.dead.example", i%hosts)
						w.hosts[host] = dead
						c := to(host, "1")
						<-w.begins(w.turn("hi", &c))
					}
					// The victim's come at all times of the tries.
					var delays []time.Duration
					for i := range 40 {
						c := to(fmt.Sprintf("%d.example", i), fmt.Sprint("victim", i))
						began := time.Now()
						<-w.begins(w.turn("hi", &c))
						time.Sleep(5 * time.Second)
						if got := w.got(c.ID); len(got) == 0 {
							delays = append(delays, 5*time.Second)
						} else {
							delays = append(delays, got[0].at.Sub(began))
						}
					}
					t.Logf("longest delay: %v", slices.Max(delays))
					if longest := slices.Max(delays); longest > 100*time.Millisecond {
						t.Errorf("delays: %v", delays)
					}
				})
			})
		}
	}
}

// Many owners whose receivers hang fill all slots. The next one has a slot as soon as one is
// given back.
func TestASlotThatIsGivenBackIsTakenAtOnce(t *testing.T) {
	bubble(t, running, echo, func(w *world) {
		began := time.Now()
		for i := range 20 * 16 {
			host := fmt.Sprintf("%d.dead.example", i)
			w.hosts[host] = hangs
			c := to(host, fmt.Sprint("owner", i%20))
			w.begins(w.turn("hi", &c))
		}
		time.Sleep(5 * time.Second)
		w.mu.Lock()
		first := len(w.sent)
		w.mu.Unlock()
		c := to("a.example", "victim")
		w.begins(w.turn("hi", &c))
		time.Sleep(6 * time.Second)
		got := w.got("a.example")
		if first != 128 || len(got) == 0 || got[0].at.Sub(began) > 10*time.Second+100*time.Millisecond {
			t.Errorf("%d slots; then %d deliveries in %v, want 128 and one after 10 s, when the first tries end", first, len(got), time.Since(began))
		}
	})
}

// Hosts that hang leave slots for the other receivers of their sender.
func TestHostsShareTheSlotsOfASender(t *testing.T) {
	bubble(t, running, echo, func(w *world) {
		attacker := call.KeyOwner(must(identity.NewKey(rand.Reader)).ID())
		for i := range 200 {
			host := fmt.Sprintf("%d.dead.example", i%2)
			w.hosts[host] = hangs
			c := to(host, "1")
			turn := w.turn("hi", &c)
			turn.Owner = attacker
			<-w.begins(turn)
		}
		for _, owner := range []call.Owner{attacker, call.GuestOwner} {
			name := map[bool]string{true: "own", false: "others"}[owner == attacker]
			for range 3 {
				began := time.Now()
				c := to(name+".example", "1")
				turn := w.turn("hi", &c)
				turn.Owner = owner
				before := len(w.got(c.ID))
				<-w.begins(turn)
				time.Sleep(15 * time.Second)
				got := w.got(c.ID)[before:]
				if len(got) == 0 || got[0].at.Sub(began) > 100*time.Millisecond {
					t.Errorf("%s: %d deliveries in 15 s, want one at once", name, len(got))
				}
			}
		}
	})
}

// A delivery that waits for its next try has no slot: not even its own sender's others wait.
func TestAWaitTakesNoSlot(t *testing.T) {
	bubble(t, running, echo, func(w *world) {
		for i := range 64 {
			host := fmt.Sprintf("%d.dead.example", i)
			w.hosts[host] = fails
			c := to(host, "1")
			<-w.begins(w.turn("hi", &c))
		}
		for _, later := range []time.Duration{2 * time.Second, 6 * time.Second, 30 * time.Second} {
			time.Sleep(later)
			c := to(fmt.Sprintf("%d.example", later), "1")
			began := time.Now()
			<-w.begins(w.turn("hi", &c))
			time.Sleep(time.Second)
			if got := w.got(c.ID); len(got) == 0 || got[0].at.Sub(began) > 100*time.Millisecond {
				t.Errorf("after %v: %d deliveries in a second", later, len(got))
			}
		}
	})
}

// What a sender has beyond its share stays in the store until there is room for it, and has
// the store read now and then, not at each notification.
func TestConfigurationsBeyondTheShareOfASenderWait(t *testing.T) {
	bubble(t, running, after(time.Minute), func(w *world) {
		const tasks, each = 300, task.MaxPushConfigs
		host := func(i int) string { return fmt.Sprintf("%d.dead.example", i) }
		for i := range tasks {
			w.hosts[host(i)] = fails
		}
		for i := range tasks {
			c := to(host(i), "1")
			c.Token = fmt.Sprint(i)
			turn := w.turn("hi", &c)
			w.begins(turn)
			for n := range each - 1 {
				c.ID = fmt.Sprint(n)
				c.Token = fmt.Sprint(i, n)
				w.adds(turn.Ref, c)
			}
		}
		began := time.Now()
		time.Sleep(30 * time.Second)
		scans := w.store.allRead()
		if most := 1 + int(time.Since(began)/(10*time.Second)); scans > most {
			t.Errorf("all configurations were read %d times in %v, want at most %d", scans, time.Since(began), most)
		}
		time.Sleep(time.Hour)
		all, _ := w.everything()
		tried := map[string]bool{}
		for _, s := range all {
			tried[s.header.Get("A2A-Notification-Token")] = true
		}
		if len(tried) != tasks*each {
			t.Errorf("%d configurations were tried in an hour, want %d", len(tried), tasks*each)
		}
	})
}

// A receiver's host that hangs for one sender takes others to it at once.
func TestSendersShareAHost(t *testing.T) {
	bubble(t, running, echo, func(w *world) {
		w.hosts["shared.example"] = hangs
		for range 256 {
			c := to("shared.example", "1")
			<-w.begins(w.turn("hi", &c))
		}
		time.Sleep(time.Second)
		n := len(w.got("shared.example"))
		began := time.Now()
		c := to("shared.example", "victim")
		<-w.begins(w.turn("hi", &c))
		time.Sleep(time.Second)
		got := w.got("shared.example")[n:]
		if len(got) == 0 || got[0].at.Sub(began) > 100*time.Millisecond {
			t.Errorf("%d deliveries at once", len(got))
		}
	})
}

// However many large tasks have something to tell, only some are in memory.
func TestFewTasksAreInMemory(t *testing.T) {
	bubble(t, running, echo, func(w *world) {
		w.hosts["a.example"] = hangs
		for i := range 200 {
			c := to(fmt.Sprintf("%d.example", i), fmt.Sprint("owner", i))
			w.hosts[c.ID] = hangs
			<-w.begins(w.turn("hi", &c))
		}
		time.Sleep(30 * time.Minute)
		if n := w.store.readAtOnce(); n > 4 {
			t.Errorf("%d tasks were read at once", n)
		}
		if all, _ := w.everything(); len(all) != 200*10 {
			t.Errorf("%d tries, want %d", len(all), 200*10)
		}
	})
}

// A process that starts again delivers what the one before had not: here the host dies after
// the last piece of an answer, and nobody has written the end of the task yet.
func TestANewProcessTellsTheEnd(t *testing.T) {
	stuck := func(ctx context.Context, _ *call.Host, _ envelope.Envelope) (envelope.Message, error) {
		for _, piece := range []string{"one ", "two"} {
			call.Report(ctx, call.ProvisionalEvent{Text: piece})
			time.Sleep(2 * time.Second)
		}
		time.Sleep(5 * time.Minute)
		return envelope.Message{}, ctx.Err()
	}
	inBubble(t, stuck, func(w *world) {
		a := to("a.example", "1")
		done := w.begins(w.turn("hi", &a))
		time.Sleep(10 * time.Second)
		before := allTold(w.got("a.example"))
		if !slices.Equal(slices.Compact(before), []string{"task WORKING", "piece"}) {
			t.Fatalf("before the crash: %v", before)
		}
		w.kill()
		time.Sleep(4 * time.Minute)
		if got := allTold(w.got("a.example"))[len(before):]; !slices.Equal(slices.Compact(got), []string{"FAILED"}) {
			t.Errorf("after the crash: %v", got)
		}
		<-done
	})
}

// What was tried and not taken is tried again by the next process.
func TestANewProcessGoesOn(t *testing.T) {
	inBubble(t, echo, func(w *world) {
		w.hosts["a.example"] = failsBut(3)
		a := to("a.example", "1")
		<-w.begins(w.turn("hi", &a))
		time.Sleep(3 * time.Second)
		w.kill()
		time.Sleep(time.Minute)
		if got := slices.Compact(allTold(w.got("a.example"))); !slices.Equal(got, []string{"task WORKING", "piece", "COMPLETED"}) {
			t.Errorf("deliveries: %v", got)
		}
	})
}

// A process that could not read the configurations at its start reads them again at once.
func TestAFailedReadOfAllIsRepeatedSoon(t *testing.T) {
	bubble(t, running, echo, func(w *world) {
		w.failing = 1
		w.kill()
		time.Sleep(3 * time.Second)
		if n := w.store.allRead(); n != 1 {
			t.Errorf("all configurations were read %d times after a failure, want once", n)
		}
	})
}

// An answer that fails takes its pieces back, also those whose delivery is still to be tried
// again. The end is told.
func TestTheEndIsToldAfterPiecesThatWereWithdrawn(t *testing.T) {
	fails := func(ctx context.Context, _ *call.Host, _ envelope.Envelope) (envelope.Message, error) {
		call.Report(ctx, call.ProvisionalEvent{Text: "half an answer"})
		time.Sleep(3 * time.Second)
		return envelope.Message{}, problem.New(problem.Unavailable, "the agent died")
	}
	inBubble(t, fails, func(w *world) {
		w.hosts["a.example"] = func(_ context.Context, n int) int { // the first try of the piece fails
			return map[bool]int{true: http.StatusInternalServerError, false: http.StatusOK}[n == 2 || n == 3]
		}
		a := to("a.example", "1")
		<-w.begins(w.turn("hi", &a))
		time.Sleep(time.Minute)
		got := allTold(w.got("a.example"))
		if !slices.Contains(got, "piece") || got[len(got)-1] != "FAILED" {
			t.Errorf("tries: %v", got)
		}
	})
}

// A task of many pieces reaches four receivers whole, one of which fails three times of four.
// Few tasks are in memory at once, and what waits for receivers is small.
func TestATaskOfManyPiecesReachesAllItsReceivers(t *testing.T) {
	inBubble(t, streams(1400, 550*time.Millisecond), func(w *world) {
		turn := w.turn("hi", nil)
		w.hosts["flaky.example"] = failsThreeOfFour
		done := w.begins(turn)
		names := []string{"a.example", "b.example", "old.example", "flaky.example"}
		for _, name := range names {
			c := to(name, "1")
			if name == "old.example" {
				c.Dialect = v03
			}
			w.adds(turn.Ref, c)
		}
		<-done
		time.Sleep(30 * time.Minute)
		final, _, err := w.tasks.Snapshot(w.t.Context(), turn.Ref)
		if err != nil {
			t.Fatal(err)
		}
		want := final.Artifacts[0].Parts[0].Text
		for _, name := range names {
			got := w.got(name)
			if name == "flaky.example" {
				var taken []sent
				for i := 3; i < len(got); i += 4 {
					taken = append(taken, got[i])
				}
				got = taken
			}
			if len(got) > push.MaxDeliveries {
				t.Errorf("%s: %d deliveries, want at most %d", name, len(got), push.MaxDeliveries)
			}
			last := got[len(got)-1]
			switch {
			case name == "old.example":
				if !strings.Contains(last.body, `"state":"completed"`) || !strings.Contains(last.body, want) {
					t.Errorf("%s: the last delivery is %.200s", name, last.body)
				}
			case told(last) != "COMPLETED" || pieces(t, got) != want:
				t.Errorf("%s: the last of %d deliveries is %s; %d bytes of pieces, want %d", name, len(got), told(last), len(pieces(t, got)), len(want))
			}
		}
		if _, most := w.everything(); w.store.readAtOnce() > 4 || most > 1<<20 {
			t.Errorf("%d tasks were read at once, and %d bytes in flight", w.store.readAtOnce(), most)
		}
	})
}

// A redirect is a failure, and is not followed.
func TestARedirectIsNotFollowed(t *testing.T) {
	inBubble(t, echo, func(w *world) {
		w.hosts["a.example"] = redirects
		a := to("a.example", "1")
		<-w.begins(w.turn("hi", &a))
		time.Sleep(10 * time.Minute)
		if got := w.got("a.example"); len(got) != 10 {
			t.Errorf("%d tries, want 10", len(got))
		}
	})
}

// A status is told whatever came before, in a task of many turns, too.
func TestEachStatusOfManyTurnsIsTold(t *testing.T) {
	asks := func(ctx context.Context, _ *call.Host, _ envelope.Envelope) (envelope.Message, error) {
		for i := range 4 {
			call.Report(ctx, call.ProvisionalEvent{Detail: task.Chunk{Artifact: task.Artifact{ID: fmt.Sprint("a", i), Parts: []task.Part{{Kind: task.Text, Text: "x"}}}, Last: true}})
		}
		call.Report(ctx, call.ProvisionalEvent{Detail: task.EndRequest{State: task.InputRequired}})
		return says("and?"), nil
	}
	inBubble(t, asks, func(w *world) {
		a := to("a.example", "1")
		turn := w.turn("hi", &a)
		const turns = 40
		for i := range turns {
			<-w.begins(turn)
			time.Sleep(time.Minute)
			turn.Continue, turn.Push = true, nil
			turn.Message.ID = fmt.Sprint("m", i+2)
		}
		count := map[string]int{}
		for _, s := range allTold(w.got("a.example")) {
			count[s]++
		}
		if count["INPUT_REQUIRED"] != turns || count["WORKING"] != turns-1 || count["piece"] >= push.MaxDeliveries {
			t.Errorf("deliveries: %v", count)
		}
	})
}

// The end of a task that waits for a message is told, too.
func TestTheCancelOfATaskThatWaitsIsTold(t *testing.T) {
	asks := func(ctx context.Context, _ *call.Host, _ envelope.Envelope) (envelope.Message, error) {
		call.Report(ctx, call.ProvisionalEvent{Detail: task.EndRequest{State: task.InputRequired}})
		return says("and?"), nil
	}
	inBubble(t, asks, func(w *world) {
		a := to("a.example", "1")
		turn := w.turn("hi", &a)
		<-w.begins(turn)
		time.Sleep(time.Minute)
		if _, err := w.tasks.Cancel(w.t.Context(), turn.Ref); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if all := allTold(w.got("a.example")); len(all) == 0 || all[len(all)-1] != "CANCELED" {
			t.Errorf("told: %v", all)
		}
	})
}

// A configuration that is replaced while the task runs does not bring everything again.
func TestAReplacedConfigurationBeginsWithTheTaskAsItIs(t *testing.T) {
	inBubble(t, streams(20, 2*time.Second), func(w *world) {
		a := to("a.example", "1")
		turn := w.turn("hi", &a)
		done := w.begins(turn)
		time.Sleep(25 * time.Second)
		sum := 0
		for range 10 {
			w.adds(turn.Ref, a)
			before := len(w.got("a.example"))
			time.Sleep(time.Millisecond * 100)
			if got := allTold(w.got("a.example")[before:]); len(got) > 1 {
				t.Errorf("a replacement brings %v", got)
			}
			sum++
		}
		<-done
		time.Sleep(time.Minute)
		tasks := 0
		all := allTold(w.got("a.example"))
		for _, s := range all {
			if strings.HasPrefix(s, "task ") {
				tasks++
			}
		}
		if tasks > 1+sum || all[len(all)-1] != "COMPLETED" {
			t.Errorf("deliveries: %v", all)
		}
	})
}

// A fault of the store loses no delivery.
func TestAFaultOfTheStoreLosesNoDelivery(t *testing.T) {
	for n := range 12 {
		inBubble(t, echo, func(w *world) {
			a := to("a.example", "1")
			turn := w.turn("hi", nil)
			<-w.begins(turn)
			w.store.fail(n)
			for {
				if _, err := w.tasks.AddPushConfig(w.t.Context(), turn.Ref, a); err == nil {
					break
				}
			}
			time.Sleep(5 * time.Minute)
			if got := slices.Compact(allTold(w.got("a.example"))); !slices.Equal(got, []string{"task COMPLETED"}) {
				t.Errorf("after a fault at call %d: %v", n, got)
			}
			w.store.fail(-1)
			if open, _, err := w.tasks.ListActivePushConfigs(w.t.Context(), ""); err != nil || len(open) != 0 {
				t.Errorf("after a fault at call %d: ListActivePushConfigs() = %d, %v; want none", n, len(open), err)
			}
		})
	}
}

func TestHeadersOfADelivery(t *testing.T) {
	for name, tt := range map[string]struct {
		config               task.PushConfig
		authorization, token string
	}{
		"nothing":                      {},
		"a token":                      {config: task.PushConfig{Token: "tok"}, token: "tok"},
		"Bearer":                       {config: task.PushConfig{Scheme: "Bearer", Credentials: "cred"}, authorization: "Bearer cred"},
		"Basic":                        {config: task.PushConfig{Scheme: "Basic", Credentials: "eDp5"}, authorization: "Basic eDp5"},
		"a scheme of somebody's own":   {config: task.PushConfig{Scheme: "Hawk", Credentials: `id="x", mac="y"`}, authorization: `Hawk id="x", mac="y"`},
		"a scheme without credentials": {config: task.PushConfig{Scheme: "Bearer", Token: "tok"}, token: "tok"},
	} {
		for _, dialect := range []uint8{0, v03} {
			inBubble(t, echo, func(w *world) {
				c := tt.config
				c.ID, c.URL, c.Dialect = "1", "https://a.example/hook", dialect
				<-w.begins(w.turn("hi", &c))
				time.Sleep(time.Minute)
				for _, s := range w.got("a.example") {
					for header, want := range map[string]string{"Authorization": tt.authorization, "A2A-Notification-Token": tt.token, "X-A2A-Notification-Token": tt.token} {
						if got, sent := s.header.Get(header), len(s.header.Values(header)) > 0; got != want || sent != (want != "") {
							t.Errorf("%s, dialect %d: %s is %q, want %q", name, dialect, header, got, want)
						}
					}
				}
			})
		}
	}
}
