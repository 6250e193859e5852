package startcmd

import (
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

// restarts limits the starts of a program that ends.
type restarts struct {
	first, longest time.Duration // pauses before a start; each pause is twice the last one
	steady         time.Duration // running time after which the next pause is first again
	maxShort       int           // starts in a row that were followed by an end before steady
}

var defaultRestarts = restarts{first: time.Second, longest: time.Minute, steady: time.Minute, maxShort: 10}

// readAgents reads the folders of serve --run. Their programs do not get the host's variables, for example the
// password of its search cluster.
func readAgents(a *kit.App, ctx context.Context, dirs []string, data string) (all []*agentProgram, err error) {
	// The programs of a killed host may still hold their ports.
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
		if slices.ContainsFunc(all, func(b *agentProgram) bool { return b.name == w.name || b.port == w.port && w.port != 0 }) {
			return nil, problem.New(problem.Usage, "--run: expected folders with names and ports of their own, %s has the name or port of another folder", dir)
		}
		for w.port != 0 && w.taken(w.port) {
			if cloud.Wait(waiting, watchPause) != nil {
				return nil, w.portTaken()
			}
		}
		all = append(all, &agentProgram{w, defaultRestarts})
	}
	return all, nil
}

// startAgents starts the programs and writes their lines to the log, without what looks like a secret.
func startAgents(all []*agentProgram, log *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, b := range all {
		from := obs.WithSender(ctx, obs.Sender{ID: "the program of " + b.name}) // so that its lines get only a share of the journal
		secret := substrate.NewSecret(b.secret)
		b.print = limitLines(b.Now, func(line string) {
			log.InfoContext(from, b.name+" | "+substrate.Redact(string(secret.Hide([]byte(line))), maxLine))
		})
		running.Go(func() { b.keep(ctx) })
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// keep runs the program until ctx ends, and starts it again when it ends.
func (b *agentProgram) keep(ctx context.Context) {
	for short := 1; ; short++ {
		program := &child{began: b.Now()}
		if b.port != 0 && b.taken(b.port) {
			b.print(fmt.Sprintf("not started, because another program listens at port %d", b.port))
		} else {
			program = b.begin()
			if program.cmd != nil {
				select {
				case <-program.exited:
				case <-ctx.Done():
				}
				program.stop()
			}
		}
		if b.Now().Sub(program.began) >= b.steady {
			short = 1
		}
		if ctx.Err() != nil {
			return
		}
		if short == b.maxShort {
			b.print(fmt.Sprintf("ended %d times soon after its start; it is started again with the host", short))
			return
		}
		pause := b.longest
		if short < 16 { // a longer shift could overflow
			pause = min(b.first<<(short-1), b.longest)
		}
		b.print(fmt.Sprintf("starts again in %s", pause))
		if cloud.Wait(ctx, pause) != nil {
			return
		}
	}
}

// hostAgents hosts each agent when its program listens, or after startTime.
func hostAgents(ctx context.Context, all []*agentProgram) error {
	waiting, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for _, b := range all {
		for b.port != 0 && !b.taken(b.port) && cloud.Wait(waiting, watchPause) == nil {
		}
		if err := b.set(ctx); err != nil {
			return err
		}
	}
	return nil
}

// maxLines limits the printed lines of a program in a second.
const maxLines = 100

// limitLines returns a function that prints at most maxLines lines in a second and reports the number of the others.
func limitLines(now func() time.Time, print func(string)) func(string) {
	var mu sync.Mutex
	var began time.Time
	count := 0
	return func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if at := now(); at.Sub(began) >= time.Second {
			if count > maxLines {
				print(fmt.Sprintf("%d more lines in one second are left out", count-maxLines))
			}
			began, count = at, 0
		}
		if count++; count <= maxLines {
			print(line)
		}
	}
}
