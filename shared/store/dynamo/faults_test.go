package dynamo_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/dynamo"
	"github.com/vacancy-host/vacancy/tests/dynamolocal"
	"github.com/vacancy-host/vacancy/tests/faultproxy"
)

func newAttempt() (a store.WriteID) {
	rand.Read(a[:])
	return a
}

// line is a store behind a proxy, and a store with the same tables without the proxy.
type line struct {
	proxy  *faultproxy.Proxy
	direct *dynamo.Store
	tables dynamo.TableNames
	n      int
}

func newLine(t *testing.T) *line {
	endpoint := dynamolocal.Start(t)
	tables := dynamolocal.Tables(t, endpoint)
	return &line{proxy: faultproxy.Start(t, endpoint), tables: tables,
		direct: dynamo.New(dynamolocal.Client(endpoint), tables)}
}

// faulty returns a store behind the proxy whose client tries as often as given and waits up to a
// second for a response. With a shorter timeout, an emulator on a busy machine fails requests
// without a fault.
func (l *line) faulty(tries int) *dynamo.Store {
	return dynamo.New(dynamolocal.Client(l.proxy.URL, func(o *dynamodb.Options) {
		o.RetryMaxAttempts = tries
		o.HTTPClient = awshttp.NewBuildableClient().WithTimeout(time.Second)
	}), l.tables)
}

// place names the targets of one case: a stream of one row, a balance of 10, a document to change
// and one to delete.
type place struct {
	l                      *line
	stream                 store.Stream
	balance, changed, gone store.Key
}

func (l *line) newPlace(t *testing.T) place {
	t.Helper()
	l.n++
	name := fmt.Sprintf("place %d", l.n)
	p := place{l: l, stream: store.Stream(name), balance: store.Key{Partition: name, Sort: "balance"},
		changed: store.Key{Partition: name, Sort: "changed"}, gone: store.Key{Partition: name, Sort: "gone"}}
	l.proxy.Set()
	for _, w := range []store.Write{
		store.Append{Stream: p.stream, Position: 1, WriteID: newAttempt(), Data: []byte("first")},
		store.Put{Key: p.balance, WriteID: newAttempt(), Number: 10},
		store.Put{Key: p.changed, WriteID: newAttempt(), Data: []byte("before")},
		store.Put{Key: p.gone, WriteID: newAttempt()},
	} {
		if err := l.direct.Commit(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// seen is the content of a place, read without the proxy.
type seen struct {
	Rows    []string
	Balance int64
	Changed string
	Version uint64 // of changed
	Gone    bool
}

func (p place) read(t *testing.T) seen {
	t.Helper()
	rows, err := p.l.direct.Rows(t.Context(), p.stream, 1, 100, store.Ascending)
	if err != nil {
		t.Fatal(err)
	}
	var s seen
	for i, r := range rows {
		if r.Position != uint64(i+1) {
			t.Errorf("row %d is at position %d", i+1, r.Position)
		}
		s.Rows = append(s.Rows, string(r.Data))
	}
	doc := func(k store.Key) store.Doc {
		d, err := p.l.direct.Doc(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	s.Balance = doc(p.balance).Number
	changed := doc(p.changed)
	s.Changed, s.Version = string(changed.Data), changed.Version
	s.Gone = doc(p.gone).Version == 0
	return s
}

// act is a kind of commit: its operation, its writes, and the content of a
// place after it was applied once.
type act struct {
	name, operation string
	writes          func(p place, who string) []store.Write
	after           func(who string) seen
}

var acts = []act{
	{"append", "PutItem", func(p place, who string) []store.Write {
		return []store.Write{store.Append{Stream: p.stream, Position: 2, WriteID: newAttempt(), Data: []byte(who)}}
	}, func(who string) seen {
		return seen{Rows: []string{"first", who}, Balance: 10, Changed: "before", Version: 1}
	}},
	{"put", "PutItem", func(p place, who string) []store.Write {
		return []store.Write{store.Put{Key: p.changed, IfVersion: 1, WriteID: newAttempt(), Data: []byte(who)}}
	}, func(who string) seen {
		return seen{Rows: []string{"first"}, Balance: 10, Changed: who, Version: 2}
	}},
	{"delete", "DeleteItem", func(p place, _ string) []store.Write {
		return []store.Write{store.Delete{Key: p.gone, IfVersion: 1}}
	}, func(string) seen {
		return seen{Rows: []string{"first"}, Balance: 10, Changed: "before", Version: 1, Gone: true}
	}},
	{"transaction", "TransactWriteItems", func(p place, who string) []store.Write {
		return []store.Write{
			store.Append{Stream: p.stream, Position: 2, WriteID: newAttempt(), Data: []byte(who)},
			store.Add{Key: p.balance, Delta: -6, Max: 100}, // a second time it would leave its bounds
			store.Put{Key: p.changed, IfVersion: 1, WriteID: newAttempt(), Data: []byte(who)},
			store.Delete{Key: p.gone, IfVersion: 1},
		}
	}, func(who string) seen {
		return seen{Rows: []string{"first", who}, Balance: 4, Changed: who, Version: 2, Gone: true}
	}},
}

// heard lists the faults after which even a client with a single try gets its acknowledgement,
// because the adapter itself retries a conflict.
var heard = []faultproxy.Fault{faultproxy.Delay, faultproxy.Twice, faultproxy.TwiceLater, faultproxy.Conflict}

// reached lists the faults with which a request is applied at once.
var reached = []faultproxy.Fault{faultproxy.DropAnswer, faultproxy.FailAfter, faultproxy.HangAfter,
	faultproxy.Delay, faultproxy.Twice, faultproxy.TwiceLater, faultproxy.Conflict}

// eachFault runs a test for every act and every fault on its request.
func eachFault(t *testing.T, l *line, proof func(t *testing.T, a act, f faultproxy.Fault, p place)) {
	for _, a := range acts {
		for _, f := range faultproxy.Faults() {
			t.Run(a.name+"/"+f.String(), func(t *testing.T) {
				p := l.newPlace(t)
				l.proxy.Set(faultproxy.Rule{Operation: a.operation, Nth: 1, Fault: f, For: 20 * time.Millisecond})
				proof(t, a, f, p)
			})
		}
	}
}

func TestFaultyWriteSentAgainIsAppliedOnce(t *testing.T) {
	l := newLine(t)
	for _, tries := range []int{1, 3} {
		s := l.faulty(tries)
		t.Run(fmt.Sprintf("tries=%d", tries), func(t *testing.T) {
			eachFault(t, l, func(t *testing.T, a act, f faultproxy.Fault, p place) {
				writes := a.writes(p, "mine")
				err := s.Commit(t.Context(), writes...)
				if acknowledged := tries > 1 || slices.Contains(heard, f); acknowledged != (err == nil) {
					t.Errorf("Commit() = %v, want acknowledged: %v", err, acknowledged)
				}
				if err != nil && !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("Commit() = %v, want nil or ErrUnavailable", err)
				}
				if err := s.Commit(t.Context(), writes...); err != nil {
					t.Errorf("Commit() again = %v, want nil", err)
				}
				if diff := cmp.Diff(a.after("mine"), p.read(t)); diff != "" {
					t.Errorf("after sending it again (-want +got):\n%s", diff)
				}
				if _, err := l.proxy.Release(); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(a.after("mine"), p.read(t)); diff != "" {
					t.Errorf("after the late request (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestFaultyWriteAndItsRivalAreNeverBothApplied(t *testing.T) {
	l := newLine(t)
	s := l.faulty(1)
	eachFault(t, l, func(t *testing.T, a act, f faultproxy.Fault, p place) {
		if a.name == "delete" {
			return // two deletes of one version are the same request
		}
		mine, rival := a.writes(p, "mine"), a.writes(p, "rival")
		if err := s.Commit(t.Context(), mine...); err != nil && !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("Commit() = %v, want nil or ErrUnavailable", err)
		}
		winner, first, second := "rival", l.direct.Commit(t.Context(), rival...), error(nil)
		if _, err := l.proxy.Release(); err != nil {
			t.Fatal(err)
		}
		second = s.Commit(t.Context(), mine...)
		if slices.Contains(reached, f) {
			winner, first, second = "mine", second, first
		}
		if first != nil || !refused(a, second, winner) {
			t.Errorf("the winner heard %v, the other %v", first, second)
		}
		if diff := cmp.Diff(a.after(winner), p.read(t)); diff != "" {
			t.Errorf("after both (-want +got):\n%s", diff)
		}
	})
}

// refused reports whether err is the loser's refusal.
func refused(a act, err error, winner string) bool {
	if taken, ok := errors.AsType[*store.TakenError](err); ok {
		return a.name != "put" && string(taken.Occupant.Data) == winner
	}
	conflict, ok := errors.AsType[*store.ConflictError](err)
	return ok && a.name == "put" && conflict.Version == 2
}

func TestFaultyReadIsRightOrUnavailable(t *testing.T) {
	l := newLine(t)
	p := l.newPlace(t)
	reads := []struct {
		name, operation string
		read            func(s *dynamo.Store) (any, error)
	}{
		{"Tip", "Query", func(s *dynamo.Store) (any, error) { return s.Tip(t.Context(), p.stream) }},
		{"Rows", "Query", func(s *dynamo.Store) (any, error) {
			return s.Rows(t.Context(), p.stream, 1, 10, store.Ascending)
		}},
		{"Doc", "GetItem", func(s *dynamo.Store) (any, error) { return s.Doc(t.Context(), p.balance) }},
		{"Docs", "Query", func(s *dynamo.Store) (any, error) {
			docs, _, err := s.Docs(t.Context(), store.Range{Partition: p.balance.Partition}, 10, "")
			return docs, err
		}},
		{"Walk", "Scan", func(s *dynamo.Store) (any, error) {
			var names []store.Stream
			err := s.Walk(t.Context(), func(v store.View) (err error) {
				names, _, err = v.Streams(t.Context(), "", 10, "")
				return err
			})
			return names, err
		}},
	}
	for _, r := range reads {
		want, err := r.read(l.direct)
		if err != nil {
			t.Fatal(err)
		}
		for _, tries := range []int{1, 3} {
			s := l.faulty(tries)
			for _, f := range faultproxy.Faults() {
				l.proxy.Set(faultproxy.Rule{Operation: r.operation, Nth: 1, Fault: f, For: 20 * time.Millisecond})
				got, err := r.read(s)
				switch {
				case err == nil:
					if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
						t.Errorf("%s, %v, %d tries (-want +got):\n%s", r.name, f, tries, diff)
					}
				case !errors.Is(err, store.ErrUnavailable):
					t.Errorf("%s, %v, %d tries = %v, want ErrUnavailable", r.name, f, tries, err)
				case tries > 1 && f != faultproxy.Conflict: // reads meet no conflict
					t.Errorf("%s, %v, %d tries = %v, want nil", r.name, f, tries, err)
				}
			}
		}
	}
}

func TestAppendWithoutProofIsNotSentWhenItsProofCannotBeRead(t *testing.T) {
	l := newLine(t)
	p := l.newPlace(t)
	s := l.faulty(1)
	a := store.Append{Stream: p.stream, Position: 2, WriteID: newAttempt()}
	for _, f := range []faultproxy.Fault{faultproxy.Drop, faultproxy.DropAnswer, faultproxy.Throttle, faultproxy.Hang} {
		l.proxy.Set(faultproxy.Rule{Operation: "GetItem", Fault: f})
		if err := s.Commit(t.Context(), a); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("Commit() after %v = %v, want ErrUnavailable", f, err)
		}
	}
	if got := l.proxy.Seen("PutItem"); got != 0 {
		t.Errorf("%d requests to put, want 0", got)
	}
	l.proxy.Set()
	if err := s.Commit(t.Context(), a); err != nil {
		t.Errorf("Commit() = %v, want nil", err)
	}
}

func TestConflictsAreRetriedWithinTheContext(t *testing.T) {
	l := newLine(t)
	s := l.faulty(1)
	for _, a := range acts {
		t.Run(a.name, func(t *testing.T) {
			p := l.newPlace(t)
			conflict := func(nth int) faultproxy.Rule {
				return faultproxy.Rule{Operation: a.operation, Nth: nth, Fault: faultproxy.Conflict}
			}
			l.proxy.Set(conflict(1), conflict(2), conflict(3))
			if err := s.Commit(t.Context(), a.writes(p, "mine")...); err != nil {
				t.Errorf("Commit() after three conflicts = %v, want nil", err)
			}
			if diff := cmp.Diff(a.after("mine"), p.read(t)); diff != "" {
				t.Errorf("after three conflicts (-want +got):\n%s", diff)
			}

			if a.name == "put" || a.name == "delete" {
				return // no need to wait for these as well
			}
			p = l.newPlace(t)
			l.proxy.Set(conflict(0))
			before := l.proxy.Seen(a.operation)
			if err := s.Commit(t.Context(), a.writes(p, "mine")...); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("Commit() among conflicts without end = %v, want ErrUnavailable", err)
			}
			if got := l.proxy.Seen(a.operation) - before; got != 8 {
				t.Errorf("%d tries among conflicts without end, want 8", got)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
			defer cancel()
			err := s.Commit(ctx, a.writes(p, "mine")...)
			if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Commit() = %v, want ErrUnavailable and the context's end", err)
			}
		})
	}
}

func TestHangingServerEndsWithTheContext(t *testing.T) {
	l := newLine(t)
	p := l.newPlace(t)
	endless := dynamo.New(dynamolocal.Client(l.proxy.URL, func(o *dynamodb.Options) {
		o.HTTPClient = &http.Client{}
	}), l.tables)
	for _, a := range acts {
		l.proxy.Set(faultproxy.Rule{Fault: faultproxy.Hang})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := endless.Commit(ctx, a.writes(p, "mine")...)
		cancel()
		if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: Commit() = %v, want ErrUnavailable and the context's end", a.name, err)
		}
	}
}

// The token recognizes an applied transaction for ten minutes, even if later writes have changed
// what its conditions compare.
func TestAppliedTransactionIsKnownAfterItsDocumentsChanged(t *testing.T) {
	l := newLine(t)
	p := l.newPlace(t)
	s := l.faulty(1)
	put := func(k store.Key, version uint64, data string) store.Put {
		return store.Put{Key: k, IfVersion: version, WriteID: newAttempt(), Data: []byte(data)}
	}
	writes := []store.Write{put(p.changed, 1, "mine"), put(p.gone, 1, "mine")}
	l.proxy.Set(faultproxy.Rule{Operation: "TransactWriteItems", Nth: 1, Fault: faultproxy.DropAnswer})
	if err := s.Commit(t.Context(), writes...); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("Commit() = %v, want ErrUnavailable", err)
	}
	for _, k := range []store.Key{p.changed, p.gone} {
		if err := l.direct.Commit(t.Context(), put(k, 2, "later")); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Commit(t.Context(), writes...); err != nil {
		t.Errorf("Commit() again = %v, want nil: it was applied", err)
	}
	if got := p.read(t); got.Changed != "later" || got.Version != 3 {
		t.Errorf("the document is %q at version %d, want what came later", got.Changed, got.Version)
	}
}
