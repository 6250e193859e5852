package startcmd

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// agentProgram is an agent whose program runs next to a host (serve --run).
type agentProgram struct {
	*watcher
	restartPolicy
}

// restartPolicy limits how often and how soon an ended program is restarted.
type restartPolicy struct {
	firstPause, maxPause time.Duration // each pause is twice the previous pause
	steadyRunTime        time.Duration // a run of this length resets the pause
	maxShortRuns         int           // maximum number of consecutive shorter runs
}

var defaultRestartPolicy = restartPolicy{firstPause: time.Second, maxPause: time.Minute, steadyRunTime: time.Minute, maxShortRuns: 10}

// readPrograms reads the folders of serve --run. The programs do not inherit VACANCY_ variables,
// because some contain secrets.
func readPrograms(a *kit.App, ctx context.Context, dirs []string, data string) (programs []*agentProgram, err error) {
	// The programs of a killed host may still listen at their ports, so wait until the ports are
	// free.
	waitCtx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for _, dir := range dirs {
		w, err := newWatcher(a, dir, watchOptions{data: data}, "mv "+kit.ShellWord(dir)+" NAME")
		if err != nil {
			return nil, err
		}
		w.environ = slices.DeleteFunc(w.environ, func(v string) bool { return strings.HasPrefix(v, "VACANCY_") })
		if w.programCommand() == "" {
			return nil, kit.WithHint(problem.New(problem.Usage, "--run: expected a folder with an agent's program, but %s has none", dir), "vacancy create NAME --from %s", kit.ShellWord(dir))
		}
		if slices.ContainsFunc(programs, func(p *agentProgram) bool { return p.name == w.name || p.port == w.port && w.port != 0 }) {
			return nil, problem.New(problem.Usage, "--run: expected a different name and port for each folder, but %s has the name or port of another folder", dir)
		}
		for w.port != 0 && w.isPortTaken(w.port) {
			if cloud.Sleep(waitCtx, pollInterval) != nil {
				return nil, w.portTakenError()
			}
		}
		programs = append(programs, &agentProgram{w, defaultRestartPolicy})
	}
	return programs, nil
}

// startPrograms starts the programs and writes their output to the log. It hides strings that look
// like secrets. stop ends the programs and waits for their end.
func startPrograms(programs []*agentProgram, log *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, p := range programs {
		// The log limits the lines per sender, so each program is a sender.
		senderCtx := obs.WithSender(ctx, obs.Sender{ID: "the program of " + p.name})
		secret := substrate.NewSecret(cmp.Or(p.secret, p.Env[secretEnv]))
		p.printLine = lineLimiter(p.Now, func(line string) {
			log.InfoContext(senderCtx, p.name+" | "+substrate.Redact(string(secret.Hide([]byte(line))), maxLineBytes))
		})
		wg.Go(func() { p.supervise(ctx) })
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// supervise runs the program until ctx ends, and restarts it within the limits of its
// restartPolicy.
func (p *agentProgram) supervise(ctx context.Context) {
	for shortRuns := 1; ; shortRuns++ {
		if p.port != 0 && p.isPortTaken(p.port) {
			p.printLine(fmt.Sprintf("not started, because another program listens at port %d; that program gets the agent's calls", p.port))
			if cloud.Sleep(ctx, p.maxPause) != nil {
				return
			}
			shortRuns--
			continue
		}
		program := p.startProgram()
		if program.cmd != nil {
			select {
			case <-program.exited:
			case <-ctx.Done():
			}
			program.stop()
		}
		if p.Now().Sub(program.startedAt) >= p.steadyRunTime {
			shortRuns = 0
		}
		if ctx.Err() != nil {
			return
		}
		if shortRuns == p.maxShortRuns {
			p.printLine(fmt.Sprintf("ended %d times soon after its start and is not restarted; to start it again, restart the host", shortRuns))
			return
		}
		pause := p.maxPause
		if shortRuns < 16 { // a longer shift could overflow
			pause = min(p.firstPause<<max(shortRuns-1, 0), p.maxPause)
		}
		p.printLine(fmt.Sprintf("starts again in %s", pause))
		if cloud.Sleep(ctx, pause) != nil {
			return
		}
	}
}

func hostAgents(ctx context.Context, programs []*agentProgram) error {
	waitCtx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for _, p := range programs {
		p.waitForPort(waitCtx, func() bool { return false })
		if err := p.hostAgent(ctx); err != nil {
			return err
		}
	}
	return nil
}

const maxLinesPerSecond = 100

// lineLimiter returns a function that prints at most maxLinesPerSecond lines per second.
func lineLimiter(now func() time.Time, printLine func(string)) func(string) {
	var mu sync.Mutex
	var windowStart time.Time
	lineCount := 0
	return func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if lineTime := now(); lineTime.Sub(windowStart) >= time.Second {
			if lineCount > maxLinesPerSecond {
				printLine(fmt.Sprintf("%d more lines in the same second were omitted", lineCount-maxLinesPerSecond))
			}
			windowStart, lineCount = lineTime, 0
		}
		if lineCount++; lineCount <= maxLinesPerSecond {
			printLine(line)
		}
	}
}
