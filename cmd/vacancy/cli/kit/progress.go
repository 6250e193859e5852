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

// ProgressLine is a line on a terminal that each Show overwrites. It is not shown if standard error
// is not a terminal or --json is set.
type ProgressLine struct {
	w       io.Writer
	isShown bool
}

func (a *App) ProgressLine() *ProgressLine {
	if isTerminal(a.Err) && !a.JSON {
		return &ProgressLine{w: a.Err}
	}
	return &ProgressLine{}
}

const eraseLine = "\r\x1b[K"

func (p *ProgressLine) Show(format string, args ...any) {
	if p.w != nil {
		p.isShown = true
		fmt.Fprintf(p.w, eraseLine+format, args...)
	}
}

func (p *ProgressLine) Clear() {
	if p.isShown {
		p.isShown = false
		fmt.Fprint(p.w, eraseLine)
	}
}

// ShowDuring calls run, and shows the elapsed time and the status at each tick.
func (p *ProgressLine) ShowDuring(status func() string, startTime time.Time, ticks <-chan time.Time, run func() error) error {
	defer p.Clear()
	done := make(chan error, 1)
	go func() { done <- run() }()
	for {
		select {
		case now := <-ticks:
			p.Show("%3.0f s  %s", now.Sub(startTime).Seconds(), status())
		case err := <-done:
			return err
		}
	}
}

const waitProgressInterval = 2 * time.Second

func (a *App) RunWithProgress(status func() string, run func() error) error {
	ticker := time.NewTicker(waitProgressInterval)
	defer ticker.Stop()
	return a.ProgressLine().ShowDuring(status, time.Now(), ticker.C, run)
}

func WaitingText(name string, limit time.Duration) string {
	// A line that wraps cannot be erased completely, so the text fits in 40 columns.
	return fmt.Sprintf("waiting for %s, %s at most", EscapeLine(Truncate(name, 12)), limit)
}

// StreamLines passes the JSON lines of a report to handle until handle returns true or an error. A
// stream that ends earlier is an error, because the host may have stopped.
func StreamLines[L any](ctx context.Context, c admin.Client, path string, handle func(*L) (last bool, err error)) error {
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
			return problem.Wrap(problem.Unavailable, err, "the report is incomplete; run the same command again")
		}
		if last, err := handle(&line); last || err != nil {
			return err
		}
	}
}
