package obs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/slogtest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/obs"
)

const (
	request = "8476a536-e9f4-11e8-9739-2dfe598c3fcd"
	trace   = "1-5bef4de7-ad49b0e87f6ef6c87fc2e700"
)

// clock advances by 12.345 ms at each reading.
func clock() func() time.Time {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return func() time.Time {
		at = at.Add(12345 * time.Microsecond)
		return at
	}
}

func begin(cold bool) (context.Context, *obs.Usage) {
	return obs.WithUsage(context.Background(), obs.Invocation{RequestID: request, TraceID: trace, Cold: cold, Now: clock()})
}

// logger writes lines like functions/message.
func logger(b *bytes.Buffer) *slog.Logger {
	return slog.New(obs.NewHandler(b, obs.Config{Stage: "dev", Function: "message", Version: "v1.2.3", PublishUnits: true}))
}

// object parses a line and checks that no member occurs twice.
func object(t *testing.T, line []byte) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(line, &m); err != nil {
		t.Fatalf("the line is no JSON: %v: %s", err, line)
	}
	d, n := json.NewDecoder(bytes.NewReader(line)), 0
	for depth := 0; ; {
		token, err := d.Token()
		if err != nil {
			break
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
			if depth == 2 {
				n++ // a member with a value of several tokens
			}
		case json.Delim('}'), json.Delim(']'):
			depth--
		default:
			if depth == 1 {
				n++
			}
		}
	}
	if want := 2 * len(m); n != want {
		t.Errorf("%d names and values at the root, want %d: %s", n, want, line)
	}
	return m
}

// block is the embedded metrics format, as far as it is used.
type block struct {
	Timestamp         int64
	CloudWatchMetrics []struct {
		Namespace  string
		Dimensions [][]string
		Metrics    []struct{ Name string }
	}
}

// metricsOf reads the block of a line by CloudWatch's rules and returns the
// metrics' values.
func metricsOf(t *testing.T, line []byte) (at time.Time, values map[string]float64) {
	t.Helper()
	root := object(t, line)
	raw, err := json.Marshal(root["_aws"])
	if err != nil {
		t.Fatal(err)
	}
	var b block
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil || len(b.CloudWatchMetrics) != 1 {
		t.Fatalf("the block is none: %v: %s", err, raw)
	}
	directive := b.CloudWatchMetrics[0]
	if directive.Namespace != obs.Namespace || len(directive.Metrics) == 0 || len(directive.Metrics) > 100 {
		t.Errorf("the directive has namespace %q and %d metrics, want %q and 1 to 100", directive.Namespace, len(directive.Metrics), obs.Namespace)
	}
	if diff := cmp.Diff([][]string{{"stage", "function"}}, directive.Dimensions); diff != "" {
		t.Errorf("dimensions (-want +got):\n%s", diff)
	}
	for _, name := range directive.Dimensions[0] {
		if s, ok := root[name].(string); !ok || s == "" || len(s) > 1024 {
			t.Errorf("dimension %s is %v at the root, want a string", name, root[name])
		}
	}
	values = map[string]float64{}
	for _, m := range directive.Metrics {
		v, ok := root[m.Name].(float64)
		if _, twice := values[m.Name]; !ok || twice {
			t.Errorf("metric %s is %v at the root, named twice: %t; want a number, once", m.Name, root[m.Name], twice)
		}
		values[m.Name] = v
	}
	return time.UnixMilli(b.Timestamp), values
}

func TestTheLineOfACallHoldsItsMetrics(t *testing.T) {
	for _, tt := range []struct {
		name  string
		level slog.Level
		attrs []slog.Attr
		cold  bool
		want  map[string]float64
	}{
		{"a call", slog.LevelInfo, []slog.Attr{slog.String("verdict", "ok"), slog.Int("status", 200), slog.Float64("ms", 7.25)}, false,
			map[string]float64{"calls": 1, "ms": 7.25, "trips": 2, "wcu": 2, "rcu": 1.5}},
		{"a first call", slog.LevelInfo, []slog.Attr{slog.String("verdict", "ok"), slog.Int("status", 200), slog.Float64("ms", 7.25)}, true,
			map[string]float64{"calls": 1, "ms": 7.25, "trips": 2, "wcu": 2, "rcu": 1.5}},
		{"a refusal", slog.LevelInfo, []slog.Attr{slog.String("verdict", "fork"), slog.Int("status", 409), slog.Float64("ms", 1)}, false,
			map[string]float64{"calls": 1, "ms": 1, "trips": 2, "wcu": 2, "rcu": 1.5, "refused": 1}},
		{"a fault", slog.LevelError, []slog.Attr{slog.Int("status", 503), slog.String("verdict", "unavailable"), slog.Float64("ms", 1)}, false,
			map[string]float64{"calls": 1, "ms": 1, "trips": 2, "wcu": 2, "rcu": 1.5, "failed": 1}},
		{"a refusal without status and time", slog.LevelInfo, []slog.Attr{slog.String("verdict", "not_found")}, false,
			map[string]float64{"calls": 1, "ms": 12.35, "trips": 2, "wcu": 2, "rcu": 1.5, "refused": 1}},
		{"a fault without status", slog.LevelError, []slog.Attr{slog.String("verdict", "unavailable"), slog.Float64("ms", 1)}, false,
			map[string]float64{"calls": 1, "ms": 1, "trips": 2, "wcu": 2, "rcu": 1.5, "failed": 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			ctx, u := begin(tt.cold)
			u.EndRequest(u.BeginRequest(), 1.5, 0)
			u.EndRequest(u.BeginRequest(), 0, 2)
			before := time.Now().Truncate(time.Millisecond)
			logger(&b).LogAttrs(ctx, tt.level, "send", tt.attrs...)
			at, got := metricsOf(t, b.Bytes())
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
			if at.Before(before) || at.After(time.Now()) {
				t.Errorf("Timestamp = %v, want milliseconds of now", at)
			}
			root := object(t, b.Bytes())
			if root["request"] != request || root["trace"] != trace || root["cold"] != (map[bool]any{true: true})[tt.cold] {
				t.Errorf("request, trace, cold = %v, %v, %v", root["request"], root["trace"], root["cold"])
			}
		})
	}
}

func TestOneInvocationIsCountedInOneLine(t *testing.T) {
	var b bytes.Buffer
	log := logger(&b)
	ctx, u := begin(false)
	log.LogAttrs(ctx, slog.LevelWarn, "on the way")
	if u.HasLoggedCounts() {
		t.Error("Logged() after a line without a verdict")
	}
	log.LogAttrs(ctx, slog.LevelInfo, "send", slog.String("verdict", "ok"))
	log.LogAttrs(ctx, slog.LevelInfo, "send", slog.String("verdict", "ok"))
	if !u.HasLoggedCounts() {
		t.Error("Logged() = false after the line of the call")
	}
	log.LogAttrs(context.Background(), slog.LevelInfo, "start", slog.String("verdict", "ok"))
	var blocks []bool
	for line := range bytes.Lines(b.Bytes()) {
		_, has := object(t, line)["_aws"]
		blocks = append(blocks, has)
	}
	if diff := cmp.Diff([]bool{false, true, false, false}, blocks); diff != "" {
		t.Errorf("lines with metrics (-want +got):\n%s\n%s", diff, b.String())
	}
}

func TestMetricsStandAtTheRootBelowWhateverGroups(t *testing.T) {
	var b bytes.Buffer
	ctx, _ := begin(false)
	log := logger(&b).With("a", 1).WithGroup("g").With("b", 2).WithGroup("h")
	log.LogAttrs(ctx, slog.LevelInfo, "send", slog.String("verdict", "ok"), slog.Float64("ms", 3))
	_, got := metricsOf(t, b.Bytes())
	if diff := cmp.Diff(map[string]float64{"calls": 1, "ms": 12.35}, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	root := object(t, b.Bytes())
	want := map[string]any{"b": 2., "h": map[string]any{"verdict": "ok", "ms": 3.}}
	if diff := cmp.Diff(want, root["g"]); diff != "" || root["a"] != 1. {
		t.Errorf("group (-want +got):\n%s", diff)
	}
}

// The cost model assumes 470 bytes for a line (ingested, stored, and converted
// to metrics by the byte).
func TestTheLineOfAWarmCallIsSmall(t *testing.T) {
	const most = 470
	var b bytes.Buffer
	ctx, u := begin(false)
	u.EndRequest(u.BeginRequest(), 0, 1)
	u.EndRequest(u.BeginRequest(), 0, 1)
	logger(&b).LogAttrs(ctx, slog.LevelInfo, "send", slog.String("pair", "0123456789ab>0123456789ab"), slog.Int64("seq", 12345),
		slog.String("verdict", "ok"), slog.Int("status", 200), slog.Float64("ms", 12.34))
	t.Logf("%d bytes: %s", b.Len(), b.Bytes())
	if b.Len() > most {
		t.Errorf("the line has %d bytes, want at most %d", b.Len(), most)
	}
}

func TestTheHandlerKeepsSlogsRules(t *testing.T) {
	var b bytes.Buffer
	slogtest.Run(t, func(*testing.T) slog.Handler {
		b.Reset()
		return obs.NewHandler(&b, obs.Config{Stage: "dev", Function: "message"})
	}, func(t *testing.T) map[string]any {
		m := object(t, b.Bytes())
		delete(m, "stage")
		delete(m, "function")
		return m
	})
}

// The definition of tests/roundtrips: the longest chain of requests that waited
// for each other.
func TestOverlappingRequestsAreOneTrip(t *testing.T) {
	for _, tt := range []struct {
		order string // a lower-case letter begins a request, the same in upper case ends it
		want  int
	}{
		{"", 0}, {"aA", 1}, {"abAB", 1}, {"abcCBA", 1}, {"aAbB", 2}, {"abABcdDCeE", 3}, {"abAcCB", 2}, {"aAbcBdCD", 3},
	} {
		_, u := begin(false)
		steps := map[rune]obs.StartTick{}
		for _, r := range tt.order {
			if lower := r | 0x20; r == lower {
				steps[r] = u.BeginRequest()
			} else {
				u.EndRequest(steps[lower], 1, 2)
			}
		}
		n := float64(len(steps))
		want := obs.Counts{Trips: tt.want, Reads: n, Writes: 2 * n}
		if diff := cmp.Diff(want, u.Counts()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.order, diff)
		}
	}
}

func TestUsageTakesCountsFromManyAtOnce(t *testing.T) {
	ctx, u := begin(false)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			u := obs.UsageOf(ctx)
			u.CountKMSRequest()
			u.EndRequest(u.BeginRequest(), 1, 1)
		})
	}
	all.Wait()
	if c := u.Counts(); c.KMS != 50 || c.Reads != 50 || c.Writes != 50 || c.Trips < 1 || c.Trips > 50 {
		t.Errorf("Counts() = %+v, want 50 of each", c)
	}
}

func TestWithoutAUsageNothingIsCounted(t *testing.T) {
	u := obs.UsageOf(context.Background())
	u.CountKMSRequest()
	u.EndRequest(u.BeginRequest(), 1, 1)
	if got := fmt.Sprint(u.Counts(), u.TraceID(), u.ElapsedMilliseconds(), u.HasLoggedCounts()); got != "{0 0 0 0}0 false" {
		t.Errorf("a nil Usage says %s", got)
	}
}

func TestOnlyARootOfItsFormIsATraceID(t *testing.T) {
	for header, want := range map[string]string{
		"Root=" + trace: trace,
		"Root=" + trace + ";Parent=9a9197af755a6419;Sampled=0":   trace,
		"Self=1-67891234-12456789abcdef012345678; Root=" + trace: trace,
		"":                    "",
		trace:                 "",
		"Root=":               "",
		"Root=2" + trace[1:]:  "",
		"Root=" + trace + "0": "",
		"Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e70\n": "",
		"Root=1-5BEF4DE7-ad49b0e87f6ef6c87fc2e700":  "",
	} {
		if got := obs.TraceID(header); got != want {
			t.Errorf("TraceID(%q) = %q, want %q", header, got, want)
		}
	}
}

func FuzzTraceID(f *testing.F) {
	f.Add("Root=" + trace + ";Sampled=1")
	f.Fuzz(func(t *testing.T, header string) {
		id := obs.TraceID(header)
		if id != "" && (len(id) != len(trace) || obs.TraceID("Root="+id) != id) {
			t.Errorf("TraceID(%q) = %q", header, id)
		}
	})
}

func TestABlockNamesWhatItIsGiven(t *testing.T) {
	var b bytes.Buffer
	logger(&b).LogAttrs(context.Background(), slog.LevelError, "a row was changed", slog.Int("tampered", 1), obs.MetricsBlock(time.Now(), "tampered"))
	_, got := metricsOf(t, b.Bytes())
	if names := slices.Collect(maps.Keys(got)); !slices.Equal(names, []string{"tampered"}) {
		t.Errorf("metrics = %v, want tampered", names)
	}
}
