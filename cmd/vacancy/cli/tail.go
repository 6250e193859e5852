package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// tailFlags select log lines.
type tailFlags struct {
	host, data                    string
	stage, pair, status, function string
	since                         time.Duration
	once                          bool
}

func (a *app) tailCommand() *cobra.Command {
	var f tailFlags
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Follow the log of a deployed or local host",
		Long: `Follow the log lines of a stage's functions in order of time, until Ctrl-C: one line per
call with its pair, verdict, time and cost, and all other lines of the functions. Of the
requests that wrote nothing each instance logs one a second, which sums up the others
(calls=N). A line appears a few seconds after it was written.

With --host local, or --data, it follows the log of the host over a data directory.

--pair takes the beginning of an id, or of two as CALLER>VACANT; --status a status, a
class such as 4xx, or a verdict such as replay. --json prints the original lines, with
"at" and "log_group" added.`,
		Example: `  vacancy tail
  vacancy tail --since 1h --status 5xx
  vacancy tail --pair 3f9a21 --function message --json`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.tail(cmd.Context(), f) },
	}
	fs := cmd.Flags()
	stageFlag(fs, &f.stage)
	fs.StringVar(&f.host, "host", hostAWS, "the host: aws or local")
	dataFlag(fs, &f.data)
	fs.StringVar(&f.pair, "pair", "", "lines of this caller, vacant, or CALLER>VACANT only")
	fs.StringVar(&f.status, "status", "", "lines of this status, class of statuses or verdict only")
	fs.StringVar(&f.function, "function", "", "lines of this function only")
	fs.DurationVar(&f.since, "since", time.Minute, "how far back to start")
	fs.BoolVar(&f.once, "once", false, "print the log up to now and exit")
	return cmd
}

// tailPause is the pause between two polls; it grows to tailLongest while AWS
// throttles or cannot be reached.
const (
	tailPause   = 2 * time.Second
	tailLongest = time.Minute
)

func (a *app) tail(ctx context.Context, f tailFlags) error {
	if f.since < 0 {
		return problem.New(problem.Usage, "--since: expected a duration of 0 or more, got %s", f.since)
	}
	if f.function != "" {
		if err := checkFunction(f.function); err != nil {
			return err
		}
	}
	if err := checkStatus(f.status); err != nil {
		return err
	}
	if f.host != hostAWS || f.data != "" {
		return a.tailLocal(ctx, f)
	}
	name, err := a.stageName(f.stage)
	if err != nil {
		return err
	}
	_, c, err := a.openStage(ctx, name)
	if err != nil {
		return err
	}
	prefix := "/vacancy/" + name + "/"
	groups, err := c.Groups(ctx, prefix+f.function)
	if err != nil {
		return err
	}
	if len(groups) == 0 {
		return withHint(problem.New(problem.NotFound, "there are no logs %s* in Region %s", prefix+f.function, c.Region()), "vacancy deploy --stage %s", name)
	}
	return a.follow(ctx, f, c.Tail(groups, a.now().Add(-f.since)), prefix, tailPause)
}

// tailLocal follows the journal of a data directory.
func (a *app) tailLocal(ctx context.Context, f tailFlags) error {
	switch {
	case f.host != hostLocal && f.host != hostAWS:
		return &problem.Error{Kind: problem.Usage, Field: "--host", Want: "aws or local", Got: fmt.Sprintf("%.80q", f.host)}
	case f.stage != "" || f.function != "":
		return problem.New(problem.Usage, "--stage and --function go with --host aws")
	}
	dir, err := a.dataDir(f.data)
	if err != nil {
		return err
	}
	from := a.now().Add(-f.since)
	journal, err := standalone.ReadJournal(dir, from)
	if problem.Is(err, problem.NotFound) {
		return withHint(err, "vacancy dev")
	}
	if err != nil {
		return err
	}
	defer journal.Close()
	return a.follow(ctx, f, &journalTail{JournalReader: journal, from: from}, "", followPause)
}

// follow prints lines until the person interrupts, which is the normal end.
// Transient faults are waited out; no line is printed twice.
func (a *app) follow(ctx context.Context, f tailFlags, t cloud.Tail, prefix string, usual time.Duration) error {
	pause := usual
	for {
		err := t.Next(ctx, func(l cloud.Line) error {
			line := readLine(l)
			if !f.wants(line.fields) {
				return nil
			}
			return a.showLine(line, prefix)
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case problem.Is(err, problem.Unavailable) && !f.once:
			pause = min(2*pause, tailLongest)
			a.note("%s; next try in %s", problem.Of(err).Text(), pause)
		case err != nil:
			return err
		case f.once:
			return nil
		default:
			pause = usual
		}
		if cloud.Wait(ctx, pause) != nil {
			return nil
		}
	}
}

// logLine is one log line; fields is nil if it is not a JSON object.
type logLine struct {
	cloud.Line
	fields map[string]any
}

func readLine(l cloud.Line) logLine {
	line := logLine{Line: l}
	line.Text = strings.TrimRight(line.Text, "\r\n")
	_ = json.Unmarshal([]byte(line.Text), &line.fields) // other text is printed as it is
	return line
}

// wants reports whether a line passes the filters. A line without a pair or
// status does not pass a filter for it.
func (f tailFlags) wants(fields map[string]any) bool {
	if f.pair != "" && !pairFits(f.pair, textOf(fields["pair"])) {
		return false
	}
	return f.status == "" || statusFits(f.status, fields)
}

// pairFits compares a typed pair with a line's shortened ids: either may be a
// prefix of the other.
func pairFits(want, pair string) bool {
	from, to, ok := strings.Cut(pair, ">")
	if !ok {
		return false
	}
	fits := func(a, b string) bool {
		a = strings.ToLower(a)
		return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
	}
	if caller, vacant, both := strings.Cut(want, ">"); both {
		return fits(caller, from) && fits(vacant, to)
	}
	return fits(want, from) || fits(want, to)
}

// verdicts are verdicts that are no kind of error: success, and those of
// requests that reached no handler.
var verdicts = []string{"ok", "refused", "failed"}

// checkStatus refuses an impossible status: waiting for it would look like a
// host without calls.
func checkStatus(want string) error {
	if want == "" || statusForm.MatchString(want) || slices.Contains(verdicts, want) {
		return nil
	}
	words := slices.Clone(verdicts)
	for _, k := range problem.Kinds() {
		if k.String() == want {
			return nil
		}
		words = append(words, k.String())
	}
	return &problem.Error{Kind: problem.Usage, Field: "--status", Want: "100 to 599, 1xx to 5xx, or one of " + strings.Join(words, ", "), Got: fmt.Sprintf("%.40q", want)}
}

var statusForm = regexp.MustCompile(`^[1-5]([0-9]{2}|[xX]{2})$`)

func statusFits(want string, fields map[string]any) bool {
	status, class := textOf(fields["status"]), strings.ToLower(want)
	if len(class) == 3 && strings.HasSuffix(class, "xx") {
		return len(status) == 3 && status[0] == class[0]
	}
	return status == want && status != "" || textOf(fields["verdict"]) == want
}

// textOf is a JSON value as text; "" for none.
func textOf(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

func (a *app) showLine(l logLine, prefix string) error {
	if a.json {
		object := l.fields
		if object == nil {
			object = map[string]any{"msg": l.Text}
		}
		object["at"], object["log_group"] = l.At.Format(time.RFC3339Nano), l.Group
		return writeJSON(a.out, object)
	}
	_, err := io.WriteString(a.out, l.text(prefix)+"\n")
	return err
}

// firstFields are printed first, in this order; hiddenFields are not printed;
// other fields follow by name.
var (
	firstFields  = []string{"calls", "pair", "seq", "state", "status", "verdict", "ms", "trips", "wcu", "rcu", "kms", "cold", "cause", "error"}
	hiddenFields = []string{"time", "level", "msg", "stage", "function", "version", "_aws", "refused", "failed", "trace", "request"}
)

// text is a line for people: time, function, message and fields.
func (l logLine) text(prefix string) string {
	var b strings.Builder
	at := ""
	if !l.At.IsZero() {
		at = l.At.Format("15:04:05.000")
	}
	fmt.Fprintf(&b, "%-12s %-8s ", at, strings.TrimPrefix(l.Group, prefix))
	if l.fields == nil {
		return b.String() + printable(l.Text)
	}
	if level := textOf(l.fields["level"]); level != "" && level != "INFO" {
		b.WriteString(printable(level) + " ")
	}
	b.WriteString(printable(textOf(l.fields["msg"])))
	for _, name := range orderedFields(l.fields) {
		fmt.Fprintf(&b, " %s=%s", printable(name), printable(textOf(l.fields[name])))
	}
	return b.String()
}

// orderedFields returns the names of the fields to print, in order.
func orderedFields(fields map[string]any) []string {
	var names []string
	for _, name := range firstFields {
		if _, ok := fields[name]; ok && (name != "calls" || textOf(fields[name]) != "1") { // of more, a line sums them up
			names = append(names, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(firstFields, name) && !slices.Contains(hiddenFields, name) {
			names = append(names, name)
		}
	}
	return names
}
