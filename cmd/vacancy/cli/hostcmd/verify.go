package hostcmd

import (
	"bufio"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/agent/datadir"
	"github.com/vacancy-host/vacancy/shared/agent/history"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func verifyCommand(a *kit.App) *cobra.Command {
	var where kit.HostFlags
	var readFlags kit.ReadFlags
	cmd := &cobra.Command{
		Use:   "verify [FILE]",
		Short: "Check everything a host stores, or a file",
		Long: `Check all data of the host in a data directory:

  - every link, number, epoch and decision of every pair
  - every logbook, record, card and name
  - every event and registration of the registry, and its sealed log
  - every hash and signature whose text can still be read

The host may be running or stopped. The command prints one line for each broken row.

This machine also checks remote hosts. With --host URL it reads the host's export page by page, which
needs the operator key. The export does not open seeds, so the encrypted keys of the vacants are not
checked. With --host aws it reads the stage's tables with your AWS credentials, at --read-units a
second, and also checks the keys.

Calls may arrive during the check. If an account pays for calls in each of five readings, the account
is compared only within the amounts of these calls. The last lines report this.

With FILE the command checks a file offline. In an export, it checks that the seed is the id's key, that
this key signed the card and all logbook entries, that the entries are linked, and that the chain
states are complete. In a history of "vacancy chain --json", it checks that calls and answers are
linked, bound to each other, and signed by their senders.

The command reports every part, and exits with 1 if a part is broken.`,
		Example: `  vacancy verify
  vacancy verify --data /srv/vacancy --json
  vacancy verify --host aws --stage prod --read-units 200
  vacancy verify alice.vacancy.json
  vacancy chain alice fox --json >history && vacancy verify history`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return verifyHost(a, cmd.Context(), where, readFlags)
			case kit.IsURL(args[0]):
				return kit.WithHint(problem.New(problem.Usage, "%q is a URL: expected FILE, an export or a history", kit.Truncate(args[0], 200)), "%s --host %s, with the key of its operator in VACANCY_OPERATOR_KEY; callers use vacancy card URL, and vacancy receipt", cmd.CommandPath(), kit.ShellWord(kit.VacantHostURL(args[0])))
			case where != (kit.HostFlags{}) || readFlags != (kit.ReadFlags{}):
				return kit.WithHint(problem.New(problem.Usage, "FILE: not supported together with the flags of a host"), "%s --help", cmd.CommandPath())
			}
			r, err := verifyHistory(args[0])
			if err != nil {
				return err
			}
			if r == nil {
				export, err := datadir.ReadExport(args[0])
				if err != nil {
					return err
				}
				r = &verifyResult{Format: export.Format, Name: export.Name, ID: export.ID, Parts: export.Check()}
			}
			r.File, r.OK = args[0], datadir.AllOK(r.Parts)
			if err := a.PrintResult(*r); err != nil || r.OK {
				return err
			}
			return &kit.ReportedError{}
		},
	}
	kit.AddHostFlags(cmd.Flags(), &where)
	kit.AddReadUnitsFlag(cmd.Flags(), &readFlags)
	return cmd
}

// verifyHistory verifies a history file. It returns nil if the file is not a history.
func verifyHistory(file string) (*verifyResult, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, nil // the reader of exports reports the error
	}
	defer f.Close()
	lines := bufio.NewReader(f)
	if head, _ := lines.Peek(64); !history.IsHistory(head) {
		return nil, nil
	}
	checked, err := history.Check(lines)
	if err != nil {
		return nil, problem.Wrap(problem.Unavailable, err, "%s cannot be read: %v", file, err)
	}
	return &verifyResult{Format: "vacancy chain --json", Parts: checked.Parts, Unread: checked.Unread}, nil
}

type verifyResult struct {
	File   string            `json:"file"`
	Format string            `json:"format"`
	Name   string            `json:"name,omitempty"`
	ID     string            `json:"vacant_id,omitempty"`
	OK     bool              `json:"ok"`
	Parts  []datadir.Finding `json:"parts"`
	Unread int               `json:"unread,omitempty"` // messages whose text can no longer be read
}

func (r verifyResult) Print(w io.Writer) {
	fmt.Fprintf(w, "%s: %s%s\n", kit.EscapeLine(r.File), r.Format, kit.FormatIf(r.Name != "", " of %s", kit.EscapeLine(r.Name)))
	var rows [][]any
	for _, p := range r.Parts {
		verdict := "ok"
		if !p.OK {
			verdict = "BROKEN"
		}
		rows = append(rows, []any{"  " + p.Part, kit.PaintedText(kit.PaintVerdict(w, p.OK, fmt.Sprintf("%-6s", verdict))), p.Detail})
	}
	for _, line := range kit.FormatColumns(rows...) {
		fmt.Fprintln(w, line)
	}
	if r.Unread > 0 {
		fmt.Fprintf(w, "messages that can no longer be read: %d; neither their hashes nor their signatures can be checked\n", r.Unread)
	}
	if r.OK {
		fmt.Fprintln(w, kit.PaintVerdict(w, true, "all checks passed"))
	} else {
		fmt.Fprintln(w, kit.PaintVerdict(w, false, "broken"))
	}
}
