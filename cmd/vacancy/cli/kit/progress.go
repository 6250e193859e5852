package kit

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// ProgressLine is a line on a terminal that is overwritten. Without a terminal
// and with --json it prints nothing.
type ProgressLine struct {
	w     io.Writer // nil without a terminal
	shown bool
}

// ProgressLine returns a line on standard error.
func (a *App) ProgressLine() *ProgressLine {
	if isTerminal(a.Err) && !a.JSON {
		return &ProgressLine{w: a.Err}
	}
	return &ProgressLine{}
}

// eraseLine moves to the line's start and erases it.
const eraseLine = "\r\x1b[K"

// Show replaces the line.
func (p *ProgressLine) Show(format string, args ...any) {
	if p.w != nil {
		p.shown = true
		fmt.Fprintf(p.w, eraseLine+format, args...)
	}
}

// Clear erases the line, so that other output can follow.
func (p *ProgressLine) Clear() {
	if p.shown {
		p.shown = false
		fmt.Fprint(p.w, eraseLine)
	}
}

// During runs something and prints at each tick what it is doing, and for how long since began.
func (p *ProgressLine) During(doing func() string, began time.Time, ticks <-chan time.Time, run func() error) error {
	defer p.Clear()
	done := make(chan error, 1)
	go func() { done <- run() }()
	for {
		select {
		case at := <-ticks:
			p.Show("%3.0f s  %s", at.Sub(began).Seconds(), doing())
		case err := <-done:
			return err
		}
	}
}

// After waitShown a person is told that a call waits.
const waitShown = 2 * time.Second

// Await runs a call, and says while it waits what for.
func (a *App) Await(doing func() string, run func() error) error {
	tick := time.NewTicker(waitShown)
	defer tick.Stop()
	return a.ProgressLine().During(doing, time.Now(), tick.C, run)
}

// Waiting is the line of a call that waits for name, for a limit from its beginning.
func Waiting(name string, limit time.Duration) string {
	// It fits 40 columns: a line that wraps is not erased whole.
	return fmt.Sprintf("waiting for %s, %s at most", Printable(Clip(name, 12)), limit)
}

// StreamLines reads the JSON lines of a report until take has seen the last
// one. A stream that ends earlier is incomplete: the host stopped, or the
// connection was cut.
func StreamLines[L any](ctx context.Context, c admin.Client, path string, take func(*L) (last bool, err error)) error {
	body, err := c.Stream(ctx, path)
	if err != nil {
		return err
	}
	defer body.Close()
	lines := json.NewDecoder(body)
	for {
		var line L
		if err := lines.Decode(&line); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return problem.Wrap(problem.Unavailable, err, "the report broke off; run the same command again")
		}
		if last, err := take(&line); last || err != nil {
			return err
		}
	}
}
