package kit

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A line of the log is for people: who called whom, how it ended, and why.
func TestTheLogIsForPeople(t *testing.T) {
	at := time.Date(2026, 5, 6, 12, 4, 5, 0, time.Local)
	var out bytes.Buffer
	h := newHumanLog(&out)
	log := func(level slog.Level, msg string, attrs ...any) {
		r := slog.NewRecord(at, level, msg, 0)
		r.Add(attrs...)
		must(t, h.Handle(t.Context(), r))
	}
	log(slog.LevelInfo, "send", "pair", "aaaaaaaaaaaa>bbbbbbbbbbbb", "seq", 3, "verdict", "ok", "status", 200, "ms", 1.25, "caller", "alice", "vacant", "demo")
	log(slog.LevelError, "send", "pair", "aaaaaaaaaaaa>bbbbbbbbbbbb", "seq", 4, "verdict", "substrate_unavailable", "status", 500, "ms", 2.5, "cause", "hidden",
		"failure", map[string]any{"text": "status: expected 200, got 500", "body": "a full\x1b[2J disk"})
	log(slog.LevelError, "ask", "pair", "aaaaaaaaaaaa>bbbbbbbbbbbb", "seq", 4, "verdict", "unavailable", "status", 503, "ms", 2.0, "cause", "the disk is full")
	log(slog.LevelWarn, "the search index is rebuilt", "folder", "/srv/x")
	want := `12:04:05  alice -> demo  call 3  ok  1.25 ms
12:04:05  aaaaaaaaaaaa -> bbbbbbbbbbbb  call 4  substrate_unavailable  2.5 ms  status: expected 200, got 500; it answered "a full\x1b[2J disk"
12:04:05  aaaaaaaaaaaa -> bbbbbbbbbbbb  ask 4  unavailable  2 ms  the disk is full
12:04:05  WARN the search index is rebuilt folder=/srv/x
`
	if out.String() != want {
		t.Errorf("the log is\n%s\nwant\n%s", out.String(), want)
	}

	// Of many calls in a second the rest is counted.
	out.Reset()
	at = at.Add(time.Second)
	for i := range maxLinesPerSecond + 7 {
		verdict := "ok"
		if i%2 == 0 {
			verdict = "too_many"
		}
		log(slog.LevelInfo, "send", "pair", "a>b", "seq", i, "verdict", verdict, "ms", 1)
	}
	h.Close()
	if got := out.String(); strings.Count(got, "\n") != maxLinesPerSecond+1 || !strings.HasSuffix(got, "12:04:06  and 7 more calls: 4 ok, 3 too_many\n") && !strings.HasSuffix(got, "12:04:06  and 7 more calls: 3 ok, 4 too_many\n") {
		t.Errorf("of %d calls in a second the log is\n%s", maxLinesPerSecond+7, got)
	}
}

// Loggers made by With share the cap on calls in a second, and Close counts the calls of all.
func TestLoggersWithAttributesShareTheCap(t *testing.T) {
	at := time.Date(2026, 5, 6, 12, 4, 5, 0, time.Local)
	var out bytes.Buffer
	h := newHumanLog(&out)
	for i := range maxLinesPerSecond + 7 {
		r := slog.NewRecord(at, slog.LevelInfo, "send", 0)
		r.Add("seq", i, "verdict", "ok", "ms", 1)
		must(t, h.WithAttrs([]slog.Attr{slog.String("pair", "a>b")}).Handle(t.Context(), r))
	}
	h.Close()
	if got := out.String(); strings.Count(got, "\n") != maxLinesPerSecond+1 || !strings.HasSuffix(got, "12:04:05  and 7 more calls: 7 ok\n") {
		t.Errorf("of %d calls in a second, each by a logger of its own, the log is\n%s", maxLinesPerSecond+7, got)
	}
}

// --failed shows failures of agents and of the host, --refused refusals of calls. Polls, also those in
// the log of an earlier program, and other requests are in neither list.
func TestLinesAreFailedOrRefusedByTheirOutcome(t *testing.T) {
	for line, want := range map[string]string{
		`{"level":"INFO","msg":"send","pair":"a>b","verdict":"ok","status":200}`:                                        "",
		`{"level":"ERROR","msg":"send","pair":"a>b","verdict":"substrate_unavailable","status":500}`:                    "failed",
		`{"level":"INFO","msg":"a2a","pair":"a>b","verdict":"payment_required","status":402}`:                           "refused",
		`{"level":"INFO","msg":"send","pair":"a>b","verdict":"canceled","status":499}`:                                  "refused",
		`{"level":"INFO","msg":"send","pair":"a>b","state":"pending","verdict":"pending","status":409}`:                 "",
		`{"level":"INFO","msg":"send","pair":"a>b","state":"answered","verdict":"replay","status":409}`:                 "",
		`{"level":"INFO","msg":"send","pair":"a>b","state":"unanswered","verdict":"replay","status":409}`:               "",
		`{"level":"ERROR","msg":"send","pair":"a>b","state":"unanswered","verdict":"behaviour_failed","status":500}`:    "failed",
		`{"level":"INFO","msg":"a2a","path":"/favicon.ico","verdict":"not_found","status":404}`:                         "",
		`{"level":"INFO","msg":"mcp","path":"/v/fox/mcp","verdict":"method_not_allowed","status":405}`:                  "",
		`{"level":"ERROR","msg":"the search index is not up to date"}`:                                                  "failed",
		`{"level":"INFO","msg":"task","pair":"a>b","failure":{"kind":"behaviour_failed","text":"it answered nothing"}}`: "failed",
	} {
		e, ok := ParseEvent([]byte(line))
		got := ""
		switch {
		case e.IsFailed():
			got = "failed"
		case e.IsRefused():
			got = "refused"
		}
		if !ok || got != want {
			t.Errorf("%s is %q, want %q", line, got, want)
		}
	}
}

func TestOnlyARefusalByTheFloorSaysUntilWhenMessagesAreRefused(t *testing.T) {
	const restored, until = "restored from a backup at ", ": accepts only messages signed after "
	for verdict, says := range map[string]bool{"floor": true, "gap": false, "replay": false} {
		e, _ := ParseEvent([]byte(`{"msg":"send","pair":"a>b","verdict":"` + verdict + `","status":409,"restored":"2026-05-06T12:00:00Z","floor":"2026-05-06T12:15:00Z"}`))
		if got := e.FormatLine(&bytes.Buffer{}); !strings.Contains(got, restored) || strings.Contains(got, until) != says {
			t.Errorf("the row of %s is %s, want it to say until when: %t", verdict, got, says)
		}
	}
}
