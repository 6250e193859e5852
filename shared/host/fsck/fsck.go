package fsck

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/booking"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/fsck/canary"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Source is the store that is checked. Docs lists the documents that are listed as a
// whole: names, registrations and revocations. Others are read by key from the view.
type Source interface {
	store.Walker
	Docs(ctx context.Context, r store.Range, n int, cursor string) ([]store.Doc, string, error)
}

// Config configures a check. All but Progress is required.
type Config struct {
	Source Source
	Vault  custody.Vault // opens text keys and, unless it withholds them, seeds
	Now    func() time.Time
	// Retention is the time for which the host keeps text keys after their day.
	// Zero means textkeys.MinRetention.
	Retention time.Duration
	// Found receives each finding, in the order of the rows as far as a pair's
	// two streams allow. An error ends the check.
	Found func(Finding) error
	// Progress, if not nil, is called every few thousand rows. A second reading counts from zero.
	Progress func(Result)
}

// Run checks everything and reports findings. An error means that the check did
// not complete: the store or vault failed, the context ended, or Found returned
// an error.
func Run(ctx context.Context, c Config) (Result, error) {
	return runWith(ctx, c, pageRows, windowRows)
}

func runWith(ctx context.Context, c Config, page, window int) (Result, error) {
	var r *run
	var first map[identity.Hash]int
	for range 2 {
		r = &run{Config: c, first: first, seen: map[identity.Hash]int{}, damagedKeyDays: map[uint32]bool{}, money: map[[32]byte]*ledger{}, tips: map[store.Stream]uint64{}, began: c.Now(), pageRows: page, windowRows: uint64(window),
			kin:  kinship{map[edge]*family{}, map[identity.ID]*inferenceCount{}, map[identity.ID]uint64{}, map[identity.ID]bool{}},
			gate: passages{map[identity.ID]bool{}, map[identity.ID][]passage{}, map[identity.ID][]int64{}, map[identity.ID]identity.Hash{}, map[string]bool{"": true}}}
		err := c.Source.Walk(ctx, func(v store.View) error {
			r.view, r.texts = v, textkeys.NewReader(v, c.Vault, c.Now, c.Retention)
			return r.walk(ctx)
		})
		if err == nil {
			err = r.flush()
		}
		if err != nil || len(r.seen) == 0 {
			return r.result, err
		}
		first = r.seen
	}
	return r.result, nil
}

// run is one reading of a host in progress.
type run struct {
	Config
	first          map[identity.Hash]int // findings of the first reading; nil during it
	seen           map[identity.Hash]int // findings of this reading, damage or not
	view           store.View
	texts          *textkeys.Reader
	result         Result
	toldRows       uint64          // rows at the last Progress
	damagedKeyDays map[uint32]bool // days whose damaged key is reported
	// Sums of the events in the chain of all events and in the actors' chains.
	chainSum, actorSum sum
	reports            []report // not yet reported
	pendingSignatures  int      // signatures among them
	// kin collects the entries of logbooks about parents and children, gate the attempts to
	// graduate. Both are compared after the streams.
	kin  kinship
	gate passages
	// money has the sums of each account, by its id.
	money map[[32]byte]*ledger
	// tips are the next positions to read of the streams whose rows move money.
	tips   map[store.Stream]uint64
	began  time.Time
	venues int64 // listed vacants

	pageRows   int
	windowRows uint64
	window     []summary // of the pair under check; reused
}

// walk checks documents, then streams, and then compares what it collected from both.
func (r *run) walk(ctx context.Context) error {
	if err := r.self(ctx); err != nil {
		return err
	}
	if err := r.unrelatedDocuments(ctx, store.OfHost); err != nil {
		return err
	}
	if err := r.names(ctx); err != nil {
		return err
	}
	if err := r.eventsWithoutRegistration(ctx); err != nil {
		return err
	}
	if err := r.log(ctx); err != nil {
		return err
	}
	for s, err := range store.Streams(ctx, r.view, "") {
		if err != nil {
			return err
		}
		if err := r.stream(ctx, s); err != nil {
			return err
		}
	}
	if err := r.crossChecks(ctx); err != nil {
		return err
	}
	if err := r.inferences(ctx); err != nil {
		return err
	}
	if err := r.spending(ctx); err != nil {
		return err
	}
	if err := r.recount(ctx); err != nil {
		return err
	}
	if err := r.countVenues(ctx); err != nil {
		return err
	}
	if err := r.comparePassedAttempts(ctx); err != nil {
		return err
	}
	return r.compareEventChains(ctx)
}

// stream checks one stream. A pair's two streams are checked together, at the
// first of them.
func (r *run) stream(ctx context.Context, s store.Stream) error {
	r.result.Streams++
	ids := s.IDs()
	if want := idsOf(s.Kind()); want == 0 || store.StreamOf(s.Kind(), ids...) != s || len(ids) != want ||
		s.Kind() == registry.KindEvents && s != registry.EventStream() || s.Kind() == canary.Kind && s != canary.Stream() {
		r.found(Finding{Where: fmt.Sprintf("%q", string(s)), Check: Stream, Want: "req# or rsp# and two ids, log#, act#, grad#, acct# or bkg# and one, or the name of the events or of the canaries", Got: "another name"})
		return r.skip(ctx, s)
	}
	switch s.Kind() {
	case store.KindRequest:
		return r.pair(ctx, pairOf(ids))
	case store.KindResponse:
		requests, err := r.any(ctx, pairOf(ids).Requests())
		if requests || err != nil {
			return err // checked with them
		}
		return r.pair(ctx, pairOf(ids))
	case registry.KindEvents:
		return r.chain(ctx, s)
	case canary.Kind:
		return r.canaries(ctx, s)
	case registry.KindActor:
		return r.actor(ctx, s, ids[0])
	case billing.KindAccount:
		return r.accountRows(ctx, s, ids[0])
	case booking.KindBooking:
		return r.bookingRows(ctx, s, ids[0])
	case graduation.KindAttempts:
		return r.attempts(ctx, s, ids[0])
	}
	return r.logbook(ctx, s, ids[0])
}

// idsOf returns the number of ids in a stream's name, or zero for an unknown kind.
// The streams of events and of canaries have the zero id.
func idsOf(kind string) int {
	switch kind {
	case store.KindRequest, store.KindResponse:
		return 2
	case store.KindLogbook, registry.KindEvents, registry.KindActor, graduation.KindAttempts, canary.Kind, billing.KindAccount, booking.KindBooking:
		return 1
	}
	return 0
}

// any reports whether a stream has rows, readable or not.
func (r *run) any(ctx context.Context, s store.Stream) (bool, error) {
	rows, err := r.view.Rows(ctx, s, 1, 1, store.Ascending)
	if damaged(err) {
		return true, nil
	}
	if err == nil && len(rows) == 0 { // the first row may be missing
		rows, err = r.view.Rows(ctx, s, last, 1, store.Descending)
		if damaged(err) {
			return true, nil
		}
	}
	return len(rows) > 0, err
}

// canaries checks the rows whose only purpose is to be seen.
func (r *run) canaries(ctx context.Context, s store.Stream) error {
	rows := r.reader(s)
	for {
		row, more, err := rows.next(ctx)
		if !more || err != nil {
			return err
		}
		if err := canary.Check(row); row.Position > 0 && err != nil {
			r.found(inStream(s, row.Position, Stream, "a canary", problem.Of(err).Text()))
		}
	}
}

// skip counts the rows of a stream of unknown kind.
func (r *run) skip(ctx context.Context, s store.Stream) error {
	rd := r.reader(s)
	for {
		_, more, err := rd.next(ctx)
		if !more || err != nil {
			return err
		}
	}
}

// damaged reports whether an error means damaged data rather than a failure to
// read it.
func damaged(err error) bool {
	return problem.Is(err, problem.Damaged) && !errors.Is(err, store.ErrUnavailable)
}
