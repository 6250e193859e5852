// Package tamper watches the DynamoDB stream of the table of rows. Rows are written only once, so
// every change or removal is unauthorized. The package logs it and counts it in a metric with an
// alarm. The command verify finds the consequences of the change. The package also counts canaries,
// which are rows that are written only to test the detection. If no canaries arrive, another
// alarm reports that the rows are not watched.
//
// An unusual record is reported like a changed row. It does not make the function fail, because a
// failure would block the records that follow. The function fails only if a log line cannot be
// written.
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

// TamperedMetric counts changed and removed rows. If no row was changed or removed, it has no data
// points. CanaryMetric counts canaries, which shows that the rows are watched.
const (
	TamperedMetric = "tampered"
	CanaryMetric   = "canaries"
)

// CanaryKey is the partition key of canaries as it appears in stream records.
var CanaryKey = base64.StdEncoding.EncodeToString([]byte(canary.Stream()))

// Watcher reports tampered rows and canaries.
type Watcher struct {
	handler slog.Handler
	now     func() time.Time
}

func New(handler slog.Handler, now func() time.Time) *Watcher { return &Watcher{handler, now} }

// event contains the used members of a DynamoDB stream event. A member of an unexpected type stays
// empty.
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

// Check reports each row that was changed or removed according to an event, and returns their
// number. An event or record that cannot be parsed counts as one, because its content was not
// checked.
func (w *Watcher) Check(ctx context.Context, raw []byte) (tampered int, err error) {
	var e event
	if err := json.Unmarshal(raw, &e); err != nil || e.Records == nil {
		return 1, w.reportTampering(ctx, slog.String("event", "unreadable"))
	}
	for _, raw := range e.Records {
		var r record
		// An unusual record is decoded as far as possible and reported.
		_ = json.Unmarshal(raw, &r)
		if r.EventName == "INSERT" { // the first write of a row is expected
			if r.Dynamodb.Keys.PK.B == CanaryKey {
				if err := w.writeLine(ctx, slog.LevelInfo, "a canary was seen", CanaryMetric); err != nil {
					return tampered, err
				}
			}
			continue
		}
		tampered++
		if err := w.reportTampering(ctx, recordAttrs(&r)...); err != nil {
			return tampered, err
		}
	}
	return tampered, nil
}

func recordAttrs(r *record) []slog.Attr {
	// `vacancy chain` and verify use these attributes to find the row.
	name := truncate(r.EventName)
	if name == "" {
		name = "unreadable"
	}
	stream := "unreadable"
	if pk, err := base64.StdEncoding.DecodeString(r.Dynamodb.Keys.PK.B); err == nil && len(pk) > 0 {
		stream = truncate(hex.EncodeToString(pk))
	}
	return []slog.Attr{slog.String("event", name), slog.String("stream", stream), slog.String("position", truncate(r.Dynamodb.Keys.SK.N))}
}

// truncate limits a value of an unusual record. A stream's name has at most 136 hexadecimal digits.
func truncate(s string) string { return s[:min(len(s), 136)] }

func (w *Watcher) reportTampering(ctx context.Context, attrs ...slog.Attr) error {
	return w.writeLine(ctx, slog.LevelError, "a row was changed or removed", TamperedMetric, attrs...)
}

func (w *Watcher) writeLine(ctx context.Context, level slog.Level, text, metric string, attrs ...slog.Attr) error {
	now := w.now()
	line := slog.NewRecord(now, level, text, 0)
	line.AddAttrs(append(attrs, slog.Int(metric, 1), obs.MetricsBlock(now, metric))...)
	// A logger would not return the error of a write.
	if err := w.handler.Handle(ctx, line); err != nil {
		return problem.Wrap(problem.Unavailable, err, "a log line cannot be written")
	}
	return nil
}
