package cdk

import (
	"context"
	"crypto/sha256"
	_ "embed" // embeds the two npm files
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cache"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// The CDK still runs on Node 20, which is no longer supported.
const (
	MinNodeMajor         = 20
	RecommendedNodeMajor = 22
)

var scriptPath = filepath.Join("node_modules", "aws-cdk", "bin", "cdk")

var (
	//go:embed package.json
	packageJSON []byte
	//go:embed package-lock.json
	packageLockJSON []byte
)

// Install installs the pinned command line in the cache directory dir. The error is of kind
// NotFound if Node or npm is missing or Node is too old, and of kind Unavailable if npm cannot
// download.
func Install(ctx context.Context, dir string, progress io.Writer) (*CLI, error) {
	node, err := findNode(ctx)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(append(append([]byte{}, packageJSON...), packageLockJSON...))
	install := cache.Install{
		Name: "aws-cdk", Version: fmt.Sprintf("%s-%x", Version, digest[:4]), MarkerFile: scriptPath,
		Build: func(folder string) error {
			fmt.Fprintf(progress, "installing aws-cdk %s into %s (once)\n", Version, dir)
			return runNPM(ctx, folder)
		},
	}
	installDir, err := install.EnsureIn(ctx, dir)
	if err != nil {
		return nil, err
	}
	return &CLI{node: node, script: filepath.Join(installDir, scriptPath)}, nil
}

func runNPM(ctx context.Context, dir string) error {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return problem.Wrap(problem.NotFound, err, "npm was not found, but it is needed to install aws-cdk %s: install Node %d or newer with npm (https://nodejs.org)", Version, RecommendedNodeMajor)
	}
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "package.json"), packageJSON, 0o644),
		os.WriteFile(filepath.Join(dir, "package-lock.json"), packageLockJSON, 0o644)); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return problem.Wrap(problem.Unavailable, err, "npm could not install aws-cdk %s: %s", Version, trimOutput(out))
	}
	return nil
}

func trimOutput(out []byte) string {
	// The end of npm's output contains the cause.
	const maxBytes = 1 << 10
	return strings.TrimSpace(string(out[max(0, len(out)-maxBytes):]))
}

func findNode(ctx context.Context) (string, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return "", problem.Wrap(problem.NotFound, err, "node was not found, but CDK needs it: install Node %d or newer (https://nodejs.org)", RecommendedNodeMajor)
	}
	out, err := exec.CommandContext(ctx, node, "--version").Output()
	if err != nil {
		return "", problem.Wrap(problem.NotFound, err, "%s does not run: install Node %d or newer (https://nodejs.org)", node, RecommendedNodeMajor)
	}
	version := strings.TrimSpace(string(out))
	if major, ok := parseNodeMajor(version); !ok || major < MinNodeMajor {
		return "", problem.New(problem.NotFound, "%s is version %q, which is too old for CDK: install Node %d or newer (https://nodejs.org)", node, version, RecommendedNodeMajor)
	}
	return node, nil
}

func parseNodeMajor(version string) (int, bool) {
	rest, ok := strings.CutPrefix(version, "v")
	if !ok {
		return 0, false
	}
	majorText, _, _ := strings.Cut(rest, ".")
	major, err := strconv.ParseUint(majorText, 10, 16)
	return int(major), err == nil
}
