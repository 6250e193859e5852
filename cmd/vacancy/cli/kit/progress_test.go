package kit

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestProgressIsWrittenOverAndErased(t *testing.T) {
	var out strings.Builder
	p := &ProgressLine{w: &out}
	p.Clear()
	p.Show("%d rows", 5)
	p.Show("%d rows", 6)
	p.Clear()
	p.Clear()
	if want := "\r\x1b[K5 rows\r\x1b[K6 rows\r\x1b[K"; out.String() != want {
		t.Errorf("progress = %q, want %q", out.String(), want)
	}
}

func TestProgressOfSilentWork(t *testing.T) {
	var out strings.Builder
	ticks, failed := make(chan time.Time), errors.New("no")
	began := time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC)
	run := func() error {
		ticks <- began.Add(time.Second)
		ticks <- began.Add(10 * time.Second)
		return failed
	}
	if err := (&ProgressLine{w: &out}).ShowDuring(func() string { return "building" }, began, ticks, run); err != failed {
		t.Errorf("during() = %v, want what the run ended with", err)
	}
	if want := "\r\x1b[K  1 s  building\r\x1b[K 10 s  building\r\x1b[K"; out.String() != want {
		t.Errorf("progress = %q, want %q", out.String(), want)
	}
	out.Reset()
	if _ = (&ProgressLine{}).ShowDuring(func() string { return "building" }, began, ticks, run); out.Len() > 0 {
		t.Errorf("progress without a terminal = %q, want none", out.String())
	}
}

func TestACallThatWaitsNamesItsLimit(t *testing.T) {
	var out strings.Builder
	ticks := make(chan time.Time)
	began := time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC)
	run := func() error { ticks <- began.Add(waitProgressInterval); return nil }
	must(t, (&ProgressLine{w: &out}).ShowDuring(func() string { return WaitingText("fox\x1b[2J", time.Minute) }, began, ticks, run))
	if want := "\r\x1b[K  2 s  waiting for fox\\u001b[2J, 1m0s at most\r\x1b[K"; out.String() != want {
		t.Errorf("progress = %q, want %q", out.String(), want)
	}
	quiet, failed := &App{Err: &out}, errors.New("no")
	out.Reset()
	if err := quiet.RunWithProgress(func() string { return "" }, func() error { return failed }); err != failed || out.Len() > 0 {
		t.Errorf("RunWithProgress() without a terminal = %v and wrote %q, want the call's error and nothing", err, out.String())
	}
}
