package exports_test

import (
	"context"
	"crypto/rand"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/booking"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/usage/exports"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/blob"
	"github.com/vacancy-host/vacancy/shared/store/blob/files"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

// failing is a Blobs in which one Put fails.
type failing struct {
	blob.Blobs
	left int
}

func (f *failing) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, cond blob.Condition) (string, error) {
	if f.left--; f.left == 0 {
		return "", blob.ErrUnavailable
	}
	return f.Blobs.Put(ctx, key, body, size, cond)
}

// world is a host with two accounts, one of which pays for bookings.
type world struct {
	*testing.T
	now   time.Time
	bill  *billing.Billing
	store *memory.Store
	blobs *failing
	acme  billing.Account
}

func open(t *testing.T) *world {
	w := &world{T: t, now: time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC), store: memory.New()}
	dir, err := files.Open(t.TempDir(), w.now)
	w.must(err)
	w.blobs = &failing{Blobs: dir}
	w.bill = billing.New(billing.Config{Store: w.store, Now: func() time.Time { return w.now }, Rand: rand.Reader})
	w.acme, err = w.bill.OpenAccount(t.Context(), "acme", 1)
	w.must(err)
	_, err = w.bill.OpenAccount(t.Context(), "idle", 1)
	w.must(err)
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// event adds a usage event with the current time.
func (w *world) event(id string, cents int64) {
	w.Helper()
	e := booking.UsageEvent{ID: id, Account: w.acme.ID, Intent: booking.IntentConfirm, Amount: money.Amount(cents) * booking.Cent, BookingID: "b", Time: w.now}
	data, err := json.Marshal(struct {
		Format int `json:"format"`
		booking.UsageEvent
	}{1, e})
	w.must(err)
	w.must(w.store.Commit(w.Context(), store.Put{Key: booking.EventKey(&e), WriteID: store.WriteID{1}, Data: data}))
}

func (w *world) run(want int) {
	w.Helper()
	n, err := (&exports.Exporter{Billing: w.bill, Blobs: w.blobs}).Run(w.Context())
	if err != nil || n != want {
		w.Errorf("Run() at %s = %d, %v, want %d files", w.now, n, err, want)
	}
}

func (w *world) read(day time.Time, form string) string {
	w.Helper()
	o, err := w.blobs.Get(w.Context(), exports.FileKey(day, w.acme.ID, form))
	w.must(err)
	defer o.Body.Close()
	b, err := io.ReadAll(o.Body)
	w.must(err)
	return string(b)
}

func TestADayIsExportedOnceAfterItsEnd(t *testing.T) {
	w := open(t)
	w.event("first", 25)
	w.run(0) // the day before
	day := w.now.Truncate(24 * time.Hour)
	w.now = day.Add(24*time.Hour + 10*time.Minute)
	w.run(0) // too early
	w.now = day.Add(24*time.Hour + 20*time.Minute)
	w.event("today", 25)
	w.run(2)
	w.run(0)
	var l exports.Line
	lines := strings.Split(strings.TrimSpace(w.read(day, "jsonl")), "\n")
	if err := json.Unmarshal([]byte(lines[0]), &l); err != nil || len(lines) != 1 || l.Kind != "booking" || l.UsageEventID != "first" || l.Charge != 25*booking.Cent || l.Tenant != "acme" {
		t.Errorf("JSON lines = %q, %v", lines, err)
	}
	rows, err := csv.NewReader(strings.NewReader(w.read(day, "csv"))).ReadAll()
	if err != nil || len(rows) != 2 || len(rows[0]) != len(rows[1]) || rows[1][8] != "250000" || rows[1][12] != "first" {
		t.Errorf("CSV = %q, %v", rows, err)
	}
	// After a pause all days are exported.
	w.now = day.Add(4*24*time.Hour + time.Hour)
	w.event("later", -25)
	w.now = w.now.Add(24 * time.Hour)
	w.run(4)
	if got := w.read(day.Add(4*24*time.Hour), "jsonl"); !strings.Contains(got, `"charge":-250000`) {
		t.Errorf("a credit = %s", got)
	}
}

func TestAnExportThatBreaksOffIsCompleted(t *testing.T) {
	w := open(t)
	w.run(0)
	w.event("first", 25)
	day := w.now.Truncate(24 * time.Hour)
	w.now = day.Add(25 * time.Hour)
	w.blobs.left = 2
	n, err := (&exports.Exporter{Billing: w.bill, Blobs: w.blobs}).Run(t.Context())
	if !errors.Is(err, blob.ErrUnavailable) || n != 1 {
		t.Fatalf("Run() = %d, %v, want one file, and that the store is unavailable", n, err)
	}
	w.run(1)
	if w.read(day, "csv") == "" || w.read(day, "jsonl") == "" {
		t.Error("a file is missing")
	}
}

// After a long pause, one run exports at most a month.
func TestALongPauseIsMadeUpForByAMonth(t *testing.T) {
	w := open(t)
	w.run(0)
	day := w.now.Truncate(24 * time.Hour)
	for n := range 40 {
		w.now = day.Add(time.Duration(n)*24*time.Hour + time.Hour)
		w.event("of a day", 25)
	}
	w.now = day.Add(40*24*time.Hour + time.Hour)
	w.run(2 * 31)
	w.run(0)
}
