package vacantcmd

import (
	"context"
	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
)

func keylessAccessCommand(a *kit.App) *cobra.Command {
	return a.AdminCommand(&cobra.Command{
		Use:   "plain VACANT open|off|shared",
		Short: "Set what callers without a key may do",
		Long: `Set what callers without a key may do. Such a caller is any A2A client that is pointed at the
vacant's URL.

  open    They may send messages. The host signs for them, with one key for each conversation. A
          task is found by its id. If the host made the context id of a conversation, the caller
          can continue the conversation with that id and list its tasks. This is the default.
  off     They are refused. Signed callers are answered.
  shared  All of them are one caller, who sees the tasks of all. Use it only for tests.

The calls of such callers have rows in the vacant's chains like all other calls, and "vacancy
verify" checks them. They do not count as recommendations.`,
		Example: `  vacancy plain clerk off
  vacancy plain clerk open`,
	}, func(ctx context.Context, c *kit.AdminAPI, args []string) error {
		return updateVacant(a, ctx, c, args[0], admin.Update{KeylessAccess: &args[1]}, true)
	})
}
