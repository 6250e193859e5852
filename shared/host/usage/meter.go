package usage

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/booking"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Meter folds the rows of a feed into usage. A Meter must not be used concurrently, but several
// Meters may fold the same feed.
type Meter struct {
	Store store.Store
	Feed  store.Feed
	Now   func() time.Time
	Rand  io.Reader
	// TenantOf returns "" for the operator's vacants and for unknown vacants.
	TenantOf func(ctx context.Context, id identity.ID) (string, error)

	prices   map[priceID]price.Price
	tenants  map[identity.ID]string
	pageSize int // rows of the next page; zero means maxPageRows
}

type priceID struct {
	vacant  identity.ID
	version uint64
}

func (m *Meter) updater() store.Updater { return store.Updater{Store: m.Store, Rand: m.Rand} }

const (
	maxCommitDocs = store.MaxWrites - 1
	maxPageRows   = store.MaxPage
)

const minPageRows = 32

// endedOffsetRetention must exceed the time for which a feed lists an ended partition.
const endedOffsetRetention = 7 * 24 * time.Hour

type FoldResult struct {
	Rows            int
	Commits         int
	LatestDecision  time.Time
	UnreportedHours []Hour // hours whose first unreported answer was folded

	trimErr error // wraps store.ErrTrimmed if the feed has dropped rows
}

// Fold folds all rows that the feed has now. If the feed has dropped rows, Fold folds the remaining
// rows and returns store.ErrTrimmed. The totals then lack the dropped rows.
func (m *Meter) Fold(ctx context.Context) (f FoldResult, err error) {
	partitions, err := m.Feed.Partitions(ctx)
	if err != nil {
		return f, err
	}
	offsets, err := m.loadOffsets(ctx)
	if err != nil {
		return f, err
	}
	for _, p := range partitions {
		hasEnded := offsets[p.ID].Number == 1
		delete(offsets, p.ID)
		for hasMore := !hasEnded; hasMore; {
			if hasMore, err = m.foldPage(ctx, p.ID, &f); err != nil {
				return f, err
			}
		}
	}
	for _, offsetDoc := range offsets {
		if offsetDoc.Number == 1 {
			continue
		}
		f.trimErr = fmt.Errorf("%w: partition %s was not at its end", store.ErrTrimmed, offsetDoc.Key.Sort)
		if err := m.markEnded(ctx, offsetDoc); err != nil {
			return f, err
		}
	}
	return f, f.trimErr
}

func (m *Meter) loadOffsets(ctx context.Context) (map[string]store.Doc, error) {
	offsets := map[string]store.Doc{}
	for d, err := range store.Documents(ctx, m.Store, OffsetDocs.Range()) {
		if err != nil {
			return nil, store.AsProblem(err)
		}
		offsets[d.Key.Sort] = d
	}
	return offsets, nil
}

func (m *Meter) markEnded(ctx context.Context, offsetDoc store.Doc) error {
	return m.writeOffset(ctx, store.Put{Key: offsetDoc.Key, IfVersion: offsetDoc.Version, Data: offsetDoc.Data, Number: 1, Expires: m.Now().Add(endedOffsetRetention).UTC().Truncate(time.Second)})
}

func (m *Meter) writeOffset(ctx context.Context, p store.Put) (err error) {
	if p.WriteID, err = m.updater().NewWriteID(); err == nil {
		err = m.updater().Commit(ctx, p)
	}
	if store.IsConflict(err) {
		return nil // another meter has written a newer offset
	}
	return store.AsProblem(err)
}

func (m *Meter) foldPage(ctx context.Context, partition string, f *FoldResult) (hasMore bool, err error) {
	offsetDoc, err := m.Store.Doc(ctx, OffsetDocs.Key(partition))
	if err != nil {
		return false, store.AsProblem(err)
	}
	pageSize := cmp.Or(m.pageSize, maxPageRows)
	rows, next, hasEnded, err := m.Feed.RowsAfter(ctx, partition, string(offsetDoc.Data), pageSize)
	if errors.Is(err, store.ErrTrimmed) && len(offsetDoc.Data) > 0 {
		f.trimErr = err
		return true, m.writeOffset(ctx, store.Put{Key: offsetDoc.Key, IfVersion: offsetDoc.Version}) // restart from the oldest remaining row
	}
	if err != nil {
		return false, err
	}
	if len(rows) == 0 {
		if hasEnded {
			err = m.markEnded(ctx, offsetDoc)
		}
		return false, err
	}
	totals := sums{}
	findRequest := m.newFinder(rows)
	foldedRows := 0
	for _, row := range rows {
		additions, decisionTime, err := m.rowAdditions(ctx, row, findRequest)
		if err != nil && !errors.Is(err, errUnreadable) { // verify reports unreadable rows
			return false, err
		}
		if totals.lenWith(additions) > maxCommitDocs {
			break
		}
		totals.add(additions)
		if decisionTime.After(f.LatestDecision) {
			f.LatestDecision = decisionTime
		}
		foldedRows++
	}
	// The rest of an incompletely folded page must be read again, so the next page is smaller.
	if m.pageSize = min(2*pageSize, maxPageRows); len(rows) < pageSize {
		m.pageSize = maxPageRows
	}
	if foldedRows < len(rows) {
		m.pageSize = max(foldedRows+foldedRows/2, minPageRows)
		// The feed must return the offset after the folded rows.
		if rows, next, _, err = m.Feed.RowsAfter(ctx, partition, string(offsetDoc.Data), foldedRows); err != nil {
			return false, err
		}
		if len(rows) != foldedRows {
			return true, nil
		}
	}
	unreportedHours, err := m.commit(ctx, offsetDoc, next, totals)
	if store.IsConflict(err) {
		return true, nil // another meter was faster
	}
	// The commit may have succeeded despite an error, so the hours are returned in any case.
	f.UnreportedHours = append(f.UnreportedHours, unreportedHours...)
	if err != nil {
		return false, store.AsProblem(err)
	}
	f.Rows += foldedRows
	f.Commits++
	return true, nil
}

// maxDailySpending is far above real amounts, so that even a wrong sum does not stop the fold.
const maxDailySpending = math.MaxInt64 / 16

// commit writes the offset and the sums of the rows before it. The version of the offset ensures
// that another meter has not counted these rows.
func (m *Meter) commit(ctx context.Context, offsetDoc store.Doc, next string, totals sums) (unreportedHours []Hour, err error) {
	id, err := m.updater().NewWriteID()
	if err != nil {
		return nil, err
	}
	writes := []store.Write{store.Put{Key: offsetDoc.Key, IfVersion: offsetDoc.Version, WriteID: id, Data: []byte(next)}}
	for _, k := range totals.keys() {
		if isSpentKey(k) {
			writes = append(writes, store.Add{Key: k, Delta: int64(totals[k].Charge), Min: -maxDailySpending, Max: maxDailySpending})
			continue
		}
		h, d, err := kindOfKey(k).Get(ctx, m.Store, k)
		if err == nil && d.Version == 0 {
			h, err = parseHour(k)
		}
		if err != nil {
			return nil, err
		}
		hadUnreported := h.UnreportedAnswers > 0
		h.Add(*totals[k])
		w, err := newPut(k, d.Version, id, h.Counts)
		if err != nil {
			return nil, err
		}
		writes = append(writes, w)
		if isEarnedKey(k) && h.UnreportedAnswers > 0 && !hadUnreported {
			unreportedHours = append(unreportedHours, h)
		}
	}
	return unreportedHours, m.updater().Commit(ctx, writes...)
}

func newPut(k store.Key, version uint64, id store.WriteID, c Counts) (p store.Put, err error) {
	p = store.Put{Key: k, IfVersion: version, WriteID: id, Number: int64(c.Charge)}
	if !isSpentKey(k) {
		p.Data, err = countsCodec.Encode(c)
	}
	return p, err
}

type addition struct {
	key store.Key
	Counts
}

type sums map[store.Key]*Counts

func (s sums) lenWith(additions []addition) int {
	n := len(s)
	for _, a := range additions {
		if s[a.key] == nil {
			n++
		}
	}
	return n
}

func (s sums) add(additions []addition) {
	for _, a := range additions {
		if s[a.key] == nil {
			s[a.key] = &Counts{}
		}
		s[a.key].Add(a.Counts)
	}
}

func (s sums) keys() []store.Key {
	return slices.SortedFunc(maps.Keys(s), func(a, b store.Key) int {
		return cmp.Or(strings.Compare(a.Partition, b.Partition), strings.Compare(a.Sort, b.Sort))
	})
}

var errUnreadable = errors.New("a row is not readable")

func unreadableError(s store.Stream, position uint64, cause error) error {
	return problem.Wrap(problem.Damaged, errors.Join(errUnreadable, cause), "row %d of %s is not readable", position, s)
}

type requestFinder func(ctx context.Context, pair call.Pair, position uint64) (*call.RequestRow, error)

func (m *Meter) newFinder(page []store.FeedRow) requestFinder {
	// Most requests are in the same page as their decision.
	type location struct {
		stream   store.Stream
		position uint64
	}
	requests := map[location]*call.RequestRow{}
	for _, row := range page {
		if q := decodeCallRequest(row.Row); row.Stream.Kind() == store.KindRequest && q != nil {
			requests[location{row.Stream, row.Position}] = q
		}
	}
	return func(ctx context.Context, pair call.Pair, position uint64) (*call.RequestRow, error) {
		if q := requests[location{pair.Requests(), position}]; q != nil {
			return q, nil
		}
		return m.readRequest(ctx, pair, position)
	}
}

func decodeCallRequest(row store.Row) *call.RequestRow {
	r, err := call.DecodeRequest(row)
	if err != nil || r.Kind != call.RowCall {
		return nil
	}
	r.Text.Box = nil
	return &r
}

// rowAdditions returns additions only for decisions of calls and rows of bookings.
func (m *Meter) rowAdditions(ctx context.Context, row store.FeedRow, findRequest requestFinder) (additions []addition, decisionTime time.Time, err error) {
	switch ids := row.Stream.IDs(); {
	case row.Stream.Kind() == store.KindResponse && len(ids) == 2:
		r, err := call.DecodeResponse(row.Row)
		if err != nil {
			return nil, decisionTime, unreadableError(row.Stream, row.Position, err)
		}
		pair := call.Pair{Caller: ids[0], Vacant: ids[1]}
		q, err := findRequest(ctx, pair, r.RequestPosition)
		if err != nil {
			return nil, decisionTime, err
		}
		return m.callAdditions(ctx, pair, q, &r)
	case row.Stream.Kind() == booking.KindBooking:
		r, err := booking.DecodeRow(row.Row)
		if err != nil {
			return nil, decisionTime, unreadableError(row.Stream, row.Position, err)
		}
		if r.Amount != 0 {
			additions = append(additions, addition{spentKey(r.Account, r.Time), Counts{Charge: r.Amount}})
		}
	}
	return additions, decisionTime, nil
}

func (m *Meter) readRequest(ctx context.Context, pair call.Pair, position uint64) (*call.RequestRow, error) {
	rows, err := m.Store.Rows(ctx, pair.Requests(), position, 1, store.Ascending)
	if err != nil {
		return nil, store.AsProblem(err)
	}
	if len(rows) > 0 && rows[0].Position == position {
		if q := decodeCallRequest(rows[0]); q != nil {
			return q, nil
		}
	}
	return nil, unreadableError(pair.Requests(), position, nil)
}

func (m *Meter) callAdditions(ctx context.Context, pair call.Pair, q *call.RequestRow, r *call.ResponseRow) (additions []addition, decisionTime time.Time, err error) {
	c, decisionTime := CountsOf(q.Due, r)
	isPaid := q.PaidBy == call.PaidByAccount || q.PaidBy == call.PaidByVoucher
	isUnreported := isPaid && c.Answers > 0 && (r.Usage == nil || r.Usage.UnreportedTurns > 0)
	if c.Charge > 0 || isUnreported {
		p, err := m.cachedPrice(ctx, pair.Vacant, q.PriceVersion)
		if err != nil {
			return nil, decisionTime, err
		}
		c.Fee = p.HostFee(c.Charge)
		if isUnreported && p.HasTokenPrice() {
			c.UnreportedAnswers = 1
		}
	}
	owner, err := m.cachedTenant(ctx, pair.Vacant)
	if err != nil {
		return nil, decisionTime, err
	}
	hour := decisionTime.Truncate(time.Hour).UTC().Format(hourLayout)
	additions = append(additions, addition{EarnedDocs.Key(owner, hour, pair.Vacant.String()), c})
	if q.PaidBy == call.PaidByAccount {
		account := hex.EncodeToString(q.Payer[:])
		additions = append(additions, addition{PaidDocs.Key(account, hour, pair.Vacant.String(), pair.Caller.String()), c})
		if q.Subject != "" {
			additions = append(additions, addition{SubjectDocs.Key(account, hour, q.Subject), c})
		}
		if c.Charge > 0 {
			additions = append(additions, addition{spentKey(account, decisionTime), Counts{Charge: c.Charge}})
		}
	}
	return additions, decisionTime, nil
}

func (m *Meter) cachedTenant(ctx context.Context, vacant identity.ID) (string, error) {
	owner, isCached := m.tenants[vacant]
	if isCached {
		return owner, nil
	}
	owner, err := m.TenantOf(ctx, vacant)
	if err != nil {
		return "", err
	}
	if m.tenants == nil || len(m.tenants) >= maxCacheEntries {
		m.tenants = map[identity.ID]string{}
	}
	m.tenants[vacant] = owner
	return owner, nil
}

// CountsOf does not set Fee and UnreportedAnswers. The time of a void is the due time of its call,
// so that every fold uses the same hour.
func CountsOf(due time.Time, r *call.ResponseRow) (c Counts, decisionTime time.Time) {
	if r.Usage != nil {
		c.InputTokens, c.OutputTokens = r.Usage.InputTokens, r.Usage.OutputTokens
	}
	if r.Kind != call.RowAnswer {
		c.Voids = 1
		return c, due.UTC()
	}
	c.Answers, c.Charge = 1, money.Amount(r.Charge)
	return c, r.Time.UTC()
}

const maxCacheEntries = 4096

func (m *Meter) cachedPrice(ctx context.Context, vacant identity.ID, version uint64) (price.Price, error) {
	id := priceID{vacant, version}
	if p, ok := m.prices[id]; ok {
		return p, nil
	}
	p, err := price.Get(ctx, m.Store, vacant, version)
	if err != nil {
		return p, store.AsProblem(err)
	}
	if m.prices == nil || len(m.prices) >= maxCacheEntries {
		m.prices = map[priceID]price.Price{}
	}
	m.prices[id] = p
	return p, nil
}
