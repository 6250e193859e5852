package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// counts is the number of tests by result, over all stages.
type counts struct{ passed, failed, skipped int }

func (c counts) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.passed, c.failed, c.skipped)
}

func (c *counts) add(more counts) {
	c.passed, c.failed, c.skipped = c.passed+more.passed, c.failed+more.failed, c.skipped+more.skipped
}

// one counts a check that is not a Go test as one test.
func (c *counts) one(err error) error {
	if err != nil {
		c.failed++
	} else {
		c.passed++
	}
	return err
}

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

const (
	// packageTimeout limits the tests of one package. It is several times what the slowest package
	// takes on one busy core.
	packageTimeout = 2 * time.Hour
	// dumpTime limits the time in which a program prints its goroutines.
	dumpTime = 10 * time.Second
)

// silence limits the time in which the tests print nothing. Every wait of a test has a shorter limit,
// and a test whose preparation takes longer prints a line per step.
var silence = 10 * time.Minute

// detectorCrash begins the output of a process that used a bad address outside Go code. The only
// C code in tests is the race detector's, which rarely crashes, in packages with thousands of
// goroutines. A bad address in Go code is a panic, and prints something else.
const detectorCrash = "SIGSEGV: segmentation violation\nPC="

// goTest tests packages as testOnce does. It tests packages once more if the race detector crashed
// in them, because their result is unknown.
func goTest(ctx context.Context, c *counts, args ...string) error {
	crashed, err := testOnce(ctx, c, args...)
	if len(crashed) == 0 {
		return err
	}
	fmt.Println("   the race detector crashed in these packages, which are tested once more:", strings.Join(crashed, " "))
	flags := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return !strings.HasPrefix(a, "-") })
	again, second := testOnce(ctx, c, append(crashed, flags...)...)
	if len(again) > 0 {
		second = fmt.Errorf("the race detector crashed twice in %s", strings.Join(again, " "))
		c.failed += len(again)
	}
	return errors.Join(err, second)
}

// testOnce runs go test without its checks, which stage vet has made. It prints a line per package and the whole output of
// failures, and counts every test and subtest. It ends tests that hang, and
// prints their goroutines. It returns the packages in which nothing failed
// except that the race detector crashed; err is about the others.
func testOnce(ctx context.Context, c *counts, args ...string) (crashed []string, err error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json", "-vet=off", "-timeout=" + packageTimeout.String()}, args...)...)
	cmd.Stderr = os.Stderr
	// The group has go test, the tests, and the programs that tests start.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	signal := func(s syscall.Signal) error { return syscall.Kill(-cmd.Process.Pid, s) }
	cmd.Cancel = func() error { return signal(syscall.SIGTERM) }
	cmd.WaitDelay = dumpTime
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	said := map[string]*strings.Builder{} // output so far, by package and test
	failures := map[string]int{}          // by package
	failed := 0
	var hung atomic.Bool
	ended := make(chan struct{})
	defer close(ended)
	watch := time.AfterFunc(silence, func() {
		hung.Store(true)
		fmt.Printf("the tests printed nothing for %v; the goroutines follow\n", silence)
		_ = signal(syscall.SIGQUIT)
		select {
		case <-ended:
		case <-time.After(dumpTime):
			_ = signal(syscall.SIGKILL)
		}
	})
	defer watch.Stop()
	lines := bufio.NewScanner(pipe)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Println(lines.Text())
			continue
		}
		key := e.Package + " " + e.Test
		if !hung.Load() {
			watch.Reset(silence)
		}
		switch e.Action {
		case "output", "build-output":
			// Some tests print megabytes line by line; appending to a string
			// would be quadratic.
			if said[key] == nil {
				said[key] = &strings.Builder{}
			}
			said[key].WriteString(e.Output)
			continue
		case "pass", "fail", "skip":
		default:
			continue
		}
		if e.Action == "fail" && e.Test == "" && failures[e.Package] == 0 {
			// The test in which the process died has no end.
			for key, b := range said {
				if strings.HasPrefix(key, e.Package+" ") && strings.Contains(b.String(), detectorCrash) {
					crashed = append(crashed, e.Package)
					fmt.Printf("   crash %s\n%s", key, text(b))
					delete(said, key)
				}
			}
			if slices.Contains(crashed, e.Package) {
				continue
			}
		}
		c.count(e)
		if e.Action == "fail" {
			failed++
			failures[e.Package]++
			fmt.Printf("--- FAIL %s\n%s", key, text(said[key]))
		} else if e.Test == "" && e.Action == "pass" { // a package without tests reports skip
			fmt.Printf("   ok    %s (%.1f s)\n", e.Package, e.Elapsed)
		}
		if e.Action == "skip" && e.Test != "" {
			fmt.Printf("   skip  %s\n%s", key, text(said[key]))
		}
		delete(said, key)
	}
	if err := errors.Join(lines.Err(), cmd.Wait()); err != nil {
		for key, b := range said { // output that belongs to no test: a failed build
			fmt.Printf("%s\n%s", key, text(b))
		}
		if hung.Load() {
			err = fmt.Errorf("tests hang (%w)", err)
		}
		if failed == 0 && len(crashed) > 0 {
			return crashed, nil
		}
		return crashed, fmt.Errorf("go test: %w, %d failures", err, failed)
	}
	return nil, nil
}

// text returns the content of b, which may be nil.
func text(b *strings.Builder) string {
	if b == nil {
		return ""
	}
	return b.String()
}

func (c *counts) count(e event) {
	if e.Test == "" {
		if e.Action == "fail" {
			c.failed++ // includes packages that do not build or that panic
		}
		return
	}
	switch e.Action {
	case "pass":
		c.passed++
	case "fail":
		c.failed++
	case "skip":
		c.skipped++
	}
}
