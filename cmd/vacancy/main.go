// Command vacancy runs a host on this machine, administers hosts, and calls vacants. Its code is in
// package cli. It does not contain the AWS SDK; for commands that need an AWS account it starts
// vacancy-aws.
package main

import (
	"context"
	"os"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli"
)

func main() {
	os.Exit(cli.Run(context.Background(), cli.Seams{Program: os.Args[0]}, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}
