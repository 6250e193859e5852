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
	*watching
	restarts
}

// restarts is the restart policy of a program.
type restarts struct {
	first, longest time.Duration // first and longest pause; each pause is twice the previous one
	steady         time.Duration // a run at least this long resets the pause to first
	maxShort       int           // limit of consecutive shorter runs, after which the program is not restarted
}

var defaultRestarts = restarts{first: time.Second, longest: time.Minute, steady: time.Minute, maxShort: 10}

// readAgents reads the folders of serve --run, and waits until their ports are free. The programs
// do not inherit VACANCY_ variables, because some contain secrets, for example the password of the
// search cluster.
func readAgents(a *kit.App, ctx context.Context, dirs []string, data string) (programs []*agentProgram, err error) {
	// The programs of a killed host may still listen at their ports.
	waiting, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for _, dir := range dirs {
		w, err := newWatching(a, dir, watchOptions{data: data}, "mv "+kit.ShellWord(dir)+" NAME")
		if err != nil {
			return nil, err
		}
		w.environ = slices.DeleteFunc(w.environ, func(v string) bool { return strings.HasPrefix(v, "VACANCY_") })
		if w.command() == "" {
			return nil, kit.WithHint(problem.New(problem.Usage, "--run: expected a folder with an agent's program, %s has none", dir), "vacancy create NAME --from %s", kit.ShellWord(dir))
		}
		if slices.ContainsFunc(programs, func(p *agentProgram) bool { return p.name == w.name || p.port == w.port && w.port != 0 }) {
			return nil, problem.New(problem.Usage, "--run: expected folders with names and ports of their own, %s has the name or port of another folder", dir)
		}
		for w.port != 0 && w.taken(w.port) {
			if cloud.Wait(waiting, watchPause) != nil {
				return nil, w.portTaken()
			}
		}
		programs = append(programs, &agentProgram{w, defaultRestarts})
	}
	return programs, nil
}

// startAgents starts the programs. It writes their output to the log, and hides strings that look
// like secrets. The returned function stop ends the programs and waits until they have ended.
func startAgents(programs []*agentProgram, log *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, p := range programs {
		// The journal (the host's log file) limits the lines per sender, so each program is a sender.
		from := obs.WithSender(ctx, obs.Sender{ID: "the program of " + p.name})
		secret := substrate.NewSecret(cmp.Or(p.secret, p.Env[secretEnv]))
		p.print = lineLimiter(p.Now, func(line string) {
			log.InfoContext(from, p.name+" | "+substrate.Redact(string(secret.Hide([]byte(line))), maxLine))
		})
		running.Go(func() { p.supervise(ctx) })
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// supervise runs the program until ctx ends. It restarts a program that ends, unless there were
// maxShort short runs in a row.
func (p *agentProgram) supervise(ctx context.Context) {
	for shortRuns := 1; ; shortRuns++ {
		if p.port != 0 && p.taken(p.port) {
			p.print(fmt.Sprintf("not started, because another program listens at port %d and gets the agent's calls", p.port))
			if cloud.Wait(ctx, p.longest) != nil {
				return
			}
			shortRuns--
			continue
		}
		program := p.begin()
		if program.cmd != nil {
			select {
			case <-program.exited:
			case <-ctx.Done():
			}
			program.stop()
		}
		if p.Now().Sub(program.began) >= p.steady {
			shortRuns = 0
		}
		if ctx.Err() != nil {
			return
		}
		if shortRuns == p.maxShort {
			p.print(fmt.Sprintf("ended %d times soon after its start; restart the host to start it again", shortRuns))
			return
		}
		pause := p.longest
		if shortRuns < 16 { // a longer shift could overflow
			pause = min(p.first<<max(shortRuns-1, 0), p.longest)
		}
		p.print(fmt.Sprintf("starts again in %s", pause))
		if cloud.Wait(ctx, pause) != nil {
			return
		}
	}
}

func hostAgents(ctx context.Context, programs []*agentProgram) error {
	waiting, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for _, p := range programs {
		p.waitForPort(waiting, func() bool { return false })
		if err := p.hostAgent(ctx); err != nil {
			return err
		}
	}
	return nil
}

const maxLines = 100

// lineLimiter returns a function that prints at most maxLines lines per second. With the first line
// of the next second, the function also prints how many lines were omitted.
func lineLimiter(now func() time.Time, print func(string)) func(string) {
	var mu sync.Mutex
	var began time.Time
	count := 0
	return func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if lineTime := now(); lineTime.Sub(began) >= time.Second {
			if count > maxLines {
				print(fmt.Sprintf("%d more lines in the same second were omitted", count-maxLines))
			}
			began, count = lineTime, 0
		}
		if count++; count <= maxLines {
			print(line)
		}
	}
}
