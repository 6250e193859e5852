// Command vacancy-aws is the command vacancy with the AWS SDK, which takes long to compile.
package main

import (
	"context"
	"os"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud/awscloud"
)

func main() {
	os.Exit(cli.Run(context.Background(), cli.Seams{Program: os.Args[0], OpenCloud: awscloud.Open}, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}
