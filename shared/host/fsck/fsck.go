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
	"github.com/vacancy-host/vacancy/shared/host/reviews"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/blob"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Source is the store that is checked.
type Source interface {
	store.Walker
	Docs(ctx context.Context, r store.Range, n int, cursor string) ([]store.Doc, string, error)
}

// Config configures a check.
type Config struct {
	Source Source
	Vault  custody.Vault // opens text keys and seeds; it may withhold seeds (custody.ErrWithheld)
	// Blobs opens the storage of files. If Blobs is nil, the stored bytes of files are not checked.
	Blobs func() (blob.Blobs, error)
	Now   func() time.Time
	// Retention is the time for which text keys are stored after the end of their day. Zero means
	// textkeys.MinRetention.
	Retention time.Duration
	// ReportFinding is called for each finding. An error ends the check.
	ReportFinding func(Finding) error
	// Progress is called every few thousand rows. It may be nil. The counts restart at zero for a
	// second reading.
	Progress func(Result)
}

// Run checks all data and reports the findings. An error means that the check is incomplete.
func Run(ctx context.Context, c Config) (Result, error) {
	return runWith(ctx, c, pageRows, windowRows)
}

func runWith(ctx context.Context, c Config, pageSize, windowSize int) (Result, error) {
	var r *run
	var firstCounts map[identity.Hash]int
	for range 2 {
		r = &run{Config: c, firstCounts: firstCounts, findingCounts: map[identity.Hash]int{}, damagedKeyDays: map[uint32]bool{}, ledgers: map[[32]byte]*ledger{}, nextPositions: map[store.Stream]uint64{}, startedAt: c.Now(), pageRows: pageSize, windowRows: uint64(windowSize),
			kin:      kinship{map[edge]*edgeTotals{}, map[identity.ID]*inferenceTotals{}, map[identity.ID]uint64{}, map[identity.ID]bool{}},
			attempts: attemptData{map[identity.ID]bool{}, map[identity.ID][]acceptedAttempt{}, map[identity.ID][]int64{}, map[identity.ID]identity.Hash{}, map[string]bool{"": true}}}
		err := c.Source.Walk(ctx, func(v store.View) error {
			r.view, r.texts = v, textkeys.NewReader(v, c.Vault, c.Now, c.Retention)
			return r.checkAll(ctx)
		})
		if err == nil {
			err = r.flush()
		}
		if err != nil || len(r.findingCounts) == 0 {
			return r.result, err
		}
		firstCounts = r.findingCounts
	}
	return r.result, nil
}

// run is one reading of a host's data.
type run struct {
	Config
	firstCounts    map[identity.Hash]int // counts by hash, or nil during the first reading
	findingCounts  map[identity.Hash]int
	view           store.View
	texts          *textkeys.Reader
	result         Result
	reportedRows   uint64 // Rows at the last call of Progress
	damagedKeyDays map[uint32]bool
	// chainSum is the sum over the chain of all events, and actorSum over the actors' chains.
	chainSum, actorSum hashSum
	pendingFindings    []pendingFinding
	pendingSignatures  int
	// kin and attempts are compared after all streams were read.
	kin      kinship
	attempts attemptData
	ledgers  map[[32]byte]*ledger
	// nextPositions contains the next position of each stream whose rows move money.
	nextPositions map[store.Stream]uint64
	startedAt     time.Time
	venueCount    int64 // number of listed vacants

	pageRows   int
	windowRows uint64
	window     []requestSummary // requests of the pair under check; its memory is reused
}

func (r *run) checkAll(ctx context.Context) error {
	if err := r.checkHostKeys(ctx); err != nil {
		return err
	}
	if err := r.checkUnrelatedDocuments(ctx, store.OwnedByHost); err != nil {
		return err
	}
	if err := r.checkNames(ctx); err != nil {
		return err
	}
	if err := r.checkRegisteredHaveEvents(ctx); err != nil {
		return err
	}
	if err := r.checkTransparencyLog(ctx); err != nil {
		return err
	}
	if err := r.checkFiles(ctx); err != nil {
		return err
	}
	for s, err := range store.Streams(ctx, r.view, "") {
		if err != nil {
			return err
		}
		if err := r.checkStream(ctx, s); err != nil {
			return err
		}
	}
	if err := r.compareLogbooks(ctx); err != nil {
		return err
	}
	if err := r.checkInferences(ctx); err != nil {
		return err
	}
	if err := r.checkDailyTotals(ctx); err != nil {
		return err
	}
	if err := r.recountBalances(ctx); err != nil {
		return err
	}
	if err := r.checkVenueCount(ctx); err != nil {
		return err
	}
	if err := r.checkGraduations(ctx); err != nil {
		return err
	}
	return r.compareEventChains(ctx)
}

func (r *run) checkStream(ctx context.Context, s store.Stream) error {
	r.result.Streams++
	ids := s.IDs()
	if want := idCountOf(s.Kind()); want == 0 || store.StreamOf(s.Kind(), ids...) != s || len(ids) != want ||
		s.Kind() == registry.KindEvents && s != registry.EventStream() || s.Kind() == canary.Kind && s != canary.Stream() {
		r.addFinding(Finding{Location: fmt.Sprintf("%q", string(s)), Check: Stream, Want: "req# or rsp# and two ids, log#, act#, grad#, acct#, bkg# or rev# and one, or the name of the events or of the canaries", Got: "another name"})
		return r.checkPositions(ctx, s)
	}
	switch s.Kind() {
	case store.KindRequest:
		return r.checkPair(ctx, pairOf(ids))
	case store.KindResponse:
		hasRequests, err := r.hasRows(ctx, pairOf(ids).Requests())
		if hasRequests || err != nil {
			return err // the response stream is checked with the requests
		}
		return r.checkPair(ctx, pairOf(ids))
	case registry.KindEvents:
		return r.checkEventChain(ctx, s)
	case canary.Kind:
		return r.checkCanaries(ctx, s)
	case registry.KindActor:
		return r.checkActor(ctx, s, ids[0])
	case billing.KindAccount:
		return r.checkAccount(ctx, s, ids[0])
	case booking.KindBooking:
		return r.checkBooking(ctx, s, ids[0])
	case graduation.KindAttempts:
		return r.checkAttempts(ctx, s, ids[0])
	case reviews.KindReviews:
		return r.checkReviews(ctx, s, ids[0])
	}
	return r.checkLogbook(ctx, s, ids[0])
}

// idCountOf returns the number of ids in the name of a stream, or zero for an unknown kind.
func idCountOf(kind string) int {
	switch kind {
	case store.KindRequest, store.KindResponse:
		return 2
	case store.KindLogbook, registry.KindEvents, registry.KindActor, graduation.KindAttempts, canary.Kind, billing.KindAccount, booking.KindBooking, reviews.KindReviews:
		return 1
	}
	return 0
}

func (r *run) hasRows(ctx context.Context, s store.Stream) (bool, error) {
	rows, err := r.view.Rows(ctx, s, 1, 1, store.Ascending)
	if isDamaged(err) {
		return true, nil
	}
	if err == nil && len(rows) == 0 { // the first row may be missing
		rows, err = r.view.Rows(ctx, s, afterAllRows, 1, store.Descending)
		if isDamaged(err) {
			return true, nil
		}
	}
	return len(rows) > 0, err
}

func (r *run) checkCanaries(ctx context.Context, s store.Stream) error {
	rows := r.newReader(s)
	for {
		row, more, err := rows.next(ctx)
		if !more || err != nil {
			return err
		}
		if err := canary.Check(row); row.Position > 0 && err != nil {
			r.addFinding(newStreamFinding(s, row.Position, Stream, "a canary", problem.AsError(err).Text()))
		}
	}
}

func (r *run) checkPositions(ctx context.Context, s store.Stream) error {
	rows := r.newReader(s)
	for {
		_, more, err := rows.next(ctx)
		if !more || err != nil {
			return err
		}
	}
}

func isDamaged(err error) bool {
	return problem.Is(err, problem.Damaged) && !errors.Is(err, store.ErrUnavailable)
}
