package standalone_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/obs"
)

const journalMax = 1 << 20

// flooded is a journal with a small day.
type flooded struct {
	*testing.T
	dir     string
	clock   *clock
	journal *standalone.Journal
	log     *slog.Logger
	lines   int
}

func newFlooded(t *testing.T) *flooded {
	f := &flooded{T: t, dir: t.TempDir(), clock: newClock()}
	var err error
	if f.journal, err = standalone.OpenJournal(f.dir, f.clock.now); err != nil {
		t.Fatal(err)
	}
	f.journal.SetMax(journalMax)
	f.log = slog.New(f.journal.Handler())
	return f
}

// request logs the line of a request, and returns a text that only this line has.
func (f *flooded) request(from string, keyed bool, verdict string) string {
	f.lines++
	mark := fmt.Sprintf("line %d.", f.lines)
	r := httptest.NewRequest(http.MethodPost, "/v/demo/text", nil)
	r.RemoteAddr = from + ":1000"
	if keyed {
		r.Header.Set("Authorization", "Bearer key")
	}
	standalone.WithSender(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		level, attrs := slog.LevelInfo, []slog.Attr{slog.String("path", mark+strings.Repeat("x", 100))}
		switch verdict {
		case "unavailable":
			level = slog.LevelError
		case "agent":
			attrs = append(attrs, slog.Any(obs.AttrFailure, "it is down"))
			verdict = "ok"
		}
		f.log.LogAttrs(context.WithoutCancel(r.Context()), level, "a2a", append(attrs, slog.String(obs.AttrVerdict, verdict))...)
	})).ServeHTTP(httptest.NewRecorder(), r)
	return mark
}

// written returns the journal of today.
func (f *flooded) written() string {
	f.Helper()
	if err := f.journal.Close(); err != nil {
		f.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(f.dir, "journal", f.clock.now().Format(time.DateOnly)+".jsonl"))
	if err != nil {
		f.Fatal(err)
	}
	return string(b)
}

func address(n int) string { return fmt.Sprintf("10.%d.%d.7", n/256, n%256) }

func TestOneAddressDoesNotFillTheJournal(t *testing.T) {
	for _, verdict := range []string{"ok", "unauthorized", "unavailable", "agent"} {
		t.Run(verdict, func(t *testing.T) {
			f := newFlooded(t)
			for range 2 * journalMax / 200 {
				f.request("192.0.2.1", true, verdict)
			}
			wanted := []string{f.request("192.0.2.2", false, "ok"), f.request("192.0.2.2", false, "unauthorized"), f.request("192.0.2.2", false, "unavailable")}
			got := f.written()
			if len(got) > journalMax/16+2048 {
				t.Errorf("one address wrote %d bytes of %d", len(got), journalMax)
			}
			if n := strings.Count(got, "records no more such lines from 192.0.2.1/32 today"); n != 1 {
				t.Errorf("the journal says %d times whose lines it drops, want once", n)
			}
			for _, mark := range wanted {
				if !strings.Contains(got, mark) {
					t.Errorf("the line of another address is lost: %s", mark)
				}
			}
		})
	}
}

func TestAFloodOfManyAddressesDropsAnswersFirst(t *testing.T) {
	f := newFlooded(t)
	flood := func(keyed bool, verdict string) (last string) {
		for n := range 2 * journalMax / 200 {
			last = f.request(address(n), keyed, verdict)
		}
		return last
	}
	var kept, lost []string
	lost = append(lost, flood(false, "ok"))
	kept = append(kept, f.request("192.0.2.1", true, "ok"), f.request("192.0.2.1", false, "unauthorized"), f.request("192.0.2.1", false, "agent"))
	lost = append(lost, flood(false, "unauthorized"))
	lost = append(lost, f.request("192.0.2.1", true, "ok"))
	kept = append(kept, f.request("192.0.2.1", false, "unavailable"), f.request("192.0.2.1", false, "agent"))
	f.log.Info("a job did its work")
	got := f.written()
	for _, mark := range kept {
		if !strings.Contains(got, mark) {
			t.Errorf("a line is lost: %s", mark)
		}
	}
	for _, mark := range lost {
		if strings.Contains(got, mark) {
			t.Errorf("a line of the flood is kept: %s", mark)
		}
	}
	for _, text := range []string{"it is half full", "it is three quarters full", "a job did its work"} {
		if strings.Count(got, text) != 1 {
			t.Errorf("the journal says %d times %q, want once", strings.Count(got, text), text)
		}
	}
	if len(got) > journalMax {
		t.Errorf("the journal has %d bytes of at most %d", len(got), journalMax)
	}

	// The next day has all its room.
	f.clock.add(24 * time.Hour)
	mark := f.request(address(1), false, "ok")
	if got := f.written(); !strings.Contains(got, mark) {
		t.Errorf("the next day lacks %s: %s", mark, got)
	}
}
