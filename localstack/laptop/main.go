// Command laptop is AWS on a laptop, run by localstack/up, down, deploy and
// status. The invariants: a cache has one server with the name "laptop".
// Deployments to it never touch the records of stages on AWS.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cache"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(problem.Of(err).Kind.Row().Exit)
	}
}

// laptop knows the directories.
type laptop struct {
	cache string // downloads and runs
	top   string // of the checkout
	out   io.Writer
}

func command(ctx context.Context, args []string, out io.Writer) error {
	usage := problem.New(problem.Usage, "usage: localstack/up | localstack/down | localstack/deploy [STAGE] | localstack/status")
	if len(args) == 0 || len(args) > 2 || len(args) == 2 && args[0] != "deploy" {
		return usage
	}
	cache, err := cache.Dir(os.Getenv)
	if err != nil {
		return err
	}
	top, err := checkout()
	if err != nil {
		return err
	}
	l := laptop{cache, top, out}
	switch args[0] {
	case "up":
		_, err = l.up(ctx)
	case "down":
		err = l.down()
	case "status":
		err = l.status(ctx)
	case "deploy":
		err = l.deploy(ctx, append(args[1:], "dev")[0])
	default:
		err = usage
	}
	return err
}

// checkout is the top of the project around the working directory.
func checkout() (string, error) {
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
