package awscmd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/hostcmd"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/problem"
)

type tailFlags struct {
	where                  kit.HostFlags
	pair, status, function string
	since                  time.Duration
	once                   bool
}

func tailCommand(a *kit.App) *cobra.Command {
	var f tailFlags
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Follow the log of the host on this machine, or of a stage on AWS",
		Long: `Follow the log of the host in a data directory, until Ctrl-C. Each call has one line with its
pair, verdict, time and cost. All other lines are shown too. "vacancy logs" shows the log in a
form for people.

With --host aws the command follows the log lines of a stage's functions in order of time. A
line appears a few seconds after it was written. Requests that wrote nothing are not all
logged: each instance logs the first 60, and then one every two seconds. Failed requests (5xx)
have separate limits of the same size. The next such line sums up the requests that were not
logged (calls=N).

--pair takes the beginning of an id, or two ids as CALLER>VACANT. --status takes a status, a
class such as 4xx, or a verdict such as replay. --json prints the original lines with the
added members "at" and "log_group".`,
		Example: `  vacancy tail
  vacancy tail --since 1h --status 5xx
  vacancy tail --host aws --pair 3f9a21 --function message --json`,
		RunE: func(cmd *cobra.Command, _ []string) error { return tail(a, cmd.Context(), f) },
	}
	fs := cmd.Flags()
	kit.AddMachineFlags(fs, &f.where)
	fs.StringVar(&f.pair, "pair", "", "show only lines of this caller, this vacant, or this CALLER>VACANT")
	fs.StringVar(&f.status, "status", "", "show only lines with this status, class of statuses or verdict")
	fs.StringVar(&f.function, "function", "", "with --host aws: show only lines of this function")
	fs.DurationVar(&f.since, "since", time.Minute, "how far back to start")
	fs.BoolVar(&f.once, "once", false, "print the log up to now and exit")
	return cmd
}

// maxTailPause limits the pause while AWS throttles or cannot be reached.
const (
	tailPollInterval = 2 * time.Second
	maxTailPause     = time.Minute
)

func tail(a *kit.App, ctx context.Context, f tailFlags) error {
	if f.since < 0 {
		return problem.New(problem.Usage, "--since: expected a duration of 0 or more, got %s", f.since)
	}
	if f.function != "" {
		if err := kit.CheckFunction(f.function); err != nil {
			return err
		}
	}
	if err := checkStatus(f.status); err != nil {
		return err
	}
	onAWS, err := f.where.IsAWS(a)
	if err != nil {
		return err
	}
	if !onAWS {
		if f.function != "" {
			return kit.WithHint(problem.New(problem.Usage, "--function: not supported without --host aws"), "%s", a.CommandLineWithFlag("--host", kit.HostAWS))
		}
		dir, err := a.DataDir(f.where.Data)
		if err != nil {
			return err
		}
		start := a.Now().Add(-f.since)
		journal, err := standalone.OpenJournalReader(dir, start)
		if problem.Is(err, problem.NotFound) {
			return a.NoHostError(f.where.Data)
		}
		if err != nil {
			return err
		}
		defer journal.Close()
		return followLog(a, ctx, f, &hostcmd.JournalTail{JournalReader: journal, StartTime: start}, "", hostcmd.FollowInterval)
	}
	name, err := a.StageName(f.where.Stage)
	if err != nil {
		return err
	}
	_, c, err := a.OpenStage(ctx, name)
	if err != nil {
		return err
	}
	prefix := "/vacancy/" + name + "/"
	groups, err := c.LogGroups(ctx, prefix+f.function)
	if err != nil {
		return err
	}
	if len(groups) == 0 {
		return kit.WithHint(problem.New(problem.NotFound, "there are no logs %s* in Region %s", prefix+f.function, c.Region()), "vacancy deploy --stage %s", name)
	}
	return followLog(a, ctx, f, c.TailLogs(groups, a.Now().Add(-f.since)), prefix, tailPollInterval)
}

func followLog(a *kit.App, ctx context.Context, f tailFlags, t cloud.LogTail, prefix string, basePause time.Duration) error {
	// An interrupt is the normal end.
	pause := basePause
	for {
		err := t.Next(ctx, func(l cloud.LogLine) error {
			line := parseLine(l)
			// A line without a pair or status does not match a filter for it.
			if f.pair != "" && !matchesPair(f.pair, kit.FieldText(line.fields["pair"])) || f.status != "" && !matchesStatus(f.status, line.fields) {
				return nil
			}
			if !a.JSON {
				_, err := io.WriteString(a.Out, line.format(prefix)+"\n")
				return err
			}
			object := line.fields
			if object == nil {
				object = map[string]any{"msg": line.Text}
			}
			object["at"], object["log_group"] = line.Time.Format(time.RFC3339Nano), line.Group
			return kit.WriteJSON(a.Out, object)
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case problem.Is(err, problem.Unavailable) && !f.once:
			pause = min(2*pause, maxTailPause)
			a.PrintNote("%s; next try in %s", problem.AsError(err).Text(), pause)
		case err != nil:
			return err
		case f.once:
			return nil
		default:
			pause = basePause
		}
		if cloud.Sleep(ctx, pause) != nil {
			return nil
		}
	}
}

// logLine is a log line. fields is nil if the line is not a JSON object.
type logLine struct {
	cloud.LogLine
	fields map[string]any
}

func parseLine(l cloud.LogLine) logLine {
	line := logLine{LogLine: l}
	line.Text = strings.TrimRight(line.Text, "\r\n")
	_ = json.Unmarshal([]byte(line.Text), &line.fields) // other text is printed unchanged
	return line
}

// matchesPair compares the pair of a log line with an id or with CALLER>VACANT. Prefixes match,
// because log lines contain shortened ids.
func matchesPair(want, pair string) bool {
	loggedCaller, loggedVacant, ok := strings.Cut(pair, ">")
	if !ok {
		return false
	}
	matches := func(a, b string) bool {
		a = strings.ToLower(a)
		return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
	}
	if caller, vacant, isPair := strings.Cut(want, ">"); isPair {
		return matches(caller, loggedCaller) && matches(vacant, loggedVacant)
	}
	return matches(want, loggedCaller) || matches(want, loggedVacant)
}

// nonErrorVerdicts lists the verdicts that are not kinds of errors.
var nonErrorVerdicts = []string{"ok", "refused", "failed"}

func checkStatus(want string) error {
	// Waiting for an impossible status would look like a host without calls.
	if want == "" || statusPattern.MatchString(want) || slices.Contains(nonErrorVerdicts, want) {
		return nil
	}
	allowed := slices.Clone(nonErrorVerdicts)
	for _, k := range problem.Kinds() {
		if k.String() == want {
			return nil
		}
		allowed = append(allowed, k.String())
	}
	return &problem.Error{Kind: problem.Usage, Field: "--status", Want: "100 to 599, 1xx to 5xx, or one of " + strings.Join(allowed, ", "), Got: fmt.Sprintf("%.40q", want)}
}

var statusPattern = regexp.MustCompile(`^[1-5]([0-9]{2}|[xX]{2})$`)

func matchesStatus(want string, fields map[string]any) bool {
	status, class := kit.FieldText(fields["status"]), strings.ToLower(want)
	if len(class) == 3 && strings.HasSuffix(class, "xx") {
		return len(status) == 3 && status[0] == class[0]
	}
	return status == want && status != "" || kit.FieldText(fields["verdict"]) == want
}

func (l logLine) format(prefix string) string {
	var b strings.Builder
	timestamp := kit.FormatIf(!l.Time.IsZero(), "%s", l.Time.Format("15:04:05.000"))
	fmt.Fprintf(&b, "%-12s %-8s ", timestamp, strings.TrimPrefix(l.Group, prefix))
	if l.fields == nil {
		return b.String() + kit.EscapeLine(l.Text)
	}
	if level := kit.FieldText(l.fields["level"]); level != "" && level != "INFO" {
		b.WriteString(kit.EscapeLine(level) + " ")
	}
	b.WriteString(kit.EscapeLine(kit.FieldText(l.fields["msg"])))
	for _, name := range kit.VisibleFields(l.fields) {
		fmt.Fprintf(&b, " %s=%s", kit.EscapeLine(name), kit.EscapeLine(kit.FieldText(l.fields[name])))
	}
	return b.String()
}
