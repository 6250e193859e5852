// Package usage folds the rows of calls into hours: what each account has paid, for which
// vacant and caller, and what the vacants of each owner have earned.
//
// The invariant: the offset in the feed and the documents that its rows change are one
// commit, at their versions. So a row counts once, however often it is delivered, by
// however many processes, and whatever dies in between.
package usage

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/billing/money"
	"github.com/vacancy-host/vacancy/shared/host/billing/price"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Counts is what happened in an hour.
type Counts struct {
	Answers uint64       `json:"answers"`
	Voids   uint64       `json:"voids"`
	Charge  money.Amount `json:"charge"`
	Fee     money.Amount `json:"fee"` // the host's part of Charge
	In      uint64       `json:"in"`  // tokens
	Out     uint64       `json:"out"`
}

// Add adds other to c.
func (c *Counts) Add(other Counts) {
	c.Answers += other.Answers
	c.Voids += other.Voids
	c.Charge += other.Charge
	c.Fee += other.Fee
	c.In += other.In
	c.Out += other.Out
}

// Hour is the counts of a UTC hour: of an account, a vacant and a caller, or of an owner
// and its vacant, when Caller is zero.
type Hour struct {
	Start  time.Time   `json:"hour"`
	Vacant identity.ID `json:"vacant"`
	Caller identity.ID `json:"caller,omitzero"`
	Counts
}

type stored struct {
	Format int `json:"format"`
	Counts
}

// format is the version of the stored form.
const format = 1

const hourForm = "2006-01-02T15"

// partitions of the documents.
const (
	paidPrefix  = "use#paid#"  // and the account
	ownedPrefix = "use#owned#" // and the tenant, "" for the operator
)

func paidPartition(account string) string { return paidPrefix + account }

func ownedPartition(tenant string) string { return ownedPrefix + tenant }

// IsUsage reports whether k is the key of usage.
func IsUsage(k store.Key) bool {
	return strings.HasPrefix(k.Partition, paidPrefix) || strings.HasPrefix(k.Partition, ownedPrefix)
}

func paidKey(account string, hour time.Time, vacant, caller identity.ID) store.Key {
	return store.Key{Partition: paidPartition(account), Sort: hour.UTC().Format(hourForm) + "#" + vacant.String() + "#" + caller.String()}
}

func ownedKey(tenant string, hour time.Time, vacant identity.ID) store.Key {
	return store.Key{Partition: ownedPartition(tenant), Sort: hour.UTC().Format(hourForm) + "#" + vacant.String()}
}

// Decode reads a document of usage.
func Decode(d store.Doc) (h Hour, err error) {
	wrong := func(err error) (Hour, error) {
		return h, problem.Wrap(problem.Damaged, err, "usage %s is not readable", d.Key)
	}
	var s stored
	if err := json.Unmarshal(d.Data, &s); err != nil || s.Format != format {
		return wrong(err)
	}
	h.Counts = s.Counts
	parts := strings.Split(d.Key.Sort, "#")
	if len(parts) != 2 && len(parts) != 3 {
		return wrong(errors.New("its key is none"))
	}
	if h.Start, err = time.Parse(hourForm, parts[0]); err != nil {
		return wrong(err)
	}
	if h.Vacant, err = identity.ParseID(parts[1]); err != nil {
		return wrong(err)
	}
	if len(parts) == 3 {
		if h.Caller, err = identity.ParseID(parts[2]); err != nil {
			return wrong(err)
		}
	}
	return h, nil
}

// Meter folds a feed. One Meter is for one goroutine; several may fold one store.
type Meter struct {
	Store store.Store
	Feed  store.Feed
	Now   func() time.Time
	Rand  io.Reader
	// Owner returns the tenant of a vacant, "" for the operator's and for one that is not
	// known any more.
	Owner func(ctx context.Context, id identity.ID) (string, error)

	prices map[priceID]price.Price
	owners map[identity.ID]string
}

type priceID struct {
	vacant  identity.ID
	version uint64
}

func (m *Meter) updater() store.Updater { return store.Updater{Store: m.Store, Rand: m.Rand} }

// Limits of one commit: of documents beside the offset, and of rows.
const (
	maxDocs = store.MaxWrites - 1
	maxRows = store.MaxPage
)

// offsets is the partition of the documents of how far partitions of the feed are folded.
const offsets = "meter"

// offsetKey is the document with the folded offset of a partition. Its number is 1 once the
// partition has ended and is folded completely.
func offsetKey(partition string) store.Key { return store.Key{Partition: offsets, Sort: partition} }

// endedFor is how long the offset of an ended partition is kept: longer than a feed lists
// the partition.
const endedFor = 7 * 24 * time.Hour

// Folded is what a Fold did.
type Folded struct {
	Rows    int       // that were folded
	Commits int       // that it took
	Latest  time.Time // of the last decision; zero if there was none

	lost error // store.ErrTrimmed
}

// Fold folds all rows that the feed has now. If the feed dropped rows before they were folded,
// Fold still folds the remaining rows and returns store.ErrTrimmed, once for each loss;
// verify then reports the hours without those rows.
func (m *Meter) Fold(ctx context.Context) (f Folded, err error) {
	partitions, err := m.Feed.Partitions(ctx)
	if err != nil {
		return f, err
	}
	before, err := m.left(ctx)
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

// left returns the offsets by their partitions.
func (m *Meter) left(ctx context.Context) (map[string]store.Doc, error) {
	all := map[string]store.Doc{}
	for cursor := ""; ; {
		docs, next, err := m.Store.Docs(ctx, store.Range{Partition: offsets}, store.MaxPage, cursor)
		if err != nil {
			return nil, store.Problem(err)
		}
		for _, d := range docs {
			all[d.Key.Sort] = d
		}
		if cursor = next; cursor == "" {
			return all, nil
		}
	}
}

// end marks a partition as ended.
func (m *Meter) end(ctx context.Context, at store.Doc) error {
	return m.set(ctx, store.Put{Key: at.Key, If: at.Version, Data: at.Data, Number: 1, Expires: m.Now().Add(endedFor).UTC().Truncate(time.Second)})
}

// set writes an offset, unless another meter has.
func (m *Meter) set(ctx context.Context, p store.Put) (err error) {
	if p.WriteID, err = m.updater().NewWriteID(); err == nil {
		err = m.updater().Commit(ctx, p)
	}
	if store.IsConflict(err) {
		return nil // the other meter has written a newer offset
	}
	return store.Problem(err)
}

// step folds one page of a partition. more is false at its end.
func (m *Meter) step(ctx context.Context, partition string, f *Folded) (more bool, err error) {
	at, err := m.Store.Doc(ctx, offsetKey(partition))
	if err != nil {
		return false, store.Problem(err)
	}
	rows, next, ended, err := m.Feed.After(ctx, partition, string(at.Data), maxRows)
	if errors.Is(err, store.ErrTrimmed) && len(at.Data) > 0 {
		f.lost = err
		return true, m.set(ctx, store.Put{Key: at.Key, If: at.Version}) // restart from the oldest remaining row
	}
	if err != nil {
		return false, err
	}
	if len(rows) == 0 {
		if ended {
			err = m.end(ctx, at)
		}
		return false, err
	}
	sums := map[store.Key]*Counts{}
	requests := map[string]*call.RequestRow{}
	taken := 0
	for _, row := range rows {
		adds, decided, err := m.counts(ctx, row, requests)
		if err != nil {
			return false, err
		}
		fresh := 0
		for _, a := range adds {
			if sums[a.key] == nil {
				fresh++
			}
		}
		if len(sums)+fresh > maxDocs {
			break
		}
		for _, a := range adds {
			if sums[a.key] == nil {
				sums[a.key] = &Counts{}
			}
			sums[a.key].Add(a.Counts)
		}
		if decided.After(f.Latest) {
			f.Latest = decided
		}
		taken++
	}
	if taken < len(rows) {
		// The offset after fewer rows is asked for again.
		if rows, next, _, err = m.Feed.After(ctx, partition, string(at.Data), taken); err != nil {
			return false, err
		}
		if len(rows) != taken {
			return true, nil // a page may be short: the next step takes it
		}
	}
	err = m.commit(ctx, at, next, sums)
	if store.IsConflict(err) {
		return true, nil // another meter was faster
	}
	if err != nil {
		return false, store.Problem(err)
	}
	f.Rows += taken
	f.Commits++
	return true, nil
}

// commit writes the offset and what the rows before it add, at their versions.
func (m *Meter) commit(ctx context.Context, at store.Doc, next string, sums map[store.Key]*Counts) error {
	id, err := m.updater().NewWriteID()
	if err != nil {
		return err
	}
	writes := []store.Write{store.Put{Key: at.Key, If: at.Version, WriteID: id, Data: []byte(next)}}
	for _, k := range sortedKeys(sums) {
		d, err := m.Store.Doc(ctx, k)
		if err != nil {
			return err
		}
		var before Counts
		if d.Version > 0 {
			h, err := Decode(d)
			if err != nil {
				return err
			}
			before = h.Counts
		}
		before.Add(*sums[k])
		writes = append(writes, store.Put{Key: k, If: d.Version, WriteID: id, Data: encode(before), Number: int64(before.Charge)})
	}
	return m.updater().Commit(ctx, writes...)
}

func encode(c Counts) []byte {
	b, err := json.Marshal(stored{format, c})
	if err != nil {
		panic(err) // it has numbers alone
	}
	return b
}

func sortedKeys(sums map[store.Key]*Counts) []store.Key {
	return slices.SortedFunc(maps.Keys(sums), func(a, b store.Key) int {
		return cmp.Or(strings.Compare(a.Partition, b.Partition), strings.Compare(a.Sort, b.Sort))
	})
}

// addition is what a row adds to a document.
type addition struct {
	key store.Key
	Counts
}

// counts returns what a row adds, and when the call was decided. Only decisions of calls
// add something. requests are those of the page, which most decisions follow.
func (m *Meter) counts(ctx context.Context, row store.FeedRow, requests map[string]*call.RequestRow) (adds []addition, decided time.Time, err error) {
	ids := row.Stream.IDs()
	kind := row.Stream.Kind()
	if len(ids) != 2 || kind != store.KindRequest && kind != store.KindResponse {
		return nil, decided, nil
	}
	pair := call.Pair{Caller: ids[0], Vacant: ids[1]}
	at := func(position uint64) string { return fmt.Sprintf("%s%d", pair.Requests(), position) }
	if kind == store.KindRequest {
		r, err := call.DecodeRequest(row.Row)
		if err == nil && r.Kind == call.RowCall {
			r.Text.Box = nil
			requests[at(row.Position)] = &r
		}
		return nil, decided, nil // verify reports damage; metering goes on
	}
	r, err := call.DecodeResponse(row.Row)
	if err != nil {
		return nil, decided, nil
	}
	q := requests[at(r.Request)]
	if q == nil {
		if q, err = m.request(ctx, pair, r.Request); err != nil || q == nil {
			return nil, decided, err
		}
	}
	return m.additions(ctx, pair, q, &r)
}

// request reads the request of a decision; nil if it is damaged.
func (m *Meter) request(ctx context.Context, pair call.Pair, position uint64) (*call.RequestRow, error) {
	rows, err := m.Store.Rows(ctx, pair.Requests(), position, 1, store.Ascending)
	if err != nil {
		return nil, store.Problem(err)
	}
	if len(rows) == 0 || rows[0].Position != position {
		return nil, nil
	}
	r, err := call.DecodeRequest(rows[0])
	if err != nil || r.Kind != call.RowCall {
		return nil, nil
	}
	return &r, nil
}

func (m *Meter) additions(ctx context.Context, pair call.Pair, q *call.RequestRow, r *call.ResponseRow) (adds []addition, decided time.Time, err error) {
	c, decided := CountsOf(q.Due, r)
	if c.Charge > 0 {
		p, err := m.price(ctx, pair.Vacant, q.PriceVersion)
		if err != nil {
			return nil, decided, err
		}
		c.Fee = p.HostFee(c.Charge)
	}
	owner, known := m.owners[pair.Vacant]
	if !known {
		if owner, err = m.Owner(ctx, pair.Vacant); err != nil {
			return nil, decided, err
		}
		if m.owners == nil || len(m.owners) >= maxCached {
			m.owners = map[identity.ID]string{}
		}
		m.owners[pair.Vacant] = owner
	}
	hour := decided.Truncate(time.Hour)
	adds = append(adds, addition{ownedKey(owner, hour, pair.Vacant), c})
	if q.PaidBy == call.PaidByAccount {
		adds = append(adds, addition{paidKey(hex.EncodeToString(q.Payer[:]), hour, pair.Vacant, pair.Caller), c})
	}
	return adds, decided, nil
}

// CountsOf is what a decision counts, without the fee, and when it was made. A void has no
// time: it counts when its call was due, so that every fold finds the same hour.
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

// maxCached bounds what a meter remembers.
const maxCached = 4096

func (m *Meter) price(ctx context.Context, vacant identity.ID, version uint64) (price.Price, error) {
	id := priceID{vacant, version}
	if p, ok := m.prices[id]; ok {
		return p, nil
	}
	d, err := m.Store.Doc(ctx, price.Key(vacant, version))
	if err != nil {
		return price.Price{}, store.Problem(err)
	}
	p, err := price.Decode(vacant, version, d)
	if err != nil {
		return p, err
	}
	if m.prices == nil || len(m.prices) >= maxCached {
		m.prices = map[priceID]price.Price{}
	}
	m.prices[id] = p
	return p, nil
}

// Recount folds the feed again from its beginning, in memory, up to where usage is folded,
// and corrects every document that says something else. It returns how many did. It is
// Conflict if a meter folds meanwhile, again and again.
func (m *Meter) Recount(ctx context.Context) (corrected int, err error) {
	partitions, err := m.Feed.Partitions(ctx)
	if err != nil {
		return 0, err
	}
	sums := map[store.Key]*Counts{}
	var offsets []store.Doc
	for _, p := range partitions {
		at, err := m.Store.Doc(ctx, offsetKey(p.ID))
		if err != nil {
			return 0, store.Problem(err)
		}
		if at.Version == 0 {
			continue // nothing is folded
		}
		offsets = append(offsets, at)
		if err := m.refold(ctx, p.ID, string(at.Data), sums); err != nil {
			return 0, err
		}
	}
	if len(offsets) == 0 {
		return 0, nil
	}
	for _, k := range sortedKeys(sums) {
		changed, err := m.correct(ctx, offsets, k, *sums[k])
		if err != nil {
			return corrected, err
		}
		if changed {
			corrected++
		}
	}
	return corrected, nil
}

// refold adds all rows of a partition up to an offset to sums.
func (m *Meter) refold(ctx context.Context, partition, upTo string, sums map[store.Key]*Counts) error {
	requests := map[string]*call.RequestRow{}
	for offset := ""; offset != upTo; {
		page := maxRows
		rows, next, _, err := m.Feed.After(ctx, partition, offset, page)
		// A page must not go beyond the offset, which only rows one by one find.
		for err == nil && len(rows) > 1 && later(next, upTo) {
			page = (len(rows) + 1) / 2
			rows, next, _, err = m.Feed.After(ctx, partition, offset, page)
		}
		if err != nil {
			return err
		}
		if len(rows) == 0 || later(next, upTo) {
			return nil
		}
		clear(requests)
		for _, row := range rows {
			adds, _, err := m.counts(ctx, row, requests)
			if err != nil {
				return err
			}
			for _, a := range adds {
				if sums[a.key] == nil {
					sums[a.key] = &Counts{}
				}
				sums[a.key].Add(a.Counts)
			}
		}
		offset = next
	}
	return nil
}

// later compares offsets, which are numbers or texts of one length.
func later(a, b string) bool { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) > 0 }

// correct writes a document that says something else, if nothing was folded meanwhile.
func (m *Meter) correct(ctx context.Context, offsets []store.Doc, k store.Key, want Counts) (bool, error) {
	d, err := m.Store.Doc(ctx, k)
	if err != nil {
		return false, store.Problem(err)
	}
	if h, err := Decode(d); d.Version > 0 && err == nil && h.Counts == want {
		return false, nil
	}
	id, err := m.updater().NewWriteID()
	if err != nil {
		return false, err
	}
	writes := []store.Write{store.Put{Key: k, If: d.Version, WriteID: id, Data: encode(want), Number: int64(want.Charge)}}
	for i := range offsets {
		// The offset stays; its version says that nobody has folded.
		writes = append(writes, store.Put{Key: offsets[i].Key, If: offsets[i].Version, WriteID: id, Data: offsets[i].Data})
	}
	if err := m.updater().Commit(ctx, writes...); err != nil {
		return false, store.Problem(err)
	}
	for i := range offsets {
		offsets[i].Version++
	}
	return true, nil
}

// Reader reads usage.
type Reader interface {
	Docs(ctx context.Context, r store.Range, n int, cursor string) ([]store.Doc, string, error)
}

// PaidRange is all usage of an account, by its id.
func PaidRange(account identity.ID) store.Range {
	return store.Range{Partition: paidPartition(account.String())}
}

// ParsePaidRange returns the account of a PaidRange; ok is false for another range.
func ParsePaidRange(r store.Range) (account identity.ID, ok bool) {
	rest, ok := strings.CutPrefix(r.Partition, paidPrefix)
	if !ok {
		return account, false
	}
	account, err := identity.ParseID(rest)
	return account, err == nil && r == PaidRange(account)
}

// Paid calls fn with each hour of an account from a time until another, in order; zero
// times are no bounds.
func Paid(ctx context.Context, s Reader, account string, from, until time.Time, fn func(Hour) error) error {
	return each(ctx, s, paidPartition(account), from, until, fn)
}

// Owned calls fn with each hour of the vacants of a tenant, "" for the operator's.
func Owned(ctx context.Context, s Reader, tenant string, from, until time.Time, fn func(Hour) error) error {
	return each(ctx, s, ownedPartition(tenant), from, until, fn)
}

func each(ctx context.Context, s Reader, partition string, from, until time.Time, fn func(Hour) error) error {
	r := store.Range{Partition: partition}
	if !from.IsZero() {
		r.First = from.UTC().Format(hourForm)
	}
	if !until.IsZero() {
		r.Last = until.UTC().Add(time.Hour - 1).Format(hourForm)
	}
	for cursor := ""; ; {
		docs, next, err := s.Docs(ctx, r, store.MaxPage, cursor)
		if err != nil {
			return store.Problem(err)
		}
		for _, d := range docs {
			h, err := Decode(d)
			if err == nil {
				err = fn(h)
			}
			if err != nil {
				return err
			}
		}
		if next == "" {
			return nil
		}
		cursor = next
	}
}
