// Package tamper watches the DynamoDB stream of the table of rows. Rows are written only once, so
// the package reports every change or removal. It also counts canaries, which test the detection.
// An unusual record does not make the function fail, because a failure would block the records that
// follow.
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

const (
	TamperedMetric = "tampered"
	CanaryMetric   = "canaries"
)

var CanaryKey = base64.StdEncoding.EncodeToString([]byte(canary.Stream()))

type Watcher struct {
	handler slog.Handler
	now     func() time.Time
}

func New(handler slog.Handler, now func() time.Time) *Watcher { return &Watcher{handler, now} }

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

// Check returns the number of tampered or unreadable rows.
func (w *Watcher) Check(ctx context.Context, raw []byte) (tampered int, err error) {
	var e event
	if err := json.Unmarshal(raw, &e); err != nil || e.Records == nil {
		return 1, w.reportTampering(ctx, slog.String("event", "unreadable"))
	}
	for _, raw := range e.Records {
		var r record
		_ = json.Unmarshal(raw, &r)  // an unreadable record is reported below
		if r.EventName == "INSERT" { // first write
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
