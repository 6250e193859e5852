// Command laptop runs AWS on a laptop. The scripts localstack/up, down, deploy and status call it.
// A cache has one server with the name "laptop". Deployments to it never touch the records of
// stages on AWS.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cache"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := runCommand(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(problem.AsError(err).Kind.Forms().ExitCode)
	}
}

// laptop contains the directories and the output of a command.
type laptop struct {
	cacheDir    string // directory of downloads and runs
	checkoutDir string // top directory of the checkout
	out         io.Writer
}

func runCommand(ctx context.Context, args []string, out io.Writer) error {
	usage := problem.New(problem.Usage, "usage: localstack/up | localstack/down | localstack/deploy [STAGE] [--context NAME=VALUE]... | localstack/status")
	if len(args) == 0 || len(args) > 1 && args[0] != "deploy" {
		return usage
	}
	name, contextArgs, isValid := parseDeployArgs(args[1:])
	if !isValid {
		return usage
	}
	cacheDir, err := cache.Dir(os.Getenv)
	if err != nil {
		return err
	}
	checkoutDir, err := findCheckout()
	if err != nil {
		return err
	}
	l := laptop{cacheDir, checkoutDir, out}
	switch args[0] {
	case "up":
		_, err = l.up(ctx)
	case "down":
		err = l.down()
	case "status":
		err = l.status(ctx)
	case "deploy":
		err = l.deploy(ctx, name, contextArgs)
	default:
		err = usage
	}
	return err
}

// parseDeployArgs parses [STAGE] [--context NAME=VALUE]..., in any order.
func parseDeployArgs(args []string) (name string, contextArgs []string, ok bool) {
	for len(args) > 0 {
		value, isJoined := strings.CutPrefix(args[0], "--context=")
		switch {
		case isJoined:
			args = args[1:]
		case args[0] == "--context" && len(args) > 1:
			value, args = args[1], args[2:]
		case name == "" && !strings.HasPrefix(args[0], "-"):
			name, args = args[0], args[1:]
			continue
		default:
			return "", nil, false
		}
		contextArgs = append(contextArgs, "--context", value)
	}
	return cmp.Or(name, "dev"), contextArgs, true
}

func findCheckout() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "cdk.json")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", problem.New(problem.Usage, "run this inside a checkout: no cdk.json here or above")
		}
	}
}
