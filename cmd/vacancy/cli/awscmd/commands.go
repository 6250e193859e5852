package awscmd

import (
	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
)

// CloudCommands are the commands for hosts on AWS.
func CloudCommands(a *kit.App) []*cobra.Command {
	return []*cobra.Command{deployCommand(a), destroyCommand(a), tailCommand(a), invokeCommand(a)}
}
