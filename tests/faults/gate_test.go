package faults

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation/gatetest"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/awshost"
	"github.com/vacancy-host/vacancy/tests/faultproxy"
	"github.com/vacancy-host/vacancy/tests/roundtrips"
)

// family makes vacants and children at a server over DynamoDB Local.
type family struct {
	server *serve.Server
	made   atomic.Int64
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func (f *family) vacant(tb testing.TB) identity.ID {
	tb.Helper()
	r, err := f.server.Vacants.Create(tb.Context(), vacants.CreateSpec{Name: fmt.Sprintf("vacant-%d", f.made.Add(1)), Capability: "echoes", Substrate: "echo"})
	must(tb, err)
	return r.ID
}

// children are n closed children with another substrate than their parent.
func (f *family) children(tb testing.TB, parent identity.ID, n int) []identity.ID {
	tb.Helper()
	ids := make([]identity.ID, n)
	for i := range ids {
		ids[i] = f.child(tb, parent, "http:https://child.example/answer")
	}
	return ids
}

func (f *family) child(tb testing.TB, parent identity.ID, substrate string) identity.ID {
	tb.Helper()
	r, _, err := f.server.Vacants.Spawn(tb.Context(), vacants.SpawnSpec{Parent: parent, Path: "D2", Name: fmt.Sprintf("child-%d", f.made.Add(1)), Substrate: substrate})
	must(tb, err)
	return r.ID
}

func (f *family) sign(tb testing.TB, r *composite.GraduationRequest) {
	tb.Helper()
	v := f.server.Vacants
	must(tb, v.WithSigner(tb.Context(), r.ParentID, func(s identity.Signer) error { return r.SignParent(tb.Context(), s) }))
	must(tb, v.WithSigner(tb.Context(), r.ChildID, func(s identity.Signer) error { return r.SignChild(tb.Context(), s) }))
}

func (f *family) request(tb testing.TB, parent, child identity.ID) graduation.Submission {
	tb.Helper()
	r := composite.GraduationRequest{ParentID: parent, ChildID: child, CapabilityText: "drafts contracts"}
	f.sign(tb, &r)
	return graduation.Submission{Request: r}
}

func TestTheGateOverDynamoDBLocal(t *testing.T) {
	h := awshost.New(t)
	s := h.Store(h.Endpoint)
	f := &family{server: h.Open(t, s, time.Now, nil)}
	gatetest.Run(t, gatetest.Fixture{
		Store:    s,
		Vacant:   func(t *testing.T) identity.ID { return f.vacant(t) },
		Children: func(t *testing.T, parent identity.ID, n int) []identity.ID { return f.children(t, parent, n) },
		SameSubstratePair: func(t *testing.T) (parent, child identity.ID) {
			parent = f.vacant(t)
			return parent, f.child(t, parent, "echo")
		},
		Sign:      func(t *testing.T, r *composite.GraduationRequest) { f.sign(t, r) },
		SetPolicy: func(t *testing.T, p gate.Policy) { must(t, f.server.Gate.SetPolicy(t.Context(), "", p)) },
		Revoke: func(t *testing.T, id identity.ID) {
			_, _, err := f.server.Vacants.Revoke(t.Context(), id, "test")
			must(t, err)
		},
		Submit: func(t *testing.T, sub graduation.Submission) (graduation.View, error) {
			st, err := f.server.Gate.Submit(t.Context(), sub)
			if err != nil {
				return graduation.View{}, err
			}
			return st.View(), nil
		},
	})
}

// Two hosts share the tables: each has its own locks, and neither knows of the
// other's. A request that was not decided in time is sent again, as its answer says.
func TestOf50GraduationsAtOnceOfTwoHostsThreeSucceed(t *testing.T) {
	const many, limit = 50, 3
	h := awshost.New(t)
	f := &family{server: h.Open(t, h.Store(h.Endpoint), time.Now, nil)}
	other := h.Open(t, h.Store(h.Endpoint), time.Now, nil)
	parent := f.vacant(t)
	var subs []graduation.Submission
	for _, child := range f.children(t, parent, many) {
		subs = append(subs, f.request(t, parent, child))
	}
	count := map[string]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for i, sub := range subs {
		all.Go(func() {
			service := []*graduation.Service{f.server.Gate, other.Gate}[i%2]
			st, err := service.Submit(t.Context(), sub)
			for problem.Is(err, problem.Unavailable) && t.Context().Err() == nil {
				st, err = service.Submit(t.Context(), sub)
			}
			word := string(st.Phase)
			if err != nil {
				word = err.Error()
			} else if st.Refusal != nil {
				word += " by " + st.Refusal.Error
			}
			mu.Lock()
			defer mu.Unlock()
			count[word]++
		})
	}
	all.Wait()
	if count["accepted"] != limit || count["refused by GraduationRateLimitError"] != many-limit {
		t.Errorf("Submit() of %d at once = %v, want %d accepted and all others refused by the rate limit", many, count, limit)
	}
	f.wantWhole(t, h.Store(h.Endpoint), parent, limit)
}

// wantWhole requires a number of parent's children to have graduated, each
// completely.
func (f *family) wantWhole(tb testing.TB, s store.Store, parent identity.ID, want int) {
	tb.Helper()
	w, _, err := graduation.WindowDocs.Get(tb.Context(), s, graduation.WindowKey(parent))
	must(tb, err)
	open := 0
	for cursor, more := "", true; more; more = cursor != "" {
		var page []vacants.Record
		page, cursor, err = f.server.Vacants.Children(tb.Context(), vacants.OperatorAsker(), parent, cursor, vacants.MaxPage)
		must(tb, err)
		for _, r := range page {
			m, _, err := f.server.Vacants.Manifest(tb.Context(), r.ID)
			must(tb, err)
			st, some, err := f.server.Gate.Latest(tb.Context(), r.ID)
			must(tb, err)
			accepted := some && st.Phase == graduation.Accepted
			if r.Closed != m.Manifest.ClosedByDefault || m.Graduated == r.Closed || accepted == r.Closed {
				tb.Errorf("child %s: closed by its record %v, by its manifest %v; graduated %v; accepted %v", r.ID.Short(), r.Closed, m.Manifest.ClosedByDefault, m.Graduated, accepted)
			}
			if !r.Closed {
				open++
			}
		}
	}
	if open != want || len(w.SlotTimes) != want {
		tb.Errorf("%d children have graduated and %d slots are taken, want %d", open, len(w.SlotTimes), want)
	}
}

// maxGraduationWrites and maxGraduationReads are the promised units of an
// accepted graduation, index and evidence included.
const (
	maxGraduationWrites = 45
	maxGraduationReads  = 50
)

func TestGraduationCapacity(t *testing.T) {
	h := awshost.New(t)
	f := &family{server: h.Open(t, h.Store(h.Endpoint), time.Now, nil)}
	parent := f.vacant(t)
	counter := &roundtrips.Counter{}
	s := h.Store(h.Endpoint, counter.Option)
	for i, child := range f.children(t, parent, 2) {
		sub := f.request(t, parent, child)
		out, _ := entryUnits(t, s, registry.ManifestKey(child)) // it moves within the index
		counter.Reset()
		st, err := h.Open(t, s, time.Now, nil).Gate.Submit(t.Context(), sub)
		if err != nil || st.Phase != graduation.Accepted {
			t.Fatalf("Submit() = %s %+v, %v, want accepted", st.Phase, st.Refusal, err)
		}
		writes, reads := counter.WriteUnits(), counter.ReadUnits()
		entry, _ := indexUnits(t, s, child)
		in, _ := entryUnits(t, s, registry.ManifestKey(child))
		entry += out + in
		writes += float64(entry)
		t.Logf("graduation %d: %v write units, %d of the index, and %v read units in %d requests", i+1, writes, entry, reads, len(counter.Operations()))
		if writes > maxGraduationWrites || reads > maxGraduationReads {
			t.Errorf("graduation %d: %v write units and %v read units, want at most %d and %d", i+1, writes, reads, maxGraduationWrites, maxGraduationReads)
		}
	}
}

// faultsOf are the faults of a request. A read has no outcome to lose.
func faultsOf(operation string) []faultproxy.Fault {
	if operation == "GetItem" || operation == "Query" {
		return []faultproxy.Fault{faultproxy.Drop, faultproxy.Throttle}
	}
	return slices.DeleteFunc(faultproxy.Faults(), func(f faultproxy.Fault) bool {
		return f == faultproxy.Hang || f == faultproxy.HangAfter // as long as a client waits, and then like a dropped connection
	})
}

// Every request of a graduation fails once in every way: it is decided all the
// same or fails completely, and sent again it is accepted.
func TestFaultInOneRequestOfAGraduation(t *testing.T) {
	h := newFixture(t)
	clean := h.Store(h.Endpoint)
	f := &family{server: h.Open(t, clean, time.Now, nil)}
	p := gate.DefaultPolicy()
	p.DailyLimit = gate.MaxDailyLimit
	must(t, f.server.Gate.SetPolicy(t.Context(), "", p))
	parent := f.vacant(t)
	counter := &roundtrips.Counter{}
	st, err := h.Open(t, h.Store(h.Endpoint, counter.Option), time.Now, nil).Gate.Submit(t.Context(), f.request(t, parent, f.children(t, parent, 1)[0]))
	if err != nil || st.Phase != graduation.Accepted {
		t.Fatalf("Submit() = %s %+v, %v, want accepted", st.Phase, st.Refusal, err)
	}
	requests := map[string]int{}
	for _, operation := range counter.Operations() {
		requests[operation]++
	}
	graduated := 1
	number := 0
	for _, operation := range slices.Sorted(maps.Keys(requests)) {
		for nth := 1; nth <= requests[operation]; nth++ {
			for _, fault := range faultsOf(operation) {
				if number++; !storetest.InSample(number) {
					continue
				}
				if graduated == graduation.MaxAttemptsOfParent { // in a day
					f.wantWhole(t, clean, parent, graduated)
					parent, graduated = f.vacant(t), 0
				}
				t.Run(fmt.Sprintf("%s %d, %v", operation, nth, fault), func(t *testing.T) {
					child := f.children(t, parent, 1)[0]
					sub := f.request(t, parent, child)
					proxy := faultproxy.Start(t, h.Endpoint)
					proxy.Set(faultproxy.Rule{Operation: operation, Nth: nth, Fault: fault, For: 20 * time.Millisecond})
					st, err := h.Open(t, h.faulty(proxy.URL, time.Second), time.Now, nil).Gate.Submit(t.Context(), sub)
					if err != nil && !problem.Is(err, problem.Unavailable) {
						t.Errorf("Submit() = %v, want nil or unavailable", err)
					}
					if _, err := proxy.Release(); err != nil {
						t.Fatal(err)
					}
					if err != nil || st.Phase != graduation.Accepted {
						if st, err = f.server.Gate.Submit(t.Context(), sub); err != nil || st.Phase != graduation.Accepted {
							t.Fatalf("Submit() again = %s %+v, %v, want accepted", st.Phase, st.Refusal, err)
						}
					}
					graduated++
				})
			}
		}
	}
	f.wantWhole(t, clean, parent, graduated)
}
