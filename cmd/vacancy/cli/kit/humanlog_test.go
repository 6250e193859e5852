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
		if err := h.Handle(t.Context(), r); err != nil {
			t.Fatal(err)
		}
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
	for i := range maxLines + 7 {
		verdict := "ok"
		if i%2 == 0 {
			verdict = "too_many"
		}
		log(slog.LevelInfo, "send", "pair", "a>b", "seq", i, "verdict", verdict, "ms", 1)
	}
	h.Close()
	if got := out.String(); strings.Count(got, "\n") != maxLines+1 || !strings.HasSuffix(got, "12:04:06  and 7 more calls: 4 ok, 3 too_many\n") && !strings.HasSuffix(got, "12:04:06  and 7 more calls: 3 ok, 4 too_many\n") {
		t.Errorf("of %d calls in a second the log is\n%s", maxLines+7, got)
	}
}

// Loggers made by With share the cap on calls in a second, and Close counts the calls of all.
func TestLoggersWithAttributesShareTheCap(t *testing.T) {
	at := time.Date(2026, 5, 6, 12, 4, 5, 0, time.Local)
	var out bytes.Buffer
	h := newHumanLog(&out)
	for i := range maxLines + 7 {
		r := slog.NewRecord(at, slog.LevelInfo, "send", 0)
		r.Add("seq", i, "verdict", "ok", "ms", 1)
		if err := h.WithAttrs([]slog.Attr{slog.String("pair", "a>b")}).Handle(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	h.Close()
	if got := out.String(); strings.Count(got, "\n") != maxLines+1 || !strings.HasSuffix(got, "12:04:05  and 7 more calls: 7 ok\n") {
		t.Errorf("of %d calls in a second, each by a logger of its own, the log is\n%s", maxLines+7, got)
	}
}
