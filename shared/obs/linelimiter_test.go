package obs_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/obs"
)

// A flood of requests that write nothing costs few lines, loses no count, and
// hides neither failures nor calls.
func TestAFloodOfRefusedRequestsIsSummedUp(t *testing.T) {
	var out bytes.Buffer
	h := obs.NewHandler(&out, obs.Config{Stage: "dev", Function: "message", PublishUnits: true, Public: true})
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	request := func(status int, level slog.Level, reads, writes float64) {
		t.Helper()
		ctx, u := obs.WithUsage(context.Background(), obs.Invocation{Now: func() time.Time { return at }})
		u.EndRequest(u.BeginRequest(), reads, writes)
		r := slog.NewRecord(at, level, "request", 0)
		r.AddAttrs(slog.String(obs.AttrVerdict, "x"), slog.Int(obs.AttrStatus, status))
		if err := h.Handle(ctx, r); err != nil {
			t.Fatal(err)
		}
		if !u.HasLoggedCounts() {
			t.Error("a request whose line was held is not told, so another line is written")
		}
	}
	// written returns the number of lines since the last look, and their sums.
	written := func() (n int, sum map[string]float64) {
		t.Helper()
		sum = map[string]float64{}
		for line := range bytes.Lines(out.Bytes()) {
			n++
			_, values := metricsOf(t, line)
			for name, v := range values {
				sum[name] += v
			}
		}
		out.Reset()
		return n, sum
	}
	const flood = 500
	for range flood {
		request(http.StatusTooManyRequests, slog.LevelInfo, 0.5, 0)
	}
	first, sum := written()
	if first != obs.LimitedLineBurst || sum["calls"] != obs.LimitedLineBurst {
		t.Errorf("%d lines of %v requests in a moment, want %d of as many", first, sum["calls"], obs.LimitedLineBurst)
	}
	request(http.StatusServiceUnavailable, slog.LevelError, 1, 0)
	if n, sum := written(); n != 1 || sum["failed"] != 1 || sum["calls"] != 1 {
		t.Errorf("a failure within the flood: %d lines with %v, want one of one failure", n, sum)
	}
	request(http.StatusOK, slog.LevelInfo, 4, 2)
	if n, sum := written(); n != 1 || sum["wcu"] != 2 || sum["calls"] != 1 || sum["refused"] != 0 {
		t.Errorf("a call within the flood: %d lines with %v, want its own alone", n, sum)
	}
	at = at.Add(time.Duration(float64(time.Second) / obs.LimitedLinesPerSecond))
	request(http.StatusTooManyRequests, slog.LevelInfo, 0.5, 0)
	request(http.StatusTooManyRequests, slog.LevelInfo, 0.5, 0)
	held := float64(flood - first)
	if n, sum := written(); n != 1 || sum["calls"] != held+1 || sum["refused"] != held+1 || sum["rcu"] != (held+1)/2 {
		t.Errorf("after the flood: %d lines with %v, want one of %v requests", n, sum, held+1)
	}
}

// Functions that only the stage itself starts log each run.
func TestLinesOfOthersAreNotLimited(t *testing.T) {
	var out bytes.Buffer
	log := logger(&out)
	for range obs.LimitedLineBurst * 2 {
		ctx, _ := begin(false)
		log.LogAttrs(ctx, slog.LevelInfo, "step", slog.String(obs.AttrVerdict, "ok"))
	}
	if n := bytes.Count(out.Bytes(), []byte("\n")); n != obs.LimitedLineBurst*2 {
		t.Errorf("%d lines of %d runs", n, obs.LimitedLineBurst*2)
	}
}

// Metrics are billed one by one: units are metrics of the functions that the
// dashboard shows, and members of every line.
func TestUnitsAreMetricsWhereToldAndInEachLine(t *testing.T) {
	for _, units := range []bool{false, true} {
		var out bytes.Buffer
		ctx, u := begin(false)
		u.EndRequest(u.BeginRequest(), 3, 2)
		slog.New(obs.NewHandler(&out, obs.Config{Stage: "dev", Function: "search", PublishUnits: units})).
			LogAttrs(ctx, slog.LevelInfo, "search", slog.String(obs.AttrVerdict, "ok"))
		_, values := metricsOf(t, out.Bytes())
		if _, metric := values["rcu"]; metric != units {
			t.Errorf("with units %t the metrics are %v", units, values)
		}
		if line := object(t, out.Bytes()); line["rcu"] != 3.0 || line["wcu"] != 2.0 || line["trips"] != 1.0 {
			t.Errorf("with units %t the line is %v, want its units", units, line)
		}
	}
}
