// Command runner is started by tests/run. It checks the tools, fetches files
// for later stages while earlier ones run, runs the chosen stages and prints
// the time of each. Its last line is "N passed, N failed, N skipped".
//
// A default run gives the same verdict for the same tree: fixed seeds, the
// stored fuzz corpus, a sample of the long series. "deep" before the stages
// runs every series at full length, and fuzzes.
//
// A missing tool is a failure before any work, never a skip.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// packages of the project without infra. Compiling the CDK takes longer than
// all of them together, so infra has its own stage.
var packages = []string{"./cmd/...", "./functions/...", "./localstack/...", "./shared/...", "./tests/..."}

// depth tells how much of each series a run covers.
type depth bool

const (
	sample depth = false // fixed seeds and short series
	deep   depth = true  // full series, random seeds, fuzzing
)

// args are the arguments of go test at this depth.
func (d depth) args(args ...string) []string {
	if d == deep {
		return args
	}
	return append([]string{"-short"}, args...)
}

// stage is one named part of the run.
type stage struct {
	name  string
	about string
	needs []string // downloads to wait for, by name
	run   func(context.Context, *counts, depth) error
	// lane names the stages that run one after another. The two lanes run side by side, after the
	// stages without a lane.
	lane string
	// deepOnly is set for stages that a default run leaves out unless it names
	// them.
	deepOnly bool
}

// The two lanes take about the same time. Stages in waitLane mostly wait for servers and other programs.
const (
	cpuLane  = "cpu"
	waitLane = "wait"
)

var stages = []stage{
	{name: "format", about: "gofmt changes nothing", run: format},
	{name: "vet", about: "go vet, and the command compiles for other systems", run: vet},
	{name: "lint", about: "staticcheck is silent", needs: []string{"staticcheck"}, run: lint},
	{name: "zips", about: "the functions and the stacks compile, within no test's limit", run: deployable},
	{name: "unit", about: "unit tests with the race detector", run: unit, lane: cpuLane},
	{name: "e2e", about: "stories and attacks through the real command, and clients and servers of others", run: e2e, lane: cpuLane},
	{name: "web", about: "the JavaScript module and the pages in Chromium", run: web, lane: cpuLane},
	{name: "fuzz", about: "10 s for each parser of untrusted input", run: fuzz, lane: cpuLane, deepOnly: true},
	{name: "release", about: "archives and images as they are published, unpacked and run", run: release, lane: cpuLane, deepOnly: true},
	{name: "infra", about: "the stacks against their golden templates and policies", needs: []string{"staticcheck"}, run: infra, lane: cpuLane},
	{name: "aws", about: "the deployed host, on LocalStack", needs: []string{"cdk", "localstack"}, run: aws, lane: waitLane},
	{name: "interop", about: "stock A2A clients of Go, JavaScript and Python against a host", run: interop, lane: waitLane},
	{name: "store", about: "the store contract on every adapter", needs: []string{"dynamodb-local"}, run: storeContract, lane: waitLane},
	{name: "search", about: "the search contract on a real OpenSearch node", needs: []string{"opensearch"}, run: searchContract, lane: waitLane},
	{name: "faults", about: "faults, kills and random schedules", needs: []string{"dynamodb-local"}, run: faults, lane: waitLane},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:]))
}

func run(ctx context.Context, args []string) int {
	d, names := sample, args
	if len(args) > 0 && args[0] == "deep" {
		d, names = deep, args[1:]
	}
	chosen, err := choose(d, names)
	if err != nil {
		fmt.Println(err)
		return 2
	}
	var c counts
	var times table
	defer func() {
		times.print(os.Stdout)
		fmt.Println(c.String())
	}()
	if !tools(ctx) {
		c.failed++
		return 1
	}
	fetched := fetchAll(ctx, chosen)
	inLane := func(lane string) []stage {
		return slices.DeleteFunc(slices.Clone(chosen), func(s stage) bool { return s.lane != lane })
	}
	c.add(inOrder(ctx, inLane(""), d, fetched, &times))
	done := make(chan counts, 1)
	go func() { done <- inOrder(ctx, inLane(waitLane), d, fetched, &times) }()
	c.add(inOrder(ctx, inLane(cpuLane), d, fetched, &times))
	c.add(<-done)
	if c.failed > 0 {
		return 1
	}
	return 0
}

// inOrder runs stages one after the other, and counts.
func inOrder(ctx context.Context, stages []stage, d depth, fetched downloads, times *table) (c counts) {
	for _, s := range stages {
		if ctx.Err() != nil {
			c.failed++
			break
		}
		began, before := time.Now(), c
		fmt.Printf("== %s: %s\n", s.name, s.about)
		err := fetched.wait(ctx, s.needs)
		if err == nil {
			err = s.run(ctx, &c, d)
		}
		verdict := "ok"
		if err != nil {
			verdict = "FAILED: " + err.Error()
			if c.failed == before.failed {
				c.failed++
			}
		}
		took := time.Since(began)
		times.add(s.name, took)
		fmt.Printf("== %s: %s, %.1f s\n\n", s.name, verdict, took.Seconds())
	}
	return c
}

// choose returns the named stages in their order. Without names, it returns the
// stages of the depth.
func choose(d depth, names []string) ([]stage, error) {
	if len(names) == 0 {
		return slices.DeleteFunc(slices.Clone(stages), func(s stage) bool { return s.deepOnly && d != deep }), nil
	}
	var known []string
	var chosen []stage
	for _, s := range stages {
		known = append(known, s.name)
		if slices.Contains(names, s.name) {
			chosen = append(chosen, s)
		}
	}
	for _, n := range names {
		if !slices.Contains(known, n) {
			return nil, fmt.Errorf("no stage %q; the stages are: %s", n, strings.Join(known, " "))
		}
	}
	return chosen, nil
}
