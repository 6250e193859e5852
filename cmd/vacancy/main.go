// Command vacancy runs a host on this machine, administers hosts, and calls vacants. It starts
// vacancy-aws for commands that need the AWS SDK.
package main

import (
	"context"
	"os"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli"
)

func main() {
	os.Exit(cli.Run(context.Background(), cli.Seams{Program: os.Args[0]}, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}
