// Package tamper watches the stream of the table of rows. Rows are written
// once, so every change or removal is unauthorised: it is logged and counted in
// a metric with an alarm. verify finds what the change broke. Canaries are counted
// too: an alarm tells if none is seen.
//
// The invariants: no record is skipped because it is unusual, and none makes
// the function fail, which would block the records after it. The function fails
// only if a line cannot be written.
package tamper

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/fsck/canary"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Metrics counts rows changed or removed, which is absent while there are none,
// and canaries, which says that rows are watched.
const (
	Metric     = "tampered"
	SeenMetric = "canaries"
)

// Canary is the partition key of canaries, as a stream's records have it.
var Canary = base64.StdEncoding.EncodeToString([]byte(canary.Stream()))

// Watcher tells of records.
type Watcher struct {
	lines slog.Handler
	now   func() time.Time
}

// New makes a Watcher that writes its lines to a handler of obs.
func New(lines slog.Handler, now func() time.Time) *Watcher { return &Watcher{lines, now} }

// event has the members of a DynamoDB stream's event that matter; a member of
// another form stays empty.
type event struct{ Records []json.RawMessage }

type record struct {
	EventName string
	Dynamodb  struct {
		Keys struct {
			PK struct{ B string }
			SK struct{ N string }
		}
	}
}

// Look tells of each row that an event says was changed or removed, and how
// many they are. An event or a record that cannot be read counts as one: what
// was to be seen in it was not.
func (w *Watcher) Look(ctx context.Context, raw []byte) (tampered int, err error) {
	var e event
	if err := json.Unmarshal(raw, &e); err != nil || e.Records == nil {
		return 1, w.tell(ctx, slog.String("event", "unreadable"))
	}
	for _, raw := range e.Records {
		var r record
		_ = json.Unmarshal(raw, &r)  // as far as it goes: an odd record is told too
		if r.EventName == "INSERT" { // what is put for the first time is as it should be
			if r.Dynamodb.Keys.PK.B == Canary {
				if err := w.line(ctx, slog.LevelInfo, "a canary was seen", SeenMetric); err != nil {
					return tampered, err
				}
			}
			continue
		}
		tampered++
		if err := w.tell(ctx, attrs(&r)...); err != nil {
			return tampered, err
		}
	}
	return tampered, nil
}

// attrs identify the row: `vacancy chain` and verify take it from there.
func attrs(r *record) []slog.Attr {
	name := clip(r.EventName)
	if name == "" {
		name = "unreadable"
	}
	stream := "unreadable"
	if pk, err := base64.StdEncoding.DecodeString(r.Dynamodb.Keys.PK.B); err == nil && len(pk) > 0 {
		stream = clip(hex.EncodeToString(pk))
	}
	return []slog.Attr{slog.String("event", name), slog.String("stream", stream), slog.String("position", clip(r.Dynamodb.Keys.SK.N))}
}

// clip bounds an odd value. A stream's name is at most 136 hex digits.
func clip(s string) string { return s[:min(len(s), 136)] }

func (w *Watcher) tell(ctx context.Context, attrs ...slog.Attr) error {
	return w.line(ctx, slog.LevelError, "a row was changed or removed", Metric, attrs...)
}

// line writes a line that counts one in a metric, and says whether that went
// well: a logger would not.
func (w *Watcher) line(ctx context.Context, level slog.Level, text, metric string, attrs ...slog.Attr) error {
	at := w.now()
	line := slog.NewRecord(at, level, text, 0)
	line.AddAttrs(append(attrs, slog.Int(metric, 1), obs.Block(at, metric))...)
	if err := w.lines.Handle(ctx, line); err != nil {
		return problem.Wrap(problem.Unavailable, err, "the log takes no line")
	}
	return nil
}
