package fsck_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/fsck"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/registrytest"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// busy is a host that works before each read of a check. A check of tables reads the current store
// and not a snapshot.
type busy struct {
	hosttest.Store
	tables bool
	before func(read string)
}

func (b busy) Walk(ctx context.Context, fn func(store.View) error) error {
	if b.tables {
		return fn(busyView{tables{b.Store}, b})
	}
	return b.Store.Walk(ctx, func(v store.View) error { return fn(busyView{v, b}) })
}

func (b busy) Docs(ctx context.Context, r store.Range, n int, cursor string) ([]store.Doc, string, error) {
	b.before("list of " + r.Partition)
	return b.Store.Docs(ctx, r, n, cursor)
}

type tables struct{ hosttest.Store }

func (t tables) Streams(ctx context.Context, prefix store.Stream, n int, cursor string) (names []store.Stream, next string, err error) {
	err = t.Walk(ctx, func(v store.View) error {
		names, next, err = v.Streams(ctx, prefix, n, cursor)
		return err
	})
	return names, next, err
}

type busyView struct {
	store.View
	busy busy
}

func (v busyView) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	v.busy.before(k.String())
	return v.View.Doc(ctx, k)
}

func (v busyView) Rows(ctx context.Context, s store.Stream, from uint64, n int, d store.Direction) ([]store.Row, error) {
	v.busy.before(s.String())
	return v.View.Rows(ctx, s, from, n, d)
}

func (v busyView) Streams(ctx context.Context, prefix store.Stream, n int, cursor string) ([]store.Stream, string, error) {
	v.busy.before("streams")
	return v.View.Streams(ctx, prefix, n, cursor)
}

// ways contains the ways to check a host without a snapshot.
var ways = map[string]func(c *caller, b busy) (fsck.Result, []fsck.Finding){
	"tables":                func(c *caller, b busy) (fsck.Result, []fsck.Finding) { return c.checkWith(b, fsck.Run) },
	"tables in small pages": func(c *caller, b busy) (fsck.Result, []fsck.Finding) { return c.checkWith(b, narrow) },
	"pages": func(c *caller, b busy) (fsck.Result, []fsck.Finding) {
		res, found, err := c.paged(b)
		c.Must(err)
		return res, found
	},
}

// wholeMeanwhile checks a host without damage. It runs one check for each step-th read of a kind,
// or of all kinds if kind is empty. In this check the host does something before this read. prepare
// runs before the check.
func wholeMeanwhile(t *testing.T, kind string, step int, open func(*testing.T) (c *caller, prepare func() (do func()))) {
	for way, check := range ways {
		t.Run(way, func(t *testing.T) {
			c, prepare := open(t)
			reads := 0
			check(c, busy{c.Store, true, func(read string) {
				if strings.HasPrefix(read, kind) {
					reads++
				}
			}})
			for at := 1; at <= reads && !t.Failed(); at += step {
				n, where, do := 0, "", prepare()
				res, found := check(c, busy{c.Store, true, func(read string) {
					if !strings.HasPrefix(read, kind) {
						return
					}
					if n++; n == at {
						where = read
						do()
					}
				}})
				if len(found) > 0 || res.ChangingFindings > 0 {
					t.Errorf("before read %d, of %s: found %v, %d changing", at, where, found, res.ChangingFindings)
				}
			}
		})
	}
}

func TestWhatChangesDuringACheckIsNoDamage(t *testing.T) {
	n := 0
	ofFirm := func(prepare func(f *firm) func()) func(*testing.T) (*caller, func() func()) {
		return func(t *testing.T) (*caller, func() func()) {
			f := newFirm(t, memory.New())
			return f.caller, func() func() { n++; return prepare(f) }
		}
	}
	ofRegistry := func(prepare func(l *listed) func()) func(*testing.T) (*caller, func() func()) {
		return func(t *testing.T) (*caller, func() func()) {
			l := actorHistory(t, memory.New())
			return l.caller, func() func() { n++; return prepare(l) }
		}
	}
	graduates := ofFirm(func(f *firm) func() {
		f.Time = f.Time.Add(25 * time.Hour)
		child := f.spawn(vacants.SpawnSpec{Parent: f.parent, Path: "D2", Name: fmt.Sprint("intern-", n), Substrate: "echo"})
		return func() { f.graduate(child, graduation.Accepted) }
	})
	for what, tc := range map[string]struct {
		kind string // of reads before which it happens
		step int
		open func(*testing.T) (*caller, func() func())
	}{
		"a plan": {"log#", 5, ofFirm(func(f *firm) func() {
			return func() {
				_, _, err := f.Vacants.SetPlan(f.Ctx, vacants.OperatorAsker(), f.parent, plan.Plan{
					Delegations: []plan.Delegation{{Child: "clerk", Task: fmt.Sprint("{input} ", n)}},
					OnFailure:   plan.Abort, Aggregate: plan.Aggregate{Method: plan.List},
				})
				f.Must(err)
			}
		})},
		"a delegation":                  {"log#", 5, ofFirm(func(f *firm) func() { return func() { f.delegate(f.junior, fmt.Sprint(n)) } })},
		"a graduation, and its slot":    {"gradwin#", 1, graduates},
		"a graduation, and its attempt": {"gradtry#", 1, graduates},
		"another slug": {"slug#", 1, ofRegistry(func(l *listed) func() {
			return func() {
				_, err := l.Vacants.Registry.SetListing(l.Ctx, l.child.ID(), listing.Listing{Venue: &listing.Venue{Slug: fmt.Sprint("demo-", n), Category: "agent", Location: "global"}})
				l.Must(err)
			}
		})},
	} {
		t.Run(what, func(t *testing.T) { wholeMeanwhile(t, tc.kind, tc.step, tc.open) })
	}
}

// Each reading finds a different slot without having read its attempt.
func TestAGraduationInEachReadingIsNoDamage(t *testing.T) {
	f, n := newFirm(t, memory.New()), 0
	for way, check := range ways {
		res, found := check(f.caller, busy{f.Store, true, func(read string) {
			if strings.HasPrefix(read, "gradwin#") {
				n++
				f.Time = f.Time.Add(25 * time.Hour)
				f.graduate(f.spawn(vacants.SpawnSpec{Parent: f.parent, Path: "D2", Name: fmt.Sprint("trainee-", n), Substrate: "echo"}), graduation.Accepted)
			}
		}})
		if len(found) > 0 || res.ChangingFindings != 1 {
			t.Errorf("%s: found %v and %d changing, want 1 changing", way, found, res.ChangingFindings)
		}
	}
}

func TestARevocationAndADeletionDuringACheckAreNoDamage(t *testing.T) {
	for way, check := range ways {
		l := actorHistory(t, memory.New())
		k := registrytest.Key(1)
		_, err := l.Vacants.Registry.Publish(l.Ctx, registrytest.NewPublication(t, k, registrytest.Draft{SignedAt: l.Time}))
		l.Must(err)
		spec := vacants.CreateSpec{Name: "short", Capability: "goes", Substrate: "echo"}
		made, err := l.Vacants.Create(l.Ctx, spec)
		l.Must(err)
		_, err = l.Vacants.Update(l.Ctx, made.ID, vacants.Changes{Agent: &definition.Agent{Provider: "echo", System: "short"}})
		l.Must(err)
		_, err = l.Vacants.Sink(l.Ctx, made.ID)
		l.Must(err)
		todo := map[string]func(){
			registry.RevokedKey(k.ID()).String(): func() { l.revoke(k, 2) },
			vacants.AgentKey(made.ID, 1).String(): func() {
				_, err := l.Vacants.Archive(l.Ctx, made.ID)
				l.Must(err)
				_, err = l.Vacants.Delete(l.Ctx, made.ID)
				l.Must(err)
				_, err = l.Vacants.Create(l.Ctx, spec)
				l.Must(err)
			},
		}
		_, found := check(l.caller, busy{l.Store, true, func(read string) {
			if do := todo[read]; do != nil {
				delete(todo, read)
				do()
			}
		}})
		if len(found) > 0 || len(todo) > 0 {
			t.Errorf("%s: found %v; %d things left to do", way, found, len(todo))
		}
	}
}

// between is a store whose host works before the second reading of a check.
type between struct {
	hosttest.Store
	readings int
	work     func()
}

func (b *between) Walk(ctx context.Context, fn func(store.View) error) error {
	if b.readings++; b.readings == 2 {
		b.work()
	}
	return b.Store.Walk(ctx, fn)
}

// The text of a finding may contain numbers that grow with each call.
func TestDamageIsFoundWhileAHostWorks(t *testing.T) {
	f := newFirm(t, memory.New())
	deliver := func(text string) {
		e := logbook.Delegation{Parent: f.parent, Child: f.junior, SubtaskKind: "str", TaskHash: identity.Sum([]byte(text))}
		f.Must(f.Vacants.AppendEntries(f.Ctx, vacants.LogEntry{ID: f.parent, Kind: logbook.KindDelegate, Payload: e.DelegatePayload()}, vacants.LogEntry{ID: f.junior, Kind: logbook.KindExecute, Payload: e.ExecutePayload()}))
	}
	lost := logbook.Delegation{Parent: f.parent, Child: f.junior, SubtaskKind: "str", TaskHash: identity.Sum([]byte("lost"))}
	f.Must(f.Vacants.AppendEntries(f.Ctx, vacants.LogEntry{ID: f.parent, Kind: logbook.KindDelegate, Payload: lost.DelegatePayload()}, vacants.LogEntry{}))
	if _, found := f.checkWith(&between{Store: f.Store, work: func() { deliver("more") }}, fsck.Run); len(found) != 1 || found[0].Check != fsck.Kin {
		t.Errorf("a task that a child never got: found %v", found)
	}

	c, a := paying(t, memory.New())
	b := c.OpenBilling()
	worked := &between{Store: c.Store, work: func() {
		_, _, err := b.Credit(c.Ctx, a.ID, 1000, "meanwhile", "")
		c.Must(err)
	}}
	_, found := c.checkWith(&altered{Store: worked, docs: map[store.Key]func(store.Doc) store.Doc{billing.AccountKey(a.ID): func(d store.Doc) store.Doc {
		stored, err := billing.AccountDocs.Parse(d)
		c.Must(err)
		stored.LastPosition += 10
		d.Data, err = billing.AccountDocs.Encode(stored)
		c.Must(err)
		return d
	}}}, fsck.Run)
	if len(found) != 1 || found[0].Check != fsck.Money {
		t.Errorf("an account with another number of changes: found %v", found)
	}
}
