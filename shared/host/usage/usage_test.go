package usage_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/call/calltest"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/usage"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// ledger charges accounts that are identified by the first byte of the caller. It moves no money.
type ledger struct{ calltest.Ledger }

func (*ledger) Quote(_ context.Context, q call.QuoteRequest) (call.PaymentPlan, error) {
	if q.Pair.Caller[0]%4 == 0 {
		return call.PaymentPlan{Kind: call.PaidByFreeCall, Version: q.Price.Version}, nil
	}
	return call.PaymentPlan{Kind: call.PaidByAccount, Payer: account(q.Pair.Caller), Hold: 2000, Version: q.Price.Version}, nil
}

func (*ledger) Settle(_ context.Context, s call.SettlementRequest) (call.FinalCharge, error) {
	var used call.Usage
	if s.Usage != nil {
		used = *s.Usage
	}
	return call.FinalCharge{Charge: min(s.Price.Charge(used.InputTokens, used.OutputTokens), money.Amount(s.Row.Price))}, nil
}

func (*ledger) Debit(call.Pair, *call.PaymentPlan, *call.RequestRow) []store.Write { return nil }
func (*ledger) Refund(call.Pair, *call.RequestRow, bool) []store.Write             { return nil }
func (*ledger) Replan(_ context.Context, _ call.QuoteRequest, c *call.PaymentPlan, err error) (call.PaymentPlan, error) {
	return *c, err
}

// accounts is the number of accounts that pay.
const accounts = 10

func account(caller identity.ID) [32]byte { return [32]byte{1 + caller[1]%accounts} }

// payer returns an account that has paid or could have paid.
func (w *world) payer() string {
	for whose := range w.want {
		if whose != "owned" {
			return whose
		}
	}
	w.Fatal("no account has paid")
	return ""
}

// world is a data file with calls and their costs by outcome.
type world struct {
	testing.TB
	file   *bolt.Store
	clock  *calltest.Clock
	vacant *identity.Key
	host   *call.Host

	mu   sync.Mutex
	want map[string]usage.Counts // by account or "owned"
}

var noon = time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)

func newWorld(t testing.TB) *world {
	t.Helper()
	file, err := bolt.Open(filepath.Join(t.TempDir(), "data"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	w := &world{TB: t, file: file, clock: calltest.NewClock(noon), vacant: newKey(t), want: map[string]usage.Counts{}}
	w.sell(&price.Price{Version: 1, Flat: 2000, FeeBasisPoints: 1000}, &call.Usage{InputTokens: 3, OutputTokens: 2})
	return w
}

// sell sets a version of the vacant's price and the tokens that the agent reports from now on.
func (w *world) sell(p *price.Price, used *call.Usage) {
	w.Helper()
	data, err := price.VersionDocs.Encode(*p)
	w.must(err)
	w.must(w.file.Commit(context.Background(), store.Put{Key: price.VersionKey(w.vacant.ID(), p.Version), WriteID: store.WriteID{1}, Data: data}))
	w.host = call.New(call.Config{
		Store: w.file, Texts: &calltest.Texts{}, Now: w.clock.NowFunc(0), Rand: rand.Reader, Ledger: &ledger{},
		Directory: call.SingleVacant{ID: w.vacant.ID(), State: lifecycle.Active, Signer: w.vacant, Price: p, Tenant: "acme",
			Behaviour: func(ctx context.Context, _ *call.Host, e envelope.Envelope) (envelope.Message, error) {
				if used != nil {
					call.RecordUsage(ctx, *used)
				}
				if e.Payload.Text() == "fail" {
					return envelope.Message{}, errors.New("it fails")
				}
				return envelope.Message{Role: envelope.RoleAgent, Parts: []string{"yes"}}, nil
			}},
	})
}

func newKey(t testing.TB) *identity.Key {
	t.Helper()
	k, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// calls makes n calls of a new caller and sends each call again. Every third call fails.
func (w *world) calls(n int) {
	w.Helper()
	w.callsOf(newKey(w), n)
}

func (w *world) callsOf(k *identity.Key, n int) {
	w.Helper()
	var before *envelope.Envelope
	for i := range n {
		text := "hi"
		if i%3 == 2 {
			text = "fail"
		}
		e := &envelope.Envelope{From: k.ID(), To: w.vacant.ID(), Seq: 1, Time: w.clock.NowFunc(0)(), Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{text}}}
		if before != nil {
			e.Seq, e.Prev = before.Seq+1, before.Hash()
		}
		_, err := e.Sign(context.Background(), k)
		w.must(err)
		out := w.host.Send(context.Background(), identity.ID{}, e)
		w.host.Send(context.Background(), identity.ID{}, e)
		before = e
		c := usage.Counts{InputTokens: 3, OutputTokens: 2, Voids: 1}
		if out.Problem == nil {
			c = usage.Counts{InputTokens: 3, OutputTokens: 2, Answers: 1, Charge: out.Charge, Fee: out.Charge / 10}
		}
		w.mu.Lock()
		for _, whose := range []string{"owned", hex.EncodeToString(firstOf(account(k.ID())))} {
			if whose != "owned" && k.ID()[0]%4 == 0 {
				continue
			}
			sum := w.want[whose]
			sum.Add(c)
			w.want[whose] = sum
		}
		w.mu.Unlock()
	}
}

func firstOf(a [32]byte) []byte { return a[:] }

func (w *world) meter(s store.Store) *usage.Meter {
	return &usage.Meter{Store: s, Feed: w.file, Now: w.clock.NowFunc(0), Rand: rand.Reader,
		TenantOf: func(context.Context, identity.ID) (string, error) { return "acme", nil }}
}

// fold folds until no rows are left, despite faults.
func (w *world) fold(m *usage.Meter) {
	w.Helper()
	for range 1000 {
		if _, err := m.Fold(context.Background()); err == nil {
			return
		}
	}
	w.Fatal("Fold() fails for ever")
}

// check requires that usage equals the sum of the calls.
func (w *world) check() {
	w.Helper()
	got := map[string]usage.Counts{}
	add := func(whose string) func(usage.Hour) error {
		return func(h usage.Hour) error {
			if h.Vacant != w.vacant.ID() && h.Counts != (usage.Counts{}) {
				w.Errorf("usage of %s", h.Vacant)
			}
			sum := got[whose]
			sum.Add(h.Counts)
			got[whose] = sum
			return nil
		}
	}
	ctx := context.Background()
	w.must(usage.EachEarnedHour(ctx, w.file, "acme", time.Time{}, time.Time{}, add("owned")))
	for n := range byte(accounts) {
		id := hex.EncodeToString(firstOf([32]byte{1 + n}))
		w.must(usage.EachPaidHour(ctx, w.file, id, time.Time{}, time.Time{}, add(id)))
		var spent money.Amount
		w.must(usage.EachSpentDay(ctx, w.file, id, func(_ time.Time, amount money.Amount) error {
			spent += amount
			return nil
		}))
		if want := w.want[id].Charge; spent != want {
			w.Errorf("account %.4s… spent %s, want %s", id, spent, want)
		}
	}
	if diff := cmp.Diff(w.want, got); diff != "" {
		w.Errorf("usage (-want +got):\n%s", diff)
	}
}

func TestUsageIsWhatCallsCost(t *testing.T) {
	w := newWorld(t)
	m := w.meter(w.file)
	for range 3 {
		for range 30 { // more documents than a commit has
			w.calls(4)
		}
		w.clock.Advance(40 * time.Minute) // into other hours
		w.fold(m)
		w.check()
	}
	f, err := m.Fold(t.Context())
	if err != nil || f.Rows != 0 || f.Commits != 0 {
		t.Errorf("Fold() again = %+v, %v; want nothing to do", f, err)
	}
	w.calls(5)
	w.fold(w.meter(w.file)) // another process goes on where the first stopped
	w.check()
}

// The calls of a day are the owner's hours of that day, and not the hours of the day before.
func TestTheCallsOfADayAreAddedUp(t *testing.T) {
	w := newWorld(t)
	m := w.meter(w.file)
	w.calls(4)
	w.fold(m)
	w.clock.Advance(11 * time.Hour)
	w.calls(7)
	w.fold(m)
	first := w.want["owned"].Answers + w.want["owned"].Voids
	at := func(tenant string, now time.Time) uint64 {
		t.Helper()
		calls, err := usage.CallsOfDay(t.Context(), w.file, tenant, now)
		w.must(err)
		return calls[w.vacant.ID()]
	}
	if got := at("acme", w.clock.NowFunc(0)()); got != first || first < 11 {
		t.Errorf("CallsOfDay() = %d, want %d", got, first)
	}
	w.clock.Advance(2 * time.Hour) // past midnight
	w.calls(2)
	w.fold(m)
	now := w.clock.NowFunc(0)()
	if got, want := at("acme", now), w.want["owned"].Answers+w.want["owned"].Voids-first; got != want || got < 2 {
		t.Errorf("CallsOfDay() after midnight = %d, want %d", got, want)
	}
	if got := at("", now); got != 0 {
		t.Errorf("CallsOfDay() of another tenant = %d, want 0", got)
	}
}

// payingKey is the key of a caller that pays for its calls.
func payingKey(t testing.TB) *identity.Key {
	for {
		if k := newKey(t); k.ID()[0]%4 != 0 {
			return k
		}
	}
}

// stopping commits and then cancels the context, as if the host stopped.
type stopping struct {
	store.Store
	end context.CancelFunc
}

func (d stopping) Commit(ctx context.Context, writes ...store.Write) error {
	if err := d.Store.Commit(ctx, writes...); err != nil {
		return err
	}
	d.end()
	return ctx.Err()
}

// The hours of a commit whose result a stopping host does not see are reported nevertheless,
// because no later fold reports them.
func TestUnreportedAnswersAreToldByAFoldThatIsStopped(t *testing.T) {
	w := newPayingWorld(t)
	w.sell(&price.Price{Version: 2, Flat: 1, InputPrice: 1_000_000, MaxCharge: 2000}, nil)
	w.callsOf(payingKey(t), 2)
	ctx, end := context.WithCancel(t.Context())
	f, err := w.meter(stopping{w.file, end}).Fold(ctx)
	if len(f.UnreportedHours) != 1 {
		t.Errorf("Fold() = %+v, %v, want one hour with unreported answers", f, err)
	}
	f, err = w.meter(w.file).Fold(t.Context())
	if err != nil || len(f.UnreportedHours) > 0 {
		t.Errorf("the next Fold() = %+v, %v, want nothing new", f, err)
	}
}

func TestUsageCountsAnswersWithoutTheTokensThatTheirPriceIsBy(t *testing.T) {
	flat, tokens := price.Price{Flat: 2000}, price.Price{Flat: 1, InputPrice: 1_000_000, MaxCharge: 2000}
	w := newPayingWorld(t)
	m := w.meter(w.file)
	for i, tt := range []struct {
		name       string
		price      price.Price
		used       *call.Usage
		unreported uint64 // of two answers
	}{
		{"all reported", tokens, &call.Usage{InputTokens: 3, OutputTokens: 2, Turns: 1}, 0},
		{"nothing reported", tokens, nil, 2},
		{"no turn reported", tokens, &call.Usage{Turns: 1, UnreportedTurns: 1}, 2},
		{"one of two turns reported", tokens, &call.Usage{InputTokens: 3, OutputTokens: 2, Turns: 2, UnreportedTurns: 1}, 2},
		{"nothing used", tokens, &call.Usage{Turns: 1}, 0},
		{"nothing reported, flat", flat, nil, 0},
		{"no turn reported, flat", flat, &call.Usage{Turns: 1, UnreportedTurns: 1}, 0},
	} {
		w.clock.Advance(time.Hour)
		hour := w.clock.NowFunc(0)().Truncate(time.Hour)
		tt.price.Version = uint64(i + 2)
		w.sell(&tt.price, tt.used)
		k, free := payingKey(t), newKey(t)
		for free.ID()[0]%4 != 0 {
			free = newKey(t)
		}
		w.callsOf(k, 3) // the last of them fails
		w.callsOf(free, 1)
		f, err := m.Fold(t.Context())
		w.must(err)
		w.callsOf(payingKey(t), 1)
		again, err := m.Fold(t.Context())
		w.must(err)
		var told []usage.Hour
		if tt.unreported > 0 {
			told = []usage.Hour{{Start: hour, Vacant: w.vacant.ID()}}
		}
		for i := range f.UnreportedHours {
			if f.UnreportedHours[i].UnreportedAnswers != tt.unreported {
				t.Errorf("%s: the fold tells of %d unreported answers, want %d", tt.name, f.UnreportedHours[i].UnreportedAnswers, tt.unreported)
			}
			f.UnreportedHours[i].Counts = usage.Counts{}
		}
		if diff := cmp.Diff(told, f.UnreportedHours); diff != "" || len(again.UnreportedHours) > 0 {
			t.Errorf("%s: the next fold tells of %v, the first (-want +got):\n%s", tt.name, again.UnreportedHours, diff)
		}
		want := tt.unreported * 3 / 2
		check := func(when string) {
			var owned, paid uint64
			w.must(usage.EachEarnedHour(t.Context(), w.file, "acme", hour, hour.Add(time.Hour), func(h usage.Hour) error { owned += h.UnreportedAnswers; return nil }))
			for n := range byte(accounts) {
				id := hex.EncodeToString(firstOf([32]byte{1 + n}))
				w.must(usage.EachPaidHour(t.Context(), w.file, id, hour, hour.Add(time.Hour), func(h usage.Hour) error { paid += h.UnreportedAnswers; return nil }))
			}
			if owned != want || paid != want {
				t.Errorf("%s: %d owned and %d paid answers are unreported %s, want %d", tt.name, owned, paid, when, want)
			}
		}
		check("after a fold")
		// Usage that was folded by an earlier version of the program has no such counts.
		w.clock.Advance(36 * time.Hour)
		n := w.damage("use#owned#acme", wrong, 9)
		if got, err := w.recount(w.file, w.folding); err != nil || got.Corrected < n {
			t.Fatalf("Recount() = %+v, %v, want %d corrected", got, err, n)
		}
		check("after a recount")
	}
}

// unsure is a store whose commits fail at random, before or after they are applied.
type unsure struct{ store.Store }

func (s unsure) Commit(ctx context.Context, writes ...store.Write) error {
	switch mathrand.IntN(3) {
	case 0:
		return store.NotAppliedError(errors.New("failed"))
	case 1:
		if err := s.Store.Commit(ctx, writes...); err != nil {
			return err
		}
		return errors.Join(store.ErrUnavailable, errors.New("lost"))
	}
	return s.Store.Commit(ctx, writes...)
}

func TestRivalMetersAndFaultsChangeNothing(t *testing.T) {
	w := newWorld(t)
	var all sync.WaitGroup
	done := make(chan bool)
	for range 3 {
		all.Go(func() {
			m := w.meter(unsure{w.file})
			for {
				_, _ = m.Fold(context.Background())
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 5 {
				w.calls(5)
			}
		})
	}
	callers.Wait()
	close(done)
	all.Wait()
	w.fold(w.meter(w.file))
	w.check()
}

// newPayingWorld returns a world with existing accounts, which a recount expects.
func newPayingWorld(t testing.TB) *world {
	t.Helper()
	w := newWorld(t)
	for n := range accounts {
		id := [32]byte{byte(1 + n)}
		one := billing.New(billing.Config{Store: w.file, Now: w.clock.NowFunc(0), Rand: io.MultiReader(bytes.NewReader(id[:]), rand.Reader)})
		_, err := one.OpenAccount(t.Context(), fmt.Sprint("payer", n), 1)
		w.must(err)
	}
	return w
}

// recount counts all rows again.
func (w *world) recount(s store.Store, fold func(context.Context) error) (usage.RecountResult, error) {
	r := usage.Recounter{Meter: w.meter(s), Rows: w.file, Fold: fold}
	return r.Recount(context.Background())
}

// folding returns the Fold of a Recounter for this file.
func (w *world) folding(context.Context) error {
	w.fold(w.meter(w.file))
	return nil
}

// damage overwrites each document of a partition and returns their number.
func (w *world) damage(partition, data string, number int64) int {
	w.Helper()
	docs, _, err := w.file.Docs(context.Background(), store.Range{Partition: partition}, store.MaxPage, "")
	w.must(err)
	for _, d := range docs {
		id, err := store.Updater{Store: w.file, Rand: rand.Reader}.NewWriteID()
		w.must(err)
		w.must(w.file.Commit(context.Background(), store.Put{Key: d.Key, IfVersion: d.Version, WriteID: id, Data: []byte(data), Number: number}))
	}
	return len(docs)
}

const wrong = `{"format":1,"answers":7}`

func TestRecountCorrectsWhatRowsDoNotSay(t *testing.T) {
	w := newPayingWorld(t)
	for range 40 {
		w.calls(3)
	}
	w.fold(w.meter(w.file))
	w.clock.Advance(36 * time.Hour)
	w.calls(3) // of an hour that is not over, and not folded
	nothing := func(when string) {
		t.Helper()
		if got, err := w.recount(w.file, w.folding); err != nil || got != (usage.RecountResult{}) {
			t.Fatalf("Recount() %s = %+v, %v, want nothing to do", when, got, err)
		}
		w.check()
	}
	nothing("of whole usage")
	one := w.payer()
	for _, of := range []struct{ partition, data string }{{"use#owned#acme", wrong}, {"use#owned#acme", "garbage"}, {"use#paid#" + one, wrong}, {"use#spent#" + one, ""}} {
		// Current documents are not corrected, so the test corrects all documents of today.
		n := w.damage(of.partition, of.data, 9)
		got, err := w.recount(w.file, w.folding)
		if err != nil || got.Corrected == 0 || got.Corrected > n || got.Changed > 0 {
			t.Fatalf("Recount() with wrong %s = %+v, %v, want up to %d corrected", of.partition, got, err, n)
		}
		w.clock.Advance(36 * time.Hour)
		if _, err = w.recount(w.file, w.folding); err != nil {
			t.Fatal(err)
		}
		nothing("after a correction of " + of.partition)
	}
}

// Usage without a row is removed.
func TestRecountEmptiesWhatHasNoRows(t *testing.T) {
	w := newPayingWorld(t)
	w.calls(3)
	w.fold(w.meter(w.file))
	w.clock.Advance(36 * time.Hour)
	extra := store.Key{Partition: "use#owned#acme", Sort: "2026-05-01T10#" + newKey(t).ID().String()}
	w.must(w.file.Commit(t.Context(), store.Put{Key: extra, WriteID: store.WriteID{7}, Data: []byte(wrong)}))
	if got, err := w.recount(w.file, w.folding); err != nil || got.Corrected != 1 {
		t.Fatalf("Recount() = %+v, %v, want 1 corrected", got, err)
	}
	w.check()
}

// A document that a meter changes after it was read is not corrected, because it may contain other
// rows than those that were read.
func TestRecountLeavesWhatIsFoldedMeanwhile(t *testing.T) {
	w := newPayingWorld(t)
	w.calls(6)
	w.fold(w.meter(w.file))
	w.calls(3)
	w.clock.Advance(36 * time.Hour)
	w.damage("use#owned#acme", wrong, 9)
	got, err := w.recount(w.file, w.folding) // which folds the last calls
	if err != nil || got.Changed == 0 {
		t.Fatalf("Recount() = %+v, %v, want documents that changed", got, err)
	}
	if _, err := w.recount(w.file, w.folding); err != nil {
		t.Fatal(err)
	}
	w.check()
}

// If the row of a call is damaged, usage may be its only record.
func TestRecountStopsAtARowThatIsDamaged(t *testing.T) {
	for _, request := range []bool{true, false} {
		w := newPayingWorld(t)
		k := newKey(t)
		w.callsOf(k, 3)
		pair := call.Pair{Caller: k.ID(), Vacant: w.vacant.ID()}
		last, err := w.file.Tip(t.Context(), pair.Responses())
		w.must(err)
		add := store.Append{Stream: pair.Responses(), Position: 4, WriteID: store.WriteID{4}, Data: []byte("garbage")}
		if request { // a decision of a request that is not there
			pair.Caller = newKey(t).ID()
			add = store.Append{Stream: pair.Responses(), Position: 1, WriteID: store.WriteID{4}, Data: last.Data}
		}
		w.must(w.file.Commit(t.Context(), add))
		w.fold(w.meter(w.file)) // metering goes on
		w.check()
		w.clock.Advance(36 * time.Hour)
		w.damage("use#owned#acme", wrong, 9)
		got, err := w.recount(w.file, w.folding)
		if !problem.Is(err, problem.Damaged) || !strings.Contains(err.Error(), " is not readable: usage was not corrected") || got != (usage.RecountResult{}) {
			t.Errorf("Recount() = %+v, %v, want that a row is not readable", got, err)
		}
	}
}

// The next recount completes a recount that was interrupted, even while meters run.
func TestRecountsThatFailChangeNothingElse(t *testing.T) {
	w := newPayingWorld(t)
	for range 10 {
		w.calls(6)
	}
	w.fold(w.meter(w.file))
	w.clock.Advance(36 * time.Hour)
	w.damage("use#owned#acme", wrong, 9)
	w.damage("use#paid#"+w.payer(), "", 0)
	w.calls(4)
	for commits := 0; ; commits++ {
		if commits == 100 {
			t.Fatal("Recount() is never done")
		}
		ctx, die := context.WithCancel(t.Context())
		r := usage.Recounter{Meter: w.meter(&dying{Store: w.file, left: commits, die: die}), Rows: w.file, Fold: w.folding}
		_, err := r.Recount(ctx)
		die()
		if commits == 0 && err == nil {
			t.Fatal("Recount() = nil with a store that dies")
		}
		if err == nil {
			break
		}
	}
	w.check()
}

// dying is a store that ends its process after some commits.
type dying struct {
	store.Store
	left int
	die  func()
}

func (s *dying) Commit(ctx context.Context, writes ...store.Write) error {
	if s.left == 0 {
		s.die()
		return store.NotAppliedError(context.Canceled)
	}
	s.left--
	return s.Store.Commit(ctx, writes...)
}

// A thousand rows of ten accounts must take at most 0.1 write units per row.
func TestAFoldTakesFewWriteUnits(t *testing.T) {
	w := newWorld(t)
	paying := map[[32]byte]bool{}
	for len(paying) < accounts {
		k := newKey(t)
		if payer := account(k.ID()); k.ID()[0]%4 != 0 && !paying[payer] {
			paying[payer] = true
			w.callsOf(k, 50)
		}
	}
	counting := &counted{Store: w.file}
	m := w.meter(counting)
	f, err := m.Fold(t.Context())
	w.must(err)
	units := float64(2 * counting.writes) // of a transaction, each below a kilobyte
	t.Logf("%d rows in %d commits: %v write units, %.3f a row", f.Rows, f.Commits, units, units/float64(f.Rows))
	if f.Rows < 1000 || units/float64(f.Rows) > 0.1 {
		t.Errorf("Fold() took %v write units for %d rows, want at most 0.1 a row", units, f.Rows)
	}
}

type counted struct {
	store.Store
	writes int
}

func (s *counted) Commit(ctx context.Context, writes ...store.Write) error {
	s.writes += len(writes)
	return s.Store.Commit(ctx, writes...)
}

func BenchmarkFold(b *testing.B) {
	w := newWorld(b)
	for range 100 {
		w.calls(50)
	}
	for b.Loop() {
		b.StopTimer()
		d, err := w.file.Doc(b.Context(), store.Key{Partition: "meter", Sort: "journal"})
		w.must(err)
		if d.Version > 0 {
			w.must(w.file.Commit(b.Context(), store.Delete{Key: d.Key, IfVersion: d.Version}))
		}
		b.StartTimer()
		if f, err := w.meter(w.file).Fold(b.Context()); err != nil || f.Rows == 0 {
			b.Fatalf("%d rows are folded, %v", f.Rows, err)
		}
	}
}
