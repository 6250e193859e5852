package cdk

import (
	"context"
	"crypto/sha256"
	_ "embed" // of npm's two files
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// leastNode is the oldest major version of Node that CDK and its libraries for
// Go are run with here.
const leastNode = 20

var (
	//go:embed package.json
	manifest []byte
	//go:embed package-lock.json
	lockfile []byte
)

// Install makes sure that cache holds the pinned command line, and returns it.
// npm fetches it (about 10 MB, once) and checks its digest; the folder's name
// is a digest of the recipe, so another version is another install. Two
// processes may install at once: one waits for the other. A line on progress
// says when there is something to wait for.
//
// It fails with problem.NotFound, saying what to install, where Node is
// missing or older than version 20 or npm is missing, and with
// problem.Unavailable where npm cannot fetch.
func Install(ctx context.Context, cache string, progress io.Writer) (*CLI, error) {
	node, err := findNode(ctx)
	if err != nil {
		return nil, err
	}
	recipe := sha256.Sum256(append(append([]byte{}, manifest...), lockfile...))
	home := filepath.Join(cache, fmt.Sprintf("aws-cdk-%s-%x", Version, recipe[:4]))
	cli := &CLI{node: node, script: filepath.Join(home, "node_modules", "aws-cdk", "bin", "cdk")}
	if cli.present() {
		return cli, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	release, err := lock(filepath.Join(cache, "aws-cdk.lock"))
	if err != nil {
		return nil, err
	}
	defer release()
	if cli.present() { // another process installed it while this one waited
		return cli, nil
	}
	fmt.Fprintf(progress, "installing aws-cdk %s into %s (once)\n", Version, home)
	if err := build(ctx, cache, home); err != nil {
		return nil, err
	}
	if !cli.present() {
		return nil, fmt.Errorf("npm installed aws-cdk %s without its program %s", Version, cli.script)
	}
	return cli, nil
}

func (c *CLI) present() bool {
	_, err := os.Stat(c.script)
	return err == nil
}

// build installs beside home and moves the whole into place: only a finished
// install ever has the name that present looks for.
func build(ctx context.Context, cache, home string) error {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return problem.Wrap(problem.NotFound, err, "npm was not found, and aws-cdk %s comes from it: install Node %d or newer with npm (https://nodejs.org)", Version, leastNode)
	}
	dir, err := os.MkdirTemp(cache, "aws-cdk-building-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "package.json"), manifest, 0o644),
		os.WriteFile(filepath.Join(dir, "package-lock.json"), lockfile, 0o644)); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return problem.Wrap(problem.Unavailable, err, "npm could not install aws-cdk %s: %s", Version, tail(out))
	}
	// A folder of that name without the program is what a hand or a full disk left.
	if err := os.RemoveAll(home); err != nil {
		return err
	}
	return os.Rename(dir, home)
}

// tail is the end of what npm printed, where the cause stands.
func tail(out []byte) string {
	const most = 1 << 10
	return strings.TrimSpace(string(out[max(0, len(out)-most):]))
}

// findNode looks for Node on PATH and asks for its version.
func findNode(ctx context.Context) (string, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return "", problem.Wrap(problem.NotFound, err, "node was not found, and CDK runs on it: install Node %d or newer (https://nodejs.org)", leastNode)
	}
	out, err := exec.CommandContext(ctx, node, "--version").Output()
	if err != nil {
		return "", problem.Wrap(problem.NotFound, err, "%s does not run: install Node %d or newer (https://nodejs.org)", node, leastNode)
	}
	version := strings.TrimSpace(string(out))
	if major, ok := nodeMajor(version); !ok || major < leastNode {
		return "", problem.New(problem.NotFound, "%s is version %q, and CDK needs Node %d or newer (https://nodejs.org)", node, version, leastNode)
	}
	return node, nil
}

// nodeMajor reads the first number of what `node --version` prints: v20.20.2.
func nodeMajor(version string) (int, bool) {
	rest, ok := strings.CutPrefix(version, "v")
	if !ok {
		return 0, false
	}
	first, _, _ := strings.Cut(rest, ".")
	major, err := strconv.ParseUint(first, 10, 16)
	return int(major), err == nil
}
