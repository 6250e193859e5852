package teamcmd

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/teamapi"
	"github.com/vacancy-host/vacancy/shared/host/workspace/locks"
)

func LocksCommand(a *kit.App) *cobra.Command {
	cmd := kit.Operation[op.None, teamapi.Locks]{
		Use: "locks", Short: "List the locks that tasks hold on files of workspaces",
		Long: `List the locks that tasks hold on files of workspaces, and the policy of each workspace.

A task in mode read-only locks .vault/. Any other task locks the lock_paths of its agent's file.
"vacancy locks policy" sets the policy for tasks whose locks overlap.`,
		Example: "  vacancy locks\n  vacancy locks policy main queue",
		Op:      CallFunc(teamapi.ListLocks), API: &API{},
		Print: func(w io.Writer, list teamapi.Locks) {
			kit.PrintTable(w, "no locks", list.Locks, func(l locks.Lock) []any {
				return []any{l.Task, l.Agent, l.Workspace, strings.Join(l.Paths, ", "), time.Unix(l.Acquired, 0).UTC().Format(time.RFC3339)}
			})
			for _, name := range slices.Sorted(maps.Keys(list.Policies)) {
				fmt.Fprintf(w, "policy of %s: %s\n", kit.EscapeLine(name), kit.EscapeLine(string(list.Policies[name])))
			}
		},
	}.Command(a)
	cmd.AddCommand(kit.Operation[op.Body[teamapi.LockPolicy], teamapi.LockPolicy]{
		Use: "policy WORKSPACE POLICY", Short: "Set what happens to tasks whose locks overlap",
		Long: `Set what happens to a task whose lock overlaps the lock of a task that has not ended:

  warn    Both tasks run. The later task has a warning.
  queue   The later task waits.
  reject  The later task is refused.

With queue and reject, the host also refuses writes of other tasks to the locked paths.`,
		Example: "  vacancy locks policy main queue",
		Op:      CallFunc(teamapi.SetPolicy), API: &API{},
		Request: func(q kit.Request) (op.Body[teamapi.LockPolicy], error) {
			return op.NewBody(teamapi.LockPolicy{Workspace: q.Args[0], Policy: locks.Policy(q.Args[1])}), nil
		},
		Print: func(w io.Writer, p teamapi.LockPolicy) {
			fmt.Fprintf(w, "the policy of %s is %s\n", kit.EscapeLine(p.Workspace), kit.EscapeLine(string(p.Policy)))
		},
	}.Command(a))
	return cmd
}
