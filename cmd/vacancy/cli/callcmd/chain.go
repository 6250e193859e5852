package callcmd

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/export"
	"github.com/vacancy-host/vacancy/shared/host/fsck/transcript"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func chainCommand(a *kit.App) *cobra.Command {
	var where kit.HostFlags
	var readFlags kit.ReadFlags
	var maxEntries uint64
	cmd := &cobra.Command{
		Use:   "chain FROM TO",
		Short: "Show the history of a caller and a hosted vacant",
		Long: `Show the calls of FROM to TO in order, with the outcome of each call. TO is a vacant hosted on
this machine. FROM is one of your identities or a hosted vacant. Both are given by name, by
id, or by the beginning of an id. Call 2.7 is the seventh call after the second reset. A text
whose key was destroyed is shown as (sealed). Times are UTC.

With --host URL the history is read from the operator's API of another host, page by page.
With --host aws it is read from the tables of the stage with your AWS credentials.

With --json each entry is one JSON object per line, with the signed messages. Anyone can
verify a file of these lines with "vacancy verify FILE", or in a browser on the page
/web/chains of a host.`,
		Example: `  vacancy chain default demo
  vacancy chain 4f1c0d2a demo --last 20 --json
  vacancy chain default demo --host aws`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("last") && maxEntries == 0 {
				return problem.New(problem.Usage, "--last: expected a number above 0, got 0")
			}
			return a.WithReports(cmd.Context(), where, readFlags, func(c *kit.AdminAPI) error {
				from, to := args[0], args[1]
				h, err := a.IdentityDir()
				if err != nil {
					return err
				}
				q := url.Values{}
				if self, err := h.Open(from); err == nil { // an unreadable identity is treated as missing
					q.Set("own", self.ID().String())
				}
				if maxEntries > 0 {
					q.Set("last", strconv.FormatUint(maxEntries, 10))
				}
				path := "/v1/admin/chain/" + url.PathEscape(from) + "/" + url.PathEscape(to) + "?" + q.Encode()
				out := bufio.NewWriter(a.Out)
				err = kit.StreamLines(cmd.Context(), c.Client, path, func(l *export.ChainLine) (bool, error) {
					switch {
					case l.Error != nil:
						return false, l.Error.Problem()
					case l.Entry != nil && a.JSON:
						return false, kit.WriteJSON(out, l.Entry)
					case l.Entry != nil:
						return false, chainEntry{*l.Entry}.write(out)
					case l.Pair != nil && !a.JSON:
						_, err := fmt.Fprintf(out, "%s > %s\n\n", formatParty(from, l.Pair.From), formatParty(to, l.Pair.To))
						return false, err
					}
					return l.End != nil, nil
				})
				return errors.Join(kit.AddVacantListHint(err), out.Flush())
			})
		},
	}
	cmd.Flags().Uint64Var(&maxEntries, "last", 0, "show only the last N entries")
	kit.AddHostFlags(cmd.Flags(), &where)
	kit.AddReadUnitsFlag(cmd.Flags(), &readFlags)
	return cmd
}

func formatParty(argument string, id identity.ID) string {
	if strings.HasPrefix(id.String(), strings.ToLower(argument)) {
		return id.String()
	}
	return argument + " (" + id.String() + ")"
}

// chainEntry is printed in two lines: the message and its outcome.
type chainEntry struct{ export.Entry }

func (e chainEntry) write(w io.Writer) error {
	timestamp := e.Time
	if t, err := canon.ParseTime(e.Time); err == nil {
		timestamp = t.Format(time.DateTime)
	}
	if e.Kind == "reset" {
		_, err := fmt.Fprintf(w, "%6d  %s  reset %d\n", e.Position, timestamp, e.Epoch)
		return err
	}
	const indent = 6 + 2 + len(time.DateTime) + 2
	_, err := fmt.Fprintf(w, "%6d  %s  call %-6s %s\n%*s%s\n", e.Position, timestamp, e.callNumber(e.Seq), formatText(e.RecordedText), indent, "", e.outcome())
	return err
}

func (e chainEntry) callNumber(seq int64) string { return fmt.Sprintf("%d.%d", e.Epoch, seq) }

func (e chainEntry) outcome() string {
	switch {
	case e.Outcome == transcript.Answered && e.Decision != nil && e.Decision.Answer != nil:
		d := e.Decision.Answer
		remark := kit.FormatIf(d.CutReason != "", ", cut: %s", kit.EscapeLine(string(d.CutReason)))
		return fmt.Sprintf("answer %-4s %s  (%d ms%s%s)", e.callNumber(d.Seq), formatText(d.RecordedText), d.DurationMS, remark, kit.FormatUsage(e.Decision.Usage))
	case e.Outcome == transcript.Void && e.Decision != nil && e.Decision.Cause != nil:
		return "never answered: " + kit.EscapeLine(kit.Truncate(e.Decision.Cause.String(), kit.MaxShownCause)) + kit.FormatUsage(e.Decision.Usage)
	case e.Outcome == transcript.Void:
		return "never answered: the agent failed, or took too long"
	case e.Outcome == transcript.Closed:
		return "never answered: the chain was reset first"
	}
	return "not answered yet"
}

func formatText(s export.RecordedText) string {
	switch {
	case s.Sealed:
		return "(sealed)"
	case s.Text == nil:
		return "(damaged: vacancy verify)"
	}
	return kit.EscapeLine(kit.Truncate(*s.Text, kit.MaxShownText))
}
