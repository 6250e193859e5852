package hostcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/hammer"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// hammerFlags are the flags of a run.
type hammerFlags struct {
	pairs, size int
	time        time.Duration
	calls       uint64
	vacant      string
	own         bool
	where       kit.Where
}

func hammerCommand(a *kit.App) *cobra.Command {
	var f hammerFlags
	cmd := &cobra.Command{
		Use:   "hammer TARGET",
		Short: "Load a host with calls and measure it",
		Long: `Call TARGET as fast as it answers, from many callers at once, and verify every answer:
its signature, its place in the chain, and that it answers this call. TARGET is the
URL of a host or of a vacant (.../v/ID), or the name of a vacant hosted on this machine or
on --host.

The callers' keys exist only for this run; their calls stay in the host's data. Without
--i-operate-this-host only this machine may be the target. It exits with 6 if an
answer did not verify, and with 1 if a call was not answered.`,
		Example: `  vacancy hammer http://127.0.0.1:8080 --pairs 64 --for 10s
  vacancy hammer http://127.0.0.1:8080 --vacant ID --calls 1000 --json
  vacancy hammer demo --calls 1000`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runHammer(a, cmd.Context(), args[0], f)
		},
	}
	fs := cmd.Flags()
	fs.IntVar(&f.pairs, "pairs", 64, "concurrent callers, each with one call in flight")
	fs.DurationVar(&f.time, "for", 10*time.Second, "how long, at most 1h")
	fs.Uint64Var(&f.calls, "calls", 0, "stop after this many calls (default no limit)")
	fs.IntVar(&f.size, "size", 100, "bytes of each message")
	fs.StringVar(&f.vacant, "vacant", "", "the id of the vacant, if the host has several")
	kit.ElsewhereFlags(fs, &f.where)
	fs.BoolVar(&f.own, "i-operate-this-host", false, "hammer a host that is not this machine")
	return cmd
}

func runHammer(a *kit.App, ctx context.Context, url string, f hammerFlags) error {
	if !kit.IsURL(url) {
		hosted, err := a.HostedTarget(ctx, a.HTTP(kit.CallTimeout), url, f.where)
		if err != nil {
			return err
		}
		url = hosted.URL
	}
	var id identity.ID
	if f.vacant != "" {
		var err error
		if id, err = identity.ParseID(f.vacant); err != nil || id.Check() != nil {
			return &problem.Error{Kind: problem.Usage, Field: "--vacant", Want: "an id of 64 hex digits", Got: fmt.Sprintf("%.80q", f.vacant)}
		}
	}
	target, err := hammer.Find(ctx, url, id, f.own, a.Roots())
	if problem.Is(err, problem.Forbidden) && !f.own {
		return kit.WithHint(err, "vacancy hammer %s --i-operate-this-host, if it is yours", url)
	}
	if problem.Is(err, problem.NotFound) && f.vacant == "" {
		return kit.WithHint(err, "vacancy hammer %s --vacant ID, or vacancy hammer NAME", url)
	}
	if err != nil {
		return err
	}
	line := a.ProgressLine()
	defer line.Clear()
	sum, err := hammer.Run(ctx, hammer.Config{
		Target: target, Pairs: f.pairs, For: f.time, Calls: f.calls, Size: f.size, Now: a.Now, Rand: a.Rand,
		Live: func(i hammer.Interval) {
			line.Show("%3.0f s  %d calls  %.0f/s  p50 %s  p99 %s%s", i.Elapsed.Seconds(), i.Calls, i.PerSecond, shortTime(i.P50), shortTime(i.P99), counted(i.Errors))
		},
	})
	line.Clear()
	if err != nil && sum.Elapsed == 0 {
		return err // it never began
	}
	r := newHammerResult(target, f.pairs, sum)
	if shown := a.Show(r); shown != nil {
		return errors.Join(err, shown)
	}
	return r.verdict(err)
}

// hammerResult is the result of a run. Times are in milliseconds, from the
// first byte sent to the last received.
type hammerResult struct {
	URL         string                  `json:"url"`
	Vacant      identity.ID             `json:"vacant_id"`
	Pairs       int                     `json:"pairs"`
	Seconds     float64                 `json:"seconds"`
	Calls       uint64                  `json:"calls"`
	PerSecond   float64                 `json:"calls_per_second"`
	P50         float64                 `json:"p50_ms"`
	P90         float64                 `json:"p90_ms"`
	P99         float64                 `json:"p99_ms"`
	Max         float64                 `json:"max_ms"`
	Resent      uint64                  `json:"resent"`
	Errors      map[string]hammerErrors `json:"errors"`
	Interrupted bool                    `json:"interrupted"`
}

// hammerErrors counts calls that failed in one way.
type hammerErrors struct {
	Count uint64 `json:"count"`
	First string `json:"first"` // the first error's text
}

func newHammerResult(t hammer.Target, pairs int, s hammer.Summary) hammerResult {
	r := hammerResult{
		URL: t.URL.String(), Vacant: t.ID, Pairs: pairs, Seconds: s.Elapsed.Round(time.Millisecond).Seconds(), Calls: s.Calls,
		PerSecond: float64(int(s.PerSecond*10)) / 10, P50: kit.Milliseconds(s.P50), P90: kit.Milliseconds(s.P90), P99: kit.Milliseconds(s.P99), Max: kit.Milliseconds(s.Max),
		Resent: s.Resent, Errors: map[string]hammerErrors{}, Interrupted: s.Interrupted,
	}
	for code, n := range s.Errors {
		r.Errors[code] = hammerErrors{n, s.First[code]}
	}
	return r
}

// verdict is the command's error.
func (r hammerResult) verdict(err error) error {
	if err != nil {
		return err
	}
	var failed uint64
	for _, e := range r.Errors {
		failed += e.Count
	}
	switch forged := r.Errors[problem.Untrusted.String()].Count; {
	case forged > 0:
		return problem.New(problem.Untrusted, "%d answers did not verify", forged)
	case failed > 0:
		return &kit.Reported{}
	case r.Calls == 0:
		return problem.New(problem.Unavailable, "no call was answered in time")
	}
	return nil
}

func (r hammerResult) Print(w io.Writer) {
	fmt.Fprintf(w, "%d calls answered and verified in %.1f s by %d pairs\n", r.Calls, r.Seconds, r.Pairs)
	fmt.Fprintf(w, "  %.0f calls/s   p50 %.1f ms   p90 %.1f ms   p99 %.1f ms   max %.1f ms\n", r.PerSecond, r.P50, r.P90, r.P99, r.Max)
	if r.Resent > 0 {
		fmt.Fprintf(w, "  %d requests sent again by the same bytes\n", r.Resent)
	}
	for _, code := range slices.Sorted(maps.Keys(r.Errors)) {
		e := r.Errors[code]
		fmt.Fprintf(w, "  %d %s: %s\n", e.Count, kit.Printable(code), kit.Printable(kit.Clip(e.First, 120)))
	}
}

// counted is the errors in a progress line.
func counted(errors map[string]uint64) string {
	var b strings.Builder
	for _, code := range slices.Sorted(maps.Keys(errors)) {
		fmt.Fprintf(&b, "  %d %s", errors[code], kit.Printable(code))
	}
	return b.String()
}

func shortTime(d time.Duration) string { return fmt.Sprintf("%.1f ms", kit.Milliseconds(d)) }
