// Command vacancy-aws is the command vacancy with the AWS SDK. The command vacancy starts it for
// the commands that need AWS, so that building a host for this machine does not compile that SDK.
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
