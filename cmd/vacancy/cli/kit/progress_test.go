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
	run := func() error {
		at := time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC)
		ticks <- at
		ticks <- at.Add(9 * time.Second)
		return failed
	}
	if err := (&ProgressLine{w: &out}).During("building", ticks, run); err != failed {
		t.Errorf("during() = %v, want what the run ended with", err)
	}
	if want := "\r\x1b[K  1 s  building\r\x1b[K 10 s  building\r\x1b[K"; out.String() != want {
		t.Errorf("progress = %q, want %q", out.String(), want)
	}
	out.Reset()
	if _ = (&ProgressLine{}).During("building", ticks, run); out.Len() > 0 {
		t.Errorf("progress where there is no terminal = %q, want none", out.String())
	}
}
