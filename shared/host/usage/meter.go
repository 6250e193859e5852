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
// Meters may fold the feed of one store.
type Meter struct {
	Store store.Store
	Feed  store.Feed
	Now   func() time.Time
	Rand  io.Reader
	// Owner returns the tenant of a vacant. It returns "" for a vacant of the operator and for an
	// unknown vacant.
	Owner func(ctx context.Context, id identity.ID) (string, error)

	prices map[priceID]price.Price
	owners map[identity.ID]string
	page   int // maximum rows of the next step; zero means maxRows
}

type priceID struct {
	vacant  identity.ID
	version uint64
}

func (m *Meter) updater() store.Updater { return store.Updater{Store: m.Store, Rand: m.Rand} }

// One commit has at most maxDocs documents in addition to the offset, and at most maxRows rows.
const (
	maxDocs = store.MaxWrites - 1
	maxRows = store.MaxPage
)

// leastRows is the minimum size of a page.
const leastRows = 32

// endedFor is the time for which the offset of an ended partition is stored. It must be longer than
// the time for which a feed lists an ended partition.
const endedFor = 7 * 24 * time.Hour

type FoldResult struct {
	Rows    int       // folded rows
	Commits int       // commits of the fold
	Latest  time.Time // time of the last folded decision, or the zero time
	// Unreported contains the hours that got their first unreported answer (Counts.Unreported).
	Unreported []Hour

	lost error // wraps store.ErrTrimmed if the feed has dropped rows, otherwise nil
}

// Fold folds all rows that the feed has now. If the feed has dropped rows that were not folded,
// Fold folds the remaining rows and returns store.ErrTrimmed, once per loss. The totals then lack the
// dropped rows, which the command verify reports.
func (m *Meter) Fold(ctx context.Context) (f FoldResult, err error) {
	partitions, err := m.Feed.Partitions(ctx)
	if err != nil {
		return f, err
	}
	before, err := m.offsets(ctx)
	if err != nil {
		return f, err
	}
	for _, p := range partitions {
		ended := before[p.ID].Number == 1
		delete(before, p.ID)
		for more := !ended; more; {
			if more, err = m.step(ctx, p.ID, &f); err != nil {
				return f, err
			}
		}
	}
	for _, gone := range before {
		if gone.Number == 1 {
			continue
		}
		f.lost = fmt.Errorf("%w: partition %s was not at its end", store.ErrTrimmed, gone.Key.Sort)
		if err := m.end(ctx, gone); err != nil {
			return f, err
		}
	}
	return f, f.lost
}

func (m *Meter) offsets(ctx context.Context) (map[string]store.Doc, error) {
	partitionOffsets := map[string]store.Doc{}
	for d, err := range store.Documents(ctx, m.Store, OffsetDocs.Range()) {
		if err != nil {
			return nil, store.AsProblem(err)
		}
		partitionOffsets[d.Key.Sort] = d
	}
	return partitionOffsets, nil
}

func (m *Meter) end(ctx context.Context, offsetDoc store.Doc) error {
	return m.set(ctx, store.Put{Key: offsetDoc.Key, IfVersion: offsetDoc.Version, Data: offsetDoc.Data, Number: 1, Expires: m.Now().Add(endedFor).UTC().Truncate(time.Second)})
}

func (m *Meter) set(ctx context.Context, p store.Put) (err error) {
	if p.WriteID, err = m.updater().NewWriteID(); err == nil {
		err = m.updater().Commit(ctx, p)
	}
	if store.IsConflict(err) {
		return nil // another meter has written a newer offset
	}
	return store.AsProblem(err)
}

// step folds one page of a partition. It returns false at the end of the partition.
func (m *Meter) step(ctx context.Context, partition string, f *FoldResult) (more bool, err error) {
	offsetDoc, err := m.Store.Doc(ctx, OffsetDocs.Key(partition))
	if err != nil {
		return false, store.AsProblem(err)
	}
	page := cmp.Or(m.page, maxRows)
	rows, next, ended, err := m.Feed.After(ctx, partition, string(offsetDoc.Data), page)
	if errors.Is(err, store.ErrTrimmed) && len(offsetDoc.Data) > 0 {
		f.lost = err
		return true, m.set(ctx, store.Put{Key: offsetDoc.Key, IfVersion: offsetDoc.Version}) // restart from the oldest remaining row
	}
	if err != nil {
		return false, err
	}
	if len(rows) == 0 {
		if ended {
			err = m.end(ctx, offsetDoc)
		}
		return false, err
	}
	total := sums{}
	find := m.finder(rows)
	taken := 0
	for _, row := range rows {
		adds, decided, err := m.counts(ctx, row, find)
		if err != nil && !errors.Is(err, errUnreadable) { // verify reports unreadable rows
			return false, err
		}
		if total.lenWith(adds) > maxDocs {
			break
		}
		total.add(adds)
		if decided.After(f.Latest) {
			f.Latest = decided
		}
		taken++
	}
	// If the rows of a page belong to many accounts, a commit reaches its limits early, and the rest of
	// the page must be read again.
	if m.page = min(2*page, maxRows); len(rows) < page {
		m.page = maxRows // the next rows may belong to few accounts
	}
	if taken < len(rows) {
		m.page = max(taken+taken/2, leastRows)
		// Only a part of the page was folded, so the feed must return the offset after this part.
		if rows, next, _, err = m.Feed.After(ctx, partition, string(offsetDoc.Data), taken); err != nil {
			return false, err
		}
		if len(rows) != taken {
			return true, nil // a page may be short; the next step folds it
		}
	}
	unreported, err := m.commit(ctx, offsetDoc, next, total)
	if store.IsConflict(err) {
		return true, nil // another meter was faster
	}
	// The hours are returned even after an error, because the commit may have succeeded, and no later
	// fold returns them.
	f.Unreported = append(f.Unreported, unreported...)
	if err != nil {
		return false, store.AsProblem(err)
	}
	f.Rows += taken
	f.Commits++
	return true, nil
}

// maxSpent bounds the spending of an account per day. It is far above real amounts, so that even a wrong
// sum does not stop the fold. The spending of a day is negative if it consists of refunds for earlier
// bookings.
const maxSpent = math.MaxInt64 / 16

// commit writes the offset and the sums of the rows before it. The version of the offset ensures
// that another meter has not counted these rows. commit returns the hours for FoldResult.Unreported.
func (m *Meter) commit(ctx context.Context, offsetDoc store.Doc, next string, total sums) (unreported []Hour, err error) {
	id, err := m.updater().NewWriteID()
	if err != nil {
		return nil, err
	}
	writes := []store.Write{store.Put{Key: offsetDoc.Key, IfVersion: offsetDoc.Version, WriteID: id, Data: []byte(next)}}
	for _, k := range total.keys() {
		if isSpent(k) {
			writes = append(writes, store.Add{Key: k, Delta: int64(total[k].Charge), Min: -maxSpent, Max: maxSpent})
			continue
		}
		h, d, err := kindOf(k).Get(ctx, m.Store, k)
		if err == nil && d.Version == 0 {
			h, err = hourOf(k)
		}
		if err != nil {
			return nil, err
		}
		hadUnreported := h.Unreported > 0
		h.Add(*total[k])
		w, err := put(k, d.Version, id, h.Counts)
		if err != nil {
			return nil, err
		}
		writes = append(writes, w)
		if isOwned(k) && h.Unreported > 0 && !hadUnreported {
			unreported = append(unreported, h)
		}
	}
	return unreported, m.updater().Commit(ctx, writes...)
}

func put(k store.Key, version uint64, id store.WriteID, c Counts) (p store.Put, err error) {
	p = store.Put{Key: k, IfVersion: version, WriteID: id, Number: int64(c.Charge)}
	if !isSpent(k) {
		p.Data, err = counts.Encode(c)
	}
	return p, err
}

// addition is the contribution of a row to one document. For SpentDocs only the charge is used.
type addition struct {
	key store.Key
	Counts
}

// sums contains the sums of rows by document.
type sums map[store.Key]*Counts

func (s sums) lenWith(more []addition) int {
	n := len(s)
	for _, a := range more {
		if s[a.key] == nil {
			n++
		}
	}
	return n
}

func (s sums) add(more []addition) {
	for _, a := range more {
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

// errUnreadable is in the error chain if a row is damaged or missing.
var errUnreadable = errors.New("a row is not readable")

func unreadable(s store.Stream, position uint64, cause error) error {
	return problem.Wrap(problem.Damaged, errors.Join(errUnreadable, cause), "row %d of %s is not readable", position, s)
}

// finder is a function that returns the request of a decision. If the request cannot be read, the
// error wraps errUnreadable.
type finder func(ctx context.Context, pair call.Pair, position uint64) (*call.RequestRow, error)

func (m *Meter) finder(page []store.FeedRow) finder {
	// Most requests are in the same page as their decision. The others are read from the store.
	type at struct {
		stream   store.Stream
		position uint64
	}
	requests := map[at]*call.RequestRow{}
	for _, row := range page {
		if q := requestOf(row.Row); row.Stream.Kind() == store.KindRequest && q != nil {
			requests[at{row.Stream, row.Position}] = q
		}
	}
	return func(ctx context.Context, pair call.Pair, position uint64) (*call.RequestRow, error) {
		if q := requests[at{pair.Requests(), position}]; q != nil {
			return q, nil
		}
		return m.request(ctx, pair, position)
	}
}

// requestOf returns the request of a call without its text. It returns nil for other rows.
func requestOf(row store.Row) *call.RequestRow {
	r, err := call.DecodeRequest(row)
	if err != nil || r.Kind != call.RowCall {
		return nil
	}
	r.Text.Box = nil
	return &r
}

// counts returns the additions of a row and the time at which its call was decided. Only decisions of
// calls (answers and voids) and rows of bookings have additions. For a damaged row the error wraps
// errUnreadable.
func (m *Meter) counts(ctx context.Context, row store.FeedRow, find finder) (adds []addition, decided time.Time, err error) {
	switch ids := row.Stream.IDs(); {
	case row.Stream.Kind() == store.KindResponse && len(ids) == 2:
		r, err := call.DecodeResponse(row.Row)
		if err != nil {
			return nil, decided, unreadable(row.Stream, row.Position, err)
		}
		pair := call.Pair{Caller: ids[0], Vacant: ids[1]}
		q, err := find(ctx, pair, r.Request)
		if err != nil {
			return nil, decided, err
		}
		return m.additions(ctx, pair, q, &r)
	case row.Stream.Kind() == booking.KindBooking:
		r, err := booking.DecodeRow(row.Row)
		if err != nil {
			return nil, decided, unreadable(row.Stream, row.Position, err)
		}
		if r.Amount != 0 {
			adds = append(adds, addition{spentKey(r.Account, r.At), Counts{Charge: r.Amount}})
		}
	}
	return adds, decided, nil
}

func (m *Meter) request(ctx context.Context, pair call.Pair, position uint64) (*call.RequestRow, error) {
	rows, err := m.Store.Rows(ctx, pair.Requests(), position, 1, store.Ascending)
	if err != nil {
		return nil, store.AsProblem(err)
	}
	if len(rows) > 0 && rows[0].Position == position {
		if q := requestOf(rows[0]); q != nil {
			return q, nil
		}
	}
	return nil, unreadable(pair.Requests(), position, nil)
}

func (m *Meter) additions(ctx context.Context, pair call.Pair, q *call.RequestRow, r *call.ResponseRow) (adds []addition, decided time.Time, err error) {
	c, decided := CountsOf(q.Due, r)
	paid := q.PaidBy == call.PaidByAccount || q.PaidBy == call.PaidByVoucher
	unreported := paid && c.Answers > 0 && (r.Usage == nil || r.Usage.Unreported > 0)
	if c.Charge > 0 || unreported {
		p, err := m.price(ctx, pair.Vacant, q.PriceVersion)
		if err != nil {
			return nil, decided, err
		}
		c.Fee = p.HostFee(c.Charge)
		if unreported && p.HasTokenPrice() {
			c.Unreported = 1
		}
	}
	owner, err := m.owner(ctx, pair.Vacant)
	if err != nil {
		return nil, decided, err
	}
	hour := decided.Truncate(time.Hour).UTC().Format(hourForm)
	adds = append(adds, addition{OwnedDocs.Key(owner, hour, pair.Vacant.String()), c})
	if q.PaidBy == call.PaidByAccount {
		account := hex.EncodeToString(q.Payer[:])
		adds = append(adds, addition{PaidDocs.Key(account, hour, pair.Vacant.String(), pair.Caller.String()), c})
		if q.Subject != "" {
			adds = append(adds, addition{SubjectDocs.Key(account, hour, q.Subject), c})
		}
		if c.Charge > 0 {
			adds = append(adds, addition{spentKey(account, decided), Counts{Charge: c.Charge}})
		}
	}
	return adds, decided, nil
}

func (m *Meter) owner(ctx context.Context, vacant identity.ID) (string, error) {
	owner, isCached := m.owners[vacant]
	if isCached {
		return owner, nil
	}
	owner, err := m.Owner(ctx, vacant)
	if err != nil {
		return "", err
	}
	if m.owners == nil || len(m.owners) >= maxCached {
		m.owners = map[identity.ID]string{}
	}
	m.owners[vacant] = owner
	return owner, nil
}

// CountsOf returns the counts and the time of a decision. Fee and Unreported are not set, because
// they depend on the price. A void has no time of its own, so its time is the due time of its call.
// Every fold therefore uses the same hour.
func CountsOf(due time.Time, r *call.ResponseRow) (c Counts, decided time.Time) {
	if r.Usage != nil {
		c.In, c.Out = r.Usage.In, r.Usage.Out
	}
	if r.Kind != call.RowAnswer {
		c.Voids = 1
		return c, due.UTC()
	}
	c.Answers, c.Charge = 1, money.Amount(r.Charge)
	return c, r.Time.UTC()
}

// maxCached limits the prices and the owners that a meter caches.
const maxCached = 4096

func (m *Meter) price(ctx context.Context, vacant identity.ID, version uint64) (price.Price, error) {
	id := priceID{vacant, version}
	if p, ok := m.prices[id]; ok {
		return p, nil
	}
	p, err := price.Get(ctx, m.Store, vacant, version)
	if err != nil {
		return p, store.AsProblem(err)
	}
	if m.prices == nil || len(m.prices) >= maxCached {
		m.prices = map[priceID]price.Price{}
	}
	m.prices[id] = p
	return p, nil
}
