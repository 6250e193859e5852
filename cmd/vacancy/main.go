// Command vacancy is the one command a person runs: a host on this machine,
// and the caller's side of the protocol. Everything is in package cli. It has no
// AWS SDK; for the commands that need an account it starts vacancy-aws.
package main

import (
	"context"
	"os"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli"
)

func main() {
	os.Exit(cli.Run(context.Background(), cli.Seams{Program: os.Args[0]}, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}
