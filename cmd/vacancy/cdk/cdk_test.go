package cdk_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cache"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cdk"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// path makes a PATH of one directory with the given programs, as shell scripts,
// beside the few ordinary ones that these use.
func path(t *testing.T, scripts map[string]string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the programs that stand in for Node and npm are shell scripts")
	}
	dir := t.TempDir()
	for _, name := range []string{"mkdir", "sh", "sleep"} {
		real, err := exec.LookPath(name)
		must(t, err)
		must(t, os.Symlink(real, filepath.Join(dir, name)))
	}
	for name, script := range scripts {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	t.Setenv("PATH", dir)
	return dir
}

// installs is an npm that installs an empty program.
const installs = "mkdir -p node_modules/aws-cdk/bin; : > node_modules/aws-cdk/bin/cdk"

func TestInstallSaysWhichToolIsMissing(t *testing.T) {
	for _, test := range []struct {
		name    string
		scripts map[string]string
		kind    problem.Kind
		want    string
	}{
		{"no Node", nil, problem.NotFound, "node was not found, but CDK needs it: install Node 22 or newer"},
		{"an old Node", map[string]string{"node": "echo v18.19.0"}, problem.NotFound, `is version "v18.19.0", which is too old for CDK: install Node 22 or newer`},
		{"a Node of no version", map[string]string{"node": "echo nonsense"}, problem.NotFound, `is version "nonsense"`},
		{"a Node that does not run", map[string]string{"node": "exit 3"}, problem.NotFound, "does not run"},
		{"no npm", map[string]string{"node": "echo v20.0.0"}, problem.NotFound, "npm was not found"},
		{"npm without a network", map[string]string{"node": "echo v22.1.0", "npm": "echo no such host >&2; exit 1"}, problem.Unavailable, "npm could not install aws-cdk 2.1126.0: no such host"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path(t, test.scripts)
			cache := t.TempDir()
			_, err := cdk.Install(t.Context(), cache, io.Discard)
			if !problem.Is(err, test.kind) || !strings.Contains(problem.AsError(err).Text(), test.want) {
				t.Errorf("Install() = %v, want %v saying %q", err, test.kind, test.want)
			}
			left, err := filepath.Glob(filepath.Join(cache, "aws-cdk-*"))
			if err != nil || len(left) > 0 {
				t.Errorf("a failed install left %v, %v, want nothing", left, err)
			}
		})
	}
}

func TestInstallRunsNpmOnlyIfTheProgramIsMissing(t *testing.T) {
	bin, cache := path(t, map[string]string{"node": "echo v20.0.0", "npm": installs}), t.TempDir()
	var progress strings.Builder
	cli, err := cdk.Install(t.Context(), cache, &progress)
	if err != nil || !strings.HasPrefix(progress.String(), "installing aws-cdk 2.1126.0 into ") {
		t.Fatalf("Install() = %v and said %q", err, progress.String())
	}
	program := cli.Command(t.Context(), "", nil).Args[1]
	must(t, os.Remove(program))
	_, err = cdk.Install(t.Context(), cache, io.Discard)
	must(t, err)
	if _, err := os.Stat(program); err != nil {
		t.Errorf("Install() over an install without its program left %v, want the program", err)
	}
	must(t, os.Remove(filepath.Join(bin, "npm")))
	if _, err := cdk.Install(t.Context(), cache, io.Discard); err != nil {
		t.Errorf("Install() of an installed CDK = %v, want no need of npm", err)
	}
}

func TestCommandIsQuietAndHasNoOtherEnvironment(t *testing.T) {
	path(t, map[string]string{"node": "echo v20.0.0", "npm": installs})
	cli, err := cdk.Install(t.Context(), t.TempDir(), io.Discard)
	must(t, err)
	cmd := cli.Command(t.Context(), "/checkout", []string{"AWS_REGION=us-east-1"}, "deploy", "--all")
	want := []string{"AWS_REGION=us-east-1", "CDK_DISABLE_CLI_TELEMETRY=true", "CDK_DISABLE_VERSION_CHECK=true", "NODE_NO_WARNINGS=1",
		"JSII_DEPRECATED=quiet", "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=20"}
	if diff := cmp.Diff(want, cmd.Env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"--no-notices", "deploy", "--all"}, cmd.Args[2:]); diff != "" || cmd.Dir != "/checkout" {
		t.Errorf("in %q, arguments (-want +got):\n%s", cmd.Dir, diff)
	}
}

func TestACommandEndsWithItsContext(t *testing.T) {
	path(t, map[string]string{"node": `[ "$1" = --version ] && echo v20.0.0 && exit; exec sleep 600`, "npm": installs})
	cli, err := cdk.Install(t.Context(), t.TempDir(), io.Discard)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cmd := cli.Command(ctx, t.TempDir(), os.Environ())
	must(t, cmd.Start())
	cancel()
	if err := cmd.Wait(); !errors.Is(err, context.Canceled) {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Errorf("Wait() = %v, want the end by the context", err)
		}
	}
}

// This installs the real CDK, which other tests of the project run. It needs
// Node and npm, and the network the first time.
func TestThePinnedVersionRuns(t *testing.T) {
	cache, err := cache.Dir(os.Getenv)
	must(t, err)
	cli, err := cdk.Install(t.Context(), cache, t.Output())
	must(t, err)
	out, err := cli.Command(t.Context(), t.TempDir(), os.Environ(), "--version").Output()
	if err != nil || !strings.HasPrefix(string(out), cdk.Version+" ") {
		t.Errorf("cdk --version = %q, %v, want %s", out, err, cdk.Version)
	}
}

// must ends the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
