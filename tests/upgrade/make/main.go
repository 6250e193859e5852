// Command make rebuilds the stored hosts of tests/upgrade from the commits of their releases:
//
//	go run ./tests/upgrade/make
//
// For each release it builds the program of the commit, uses it by its command line and by its HTTP
// API on loopback, kills it while calls are running, and writes the remaining data as text to
// tests/upgrade/testdata. All keys are created for this purpose and are used only here.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// releases are the releases whose hosts are kept.
var releases = []struct {
	format int // of the data file
	commit string
}{
	{2, "22510df6"},
	{3, "401b3b9c"},
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "make:", err)
		os.Exit(1)
	}
}

func run() error {
	top, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return fmt.Errorf("the commits of the releases are read from the git repository: %w", err)
	}
	root := strings.TrimSpace(string(top))
	for _, r := range releases {
		if err := makeHost(root, r.format, r.commit); err != nil {
			return fmt.Errorf("format %d, commit %s: %w", r.format, r.commit, err)
		}
	}
	return nil
}

// makeHost builds the program of a commit and keeps a host of it.
func makeHost(root string, format int, commit string) (err error) {
	scratch, err := os.MkdirTemp("", "upgrade-make-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	source, program := filepath.Join(scratch, "source"), filepath.Join(scratch, "vacancy")
	if err := os.Mkdir(source, 0o755); err != nil {
		return err
	}
	fmt.Printf("format %d: building the program of %s\n", format, commit)
	for _, c := range []*exec.Cmd{
		exec.Command("sh", "-c", `git -C "$1" archive "$2" | tar -x -C "$3"`, "sh", root, commit, source),
		exec.Command("go", "-C", source, "build", "-trimpath", "-o", program, "./cmd/vacancy"),
	} {
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", c, err, out)
		}
	}
	fmt.Printf("format %d: using the program\n", format)
	home := filepath.Join(scratch, "home")
	host, err := useProgram(program, home)
	if err != nil {
		return err
	}
	host.Commit, host.Format = commit, format
	to := filepath.Join(root, "tests", "upgrade", "testdata", fmt.Sprintf("format%d", format))
	fmt.Printf("format %d: writing %s\n", format, to)
	return host.Store(to, home)
}
