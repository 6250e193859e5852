// Package exports writes the usage of each account per day for bookkeeping, as a file of JSON lines
// and a CSV file. A file is written once, after its day is over and folded, and never changes.
package exports

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/booking"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/usage"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/blob"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const (
	// exportDelay is the time between the end of a day and its export, so that late rows are folded.
	exportDelay = 15 * time.Minute
	// maxDays limits the days that are exported after a pause.
	maxDays = 31
)

// Exporter exports the usage of a host's accounts. Several Exporters may run concurrently.
type Exporter struct {
	Billing *billing.Billing
	Blobs   blob.Blobs
}

// OffsetDocs contains the last exported day, in days since 1970.
var OffsetDocs = store.Kind[int64]{
	Shape: store.Shape{Name: "last exported day", Partition: "export", Sort: "usage", Verify: store.VerifyNot},
	Codec: store.Count(),
}

func Key(day time.Time, account, form string) string {
	return "usage/" + day.Format(time.DateOnly) + "/" + account + "." + form
}

const oneDay = 24 * time.Hour

// Run exports the days that are over and not exported yet, and returns the number of written files.
// On a new host, the first run exports only the last day.
func (x *Exporter) Run(ctx context.Context) (files int, err error) {
	b := x.Billing
	done, d, err := OffsetDocs.Get(ctx, b.Store, OffsetDocs.Key())
	if err != nil {
		return 0, store.AsProblem(err)
	}
	last := b.Now().UTC().Add(-exportDelay).Unix()/int64(oneDay.Seconds()) - 1
	first := max(done+1, last-maxDays+1)
	if d.Version == 0 {
		first = last
	}
	for day := first; day <= last; day++ {
		n, err := x.day(ctx, time.Unix(day*int64(oneDay.Seconds()), 0).UTC())
		files += n
		if err != nil {
			return files, err
		}
	}
	if last <= done && d.Version > 0 {
		return files, nil
	}
	u := store.Updater{Store: b.Store, Rand: b.Rand, Wait: b.Wait}
	err = u.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		now, err := tx.Doc(ctx, d.Key)
		if err == nil && (now.Version == 0 || now.Number < last) {
			OffsetDocs.Put(tx, store.Doc{Key: d.Key}, last)
		}
		return err
	})
	return files, store.AsProblem(err)
}

func (x *Exporter) day(ctx context.Context, day time.Time) (files int, err error) {
	for a, err := range x.Billing.AllAccounts(ctx) {
		if err != nil {
			return files, err
		}
		n, err := x.account(ctx, day, &a)
		files += n
		if err != nil {
			return files, err
		}
	}
	return files, nil
}

// Line is a line of an export. Amounts are in micro-dollars.
type Line struct {
	Kind    string       `json:"kind"` // paid, earned or booking
	Account string       `json:"account"`
	Tenant  string       `json:"tenant"`
	At      time.Time    `json:"at"` // start of the hour, or the time of a booking's event
	Vacant  string       `json:"vacant,omitempty"`
	Caller  string       `json:"caller,omitempty"`
	Answers uint64       `json:"answers"`
	Voids   uint64       `json:"voids"`
	Charge  money.Amount `json:"charge"`
	Fee     money.Amount `json:"fee"`
	In      uint64       `json:"tokens_in"`
	Out     uint64       `json:"tokens_out"`
	Event   string       `json:"event_id,omitempty"`
	Booking string       `json:"booking_id,omitempty"`
}

func (l *Line) record() []string {
	n := func(v uint64) string { return strconv.FormatUint(v, 10) }
	return []string{l.Kind, l.Account, l.Tenant, l.At.Format(time.RFC3339), l.Vacant, l.Caller, n(l.Answers), n(l.Voids),
		strconv.FormatInt(int64(l.Charge), 10), strconv.FormatInt(int64(l.Fee), 10), n(l.In), n(l.Out), l.Event, l.Booking}
}

func (x *Exporter) account(ctx context.Context, day time.Time, a *billing.Account) (files int, err error) {
	until := day.Add(oneDay)
	var lines, table bytes.Buffer
	e, w := json.NewEncoder(&lines), csv.NewWriter(&table)
	empty := true
	add := func(l Line) error {
		if empty {
			_ = w.Write([]string{"kind", "account", "tenant", "at", "vacant", "caller", "answers", "voids", "charge_micros", "fee_micros", "tokens_in", "tokens_out", "event_id", "booking_id"}) // writes to a buffer cannot fail
		}
		empty = false
		l.Account, l.Tenant = a.ID, a.Tenant
		_ = w.Write(l.record())
		return e.Encode(&l)
	}
	hours := func(kind string) func(usage.Hour) error {
		return func(h usage.Hour) error {
			l := Line{Kind: kind, At: h.Start, Vacant: idOf(h.Vacant), Caller: idOf(h.Caller), Answers: h.Answers, Voids: h.Voids, Charge: h.Charge, Fee: h.Fee, In: h.In, Out: h.Out}
			return add(l)
		}
	}
	s := x.Billing.Store
	err = errors.Join(
		usage.EachPaid(ctx, s, a.ID, day, until, hours("paid")),
		usage.EachOwned(ctx, s, a.Tenant, day, until, hours("earned")),
		booking.Events(ctx, s, a.ID, day, until, func(e booking.Event) error {
			return add(Line{Kind: "booking", At: e.At, Charge: e.Amount, Event: e.ID, Booking: e.Booking})
		}))
	if err != nil || empty {
		return 0, err
	}
	w.Flush()
	for form, body := range map[string]*bytes.Buffer{"jsonl": &lines, "csv": &table} {
		_, err := x.Blobs.Put(ctx, Key(day, a.ID, form), io.ReadSeeker(bytes.NewReader(body.Bytes())), int64(body.Len()), blob.Condition{Absent: true})
		if err != nil && !errors.Is(err, blob.ErrConflict) { // the file was written earlier
			return files, err
		}
		if err == nil {
			files++
		}
	}
	return files, nil
}

func idOf(id identity.ID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}
