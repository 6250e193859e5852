// Package exports writes the usage of each account per day as JSON lines and CSV. A file never
// changes.
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
	// exportDelay is the time between the end of a day and its export. It must exceed the time in
	// which rows are folded, because an exported file never changes.
	exportDelay = 15 * time.Minute
	// maxDays limits the days that one Run exports. Earlier days are then never exported.
	maxDays = 31
)

// Exporter exports the usage of a host's accounts. Several Exporters may run concurrently.
type Exporter struct {
	Billing *billing.Billing
	Blobs   blob.Blobs
}

// LastDayDocs contains the last exported day, in days since 1970.
var LastDayDocs = store.DocKind[int64]{
	Shape: store.Shape{Name: "last exported day", Partition: "export", Sort: "usage", Verify: store.VerifySkip},
	Codec: store.CountCodec(),
}

func FileKey(day time.Time, account, extension string) string {
	return "usage/" + day.Format(time.DateOnly) + "/" + account + "." + extension
}

const oneDay = 24 * time.Hour

// Run exports the days that are over and returns the number of written files. The first run on a
// new host exports only the last day.
func (x *Exporter) Run(ctx context.Context) (fileCount int, err error) {
	b := x.Billing
	lastExported, d, err := LastDayDocs.Get(ctx, b.Store, LastDayDocs.Key())
	if err != nil {
		return 0, store.AsProblem(err)
	}
	lastDay := b.Now().UTC().Add(-exportDelay).Unix()/int64(oneDay.Seconds()) - 1
	firstDay := max(lastExported+1, lastDay-maxDays+1)
	if d.Version == 0 {
		firstDay = lastDay
	}
	for day := firstDay; day <= lastDay; day++ {
		n, err := x.exportDay(ctx, time.Unix(day*int64(oneDay.Seconds()), 0).UTC())
		fileCount += n
		if err != nil {
			return fileCount, err
		}
	}
	if lastDay <= lastExported && d.Version > 0 {
		return fileCount, nil
	}
	u := store.Updater{Store: b.Store, Rand: b.Rand, Wait: b.Wait}
	err = u.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		current, err := tx.Doc(ctx, d.Key)
		if err == nil && (current.Version == 0 || current.Number < lastDay) {
			LastDayDocs.Put(tx, store.Doc{Key: d.Key}, lastDay)
		}
		return err
	})
	return fileCount, store.AsProblem(err)
}

func (x *Exporter) exportDay(ctx context.Context, day time.Time) (fileCount int, err error) {
	for a, err := range x.Billing.AllAccounts(ctx) {
		if err != nil {
			return fileCount, err
		}
		n, err := x.exportAccount(ctx, day, &a)
		fileCount += n
		if err != nil {
			return fileCount, err
		}
	}
	return fileCount, nil
}

// Line is a line of an export. Amounts are in micro-dollars.
type Line struct {
	Kind         string       `json:"kind"` // paid, earned or booking
	Account      string       `json:"account"`
	Tenant       string       `json:"tenant"`
	Time         time.Time    `json:"at"` // start of the hour, or the time of a booking's event
	Vacant       string       `json:"vacant,omitempty"`
	Caller       string       `json:"caller,omitempty"`
	Answers      uint64       `json:"answers"`
	Voids        uint64       `json:"voids"`
	Charge       money.Amount `json:"charge"`
	Fee          money.Amount `json:"fee"`
	InputTokens  uint64       `json:"tokens_in"`
	OutputTokens uint64       `json:"tokens_out"`
	UsageEventID string       `json:"event_id,omitempty"`
	BookingID    string       `json:"booking_id,omitempty"`
}

func (l *Line) csvRecord() []string {
	formatCount := func(v uint64) string { return strconv.FormatUint(v, 10) }
	return []string{l.Kind, l.Account, l.Tenant, l.Time.Format(time.RFC3339), l.Vacant, l.Caller, formatCount(l.Answers), formatCount(l.Voids),
		strconv.FormatInt(int64(l.Charge), 10), strconv.FormatInt(int64(l.Fee), 10), formatCount(l.InputTokens), formatCount(l.OutputTokens), l.UsageEventID, l.BookingID}
}

func (x *Exporter) exportAccount(ctx context.Context, day time.Time, a *billing.Account) (fileCount int, err error) {
	until := day.Add(oneDay)
	var jsonLines, csvTable bytes.Buffer
	e, csvWriter := json.NewEncoder(&jsonLines), csv.NewWriter(&csvTable)
	isEmpty := true
	addLine := func(l Line) error {
		if isEmpty {
			_ = csvWriter.Write([]string{"kind", "account", "tenant", "at", "vacant", "caller", "answers", "voids", "charge_micros", "fee_micros", "tokens_in", "tokens_out", "event_id", "booking_id"}) // writes to a buffer cannot fail
		}
		isEmpty = false
		l.Account, l.Tenant = a.ID, a.Tenant
		_ = csvWriter.Write(l.csvRecord())
		return e.Encode(&l)
	}
	addHours := func(kind string) func(usage.Hour) error {
		return func(h usage.Hour) error {
			l := Line{Kind: kind, Time: h.Start, Vacant: formatID(h.Vacant), Caller: formatID(h.Caller), Answers: h.Answers, Voids: h.Voids, Charge: h.Charge, Fee: h.Fee, InputTokens: h.InputTokens, OutputTokens: h.OutputTokens}
			return addLine(l)
		}
	}
	s := x.Billing.Store
	err = errors.Join(
		usage.EachPaidHour(ctx, s, a.ID, day, until, addHours("paid")),
		usage.EachEarnedHour(ctx, s, a.Tenant, day, until, addHours("earned")),
		booking.EachUsageEvent(ctx, s, a.ID, day, until, func(e booking.UsageEvent) error {
			return addLine(Line{Kind: "booking", Time: e.Time, Charge: e.Amount, UsageEventID: e.ID, BookingID: e.BookingID})
		}))
	if err != nil || isEmpty {
		return 0, err
	}
	csvWriter.Flush()
	for extension, body := range map[string]*bytes.Buffer{"jsonl": &jsonLines, "csv": &csvTable} {
		_, err := x.Blobs.Put(ctx, FileKey(day, a.ID, extension), io.ReadSeeker(bytes.NewReader(body.Bytes())), int64(body.Len()), blob.Condition{Absent: true})
		if err != nil && !errors.Is(err, blob.ErrConflict) { // ErrConflict: the file exists
			return fileCount, err
		}
		if err == nil {
			fileCount++
		}
	}
	return fileCount, nil
}

func formatID(id identity.ID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}
