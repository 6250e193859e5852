// Command runner is what tests/run starts: it checks the tools, fetches what
// later stages need while earlier ones run, runs the named stages in order, the
// last of them beside some others, and counts. Its last line is "N passed, N
// failed, N skipped".
//
// A tool that is missing is a failure before any work, never a skip.
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

// packages of the project, by name: those of infra are apart, because building
// the CDK takes longer than all the others together.
var packages = []string{"./cmd/...", "./functions/...", "./localstack/...", "./shared/...", "./tests/..."}

// stage is one named part of the run.
type stage struct {
	name  string
	about string
	needs []string // downloads to wait for, by name
	run   func(context.Context, *counts) error
	// beside says that it runs while the last stage of all mostly waits for its
	// server: one after the other they would take half an hour.
	beside bool
}

// deployed is the stage that the others beside it run with.
const deployed = "aws"

var stages = []stage{
	{"format", "gofmt changes nothing", nil, format, false},
	{"vet", "go vet, and the command builds for every system", nil, vet, false},
	{"lint", "staticcheck is silent", []string{"staticcheck"}, lint, false},
	{"unit", "unit tests with the race detector", nil, unit, false},
	{"e2e", "stories and attacks through the real command", nil, e2e, false},
	{"store", "the store contract on every adapter", []string{"dynamodb-local"}, storeContract, false},
	{"search", "the search contract on a real OpenSearch node", []string{"opensearch"}, searchContract, true},
	{"faults", "faults, kills and random schedules", []string{"dynamodb-local"}, faults, true},
	{"fuzz", "10 s for each parser of what strangers send", nil, fuzz, true},
	{"infra", "the stacks against their golden templates and policies", []string{"staticcheck", "cdk-build"}, infra, true},
	{deployed, "the deployed host, on LocalStack", []string{"cdk", "localstack", "cdk-build"}, aws, true},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:]))
}

func run(ctx context.Context, names []string) int {
	chosen, err := choose(names)
	if err != nil {
		fmt.Println(err)
		return 2
	}
	var c counts
	defer func() { fmt.Println(c.String()) }()
	if !tools(ctx) {
		c.failed++
		return 1
	}
	fetched := fetchAll(ctx, chosen)
	alone := slices.DeleteFunc(slices.Clone(chosen), func(s stage) bool { return s.beside })
	together := chosen[len(alone):]
	c.add(inOrder(ctx, alone, fetched))
	others := slices.DeleteFunc(slices.Clone(together), func(s stage) bool { return s.name == deployed })
	last := make(chan counts, 1)
	go func() { last <- inOrder(ctx, together[len(others):], fetched) }()
	c.add(inOrder(ctx, others, fetched))
	c.add(<-last)
	if c.failed > 0 {
		return 1
	}
	return 0
}

// inOrder runs stages one after the other, and counts.
func inOrder(ctx context.Context, stages []stage, fetched downloads) (c counts) {
	for _, s := range stages {
		if ctx.Err() != nil {
			c.failed++
			break
		}
		began, before := time.Now(), c
		fmt.Printf("== %s: %s\n", s.name, s.about)
		err := fetched.wait(ctx, s.needs)
		if err == nil {
			err = s.run(ctx, &c)
		}
		verdict := "ok"
		if err != nil {
			verdict = "FAILED: " + err.Error()
			if c.failed == before.failed {
				c.failed++
			}
		}
		fmt.Printf("== %s: %s, %.1f s\n\n", s.name, verdict, time.Since(began).Seconds())
	}
	return c
}

func choose(names []string) ([]stage, error) {
	if len(names) == 0 {
		return stages, nil
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
