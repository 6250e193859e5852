package awscmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cdk"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

type costFlags struct {
	where     kit.Where
	calls     int64
	prices    string
	templates string
	since     time.Duration
}

func costCommand(a *kit.App) *cobra.Command {
	var f costFlags
	cmd := &cobra.Command{
		Use:   "cost",
		Short: "List what AWS charges, or estimate the cost of a stage and its worst day",
		Long: `List the prices by which AWS charges a stage, in us-east-1 without free tiers. A host on
this machine costs nothing at AWS. For a stage in another Region its surcharge is added.

With --host aws it estimates the cost of a stage's calls, line by line, by Function URL and
through CloudFront; the cost of a graduation, and of a month in which nobody calls; and the
worst day: the most that one day can cost by the stage's limits, and the costs that no
limit bounds. It reads the templates of the deployed stage. If the stage has answered calls,
the units counted in its log are shown beside the estimated units. With --templates it reads
templates that "cdk synth" wrote, and needs no account.`,
		Example: `  vacancy cost
  vacancy cost --host aws --stage prod --calls 50000000
  vacancy cost --templates cdk.out --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := costs(a, cmd, f)
			if err != nil {
				return err
			}
			return a.Show(r)
		},
	}
	f.register(cmd.Flags())
	return cmd
}

func (f *costFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.where.Host, "host", "", "the host: aws or local (default $VACANCY_HOST, else local)")
	kit.StageFlag(flags, &f.where.Stage)
	flags.Int64Var(&f.calls, "calls", 1_000_000, "number of calls")
	flags.StringVar(&f.prices, "price-list", "", "JSON file with prices of your own: {\"region\", \"taken\", \"prices\": {ITEM: {\"usd\", \"per\"}}}")
	flags.StringVar(&f.templates, "templates", "", "folder with synthesized templates (*.template.json), in place of the deployed ones")
	flags.DurationVar(&f.since, "since", 24*time.Hour, "how far back real calls are read in the log of the deployed stage")
}

// mostLines bounds the log lines that are read for the real units.
const mostLines = 50_000

// costs returns the prices of the list, or the estimate of a stage.
func costs(a *kit.App, cmd *cobra.Command, f costFlags) (kit.Result, error) {
	if f.templates != "" {
		return estimate(a, cmd.Context(), f)
	}
	onAWS, err := f.where.IsAWS(a)
	switch {
	case err != nil:
		return nil, err
	case onAWS:
		return estimate(a, cmd.Context(), f)
	}
	for _, name := range []string{"calls", "since"} {
		if cmd.Flags().Changed(name) {
			return nil, kit.WithHint(problem.New(problem.Usage, "--%s goes with --host aws or --templates", name), "%s", a.AgainWith("--host", kit.HostAWS))
		}
	}
	list, err := f.priceList("")
	return pricesResult(list), err
}

// priceList returns the prices of a Region. Prices of --price-list replace them.
func (f *costFlags) priceList(region string) (cost.List, error) {
	list := cost.PricesIn(region)
	if f.prices == "" {
		return list, nil
	}
	b, err := os.ReadFile(f.prices)
	if err != nil {
		return list, err
	}
	return cost.ReadPrices(canon.TrimMark(b), list)
}

// pricesResult is a price list.
type pricesResult cost.List

func (r pricesResult) Print(w io.Writer) {
	fmt.Fprintf(w, "a host on this machine costs nothing at AWS\nlist prices of %s, %s, without free tiers, for a stage on AWS:\n", kit.Printable(r.Region), kit.Printable(r.Taken))
	for _, item := range slices.Sorted(maps.Keys(r.Prices)) {
		p := r.Prices[item]
		if p.Per == 1 {
			p.Unit = strings.TrimSuffix(p.Unit, "s")
		}
		fmt.Fprintf(w, "  %-32s $%s for %s %s\n", item, strconv.FormatFloat(p.USD, 'f', -1, 64), grouped(p.Per), kit.Printable(p.Unit))
	}
}

func estimate(a *kit.App, ctx context.Context, f costFlags) (costResult, error) {
	if f.calls < 1 || f.calls > 1e12 {
		return costResult{}, &problem.Error{Kind: problem.Usage, Field: "--calls", Want: "1 to 1,000,000,000,000", Got: fmt.Sprint(f.calls)}
	}
	rec, err := a.StageOrName(f.where.Stage)
	if err != nil {
		return costResult{}, err
	}
	r := costResult{}
	region := cmp.Or(rec.Region, a.Env["AWS_REGION"])
	templates, real := [][]byte(nil), (*cost.Real)(nil)
	if f.templates != "" {
		r.From = f.templates
		templates, err = readTemplates(f.templates, rec.Stage)
	} else {
		r.From = "the deployed templates"
		templates, real, r.More, region, err = deployed(a, ctx, rec, f.since)
	}
	if err != nil {
		return costResult{}, err
	}
	shape, err := cost.ReadTemplates(templates...)
	if err != nil {
		return costResult{}, err
	}
	list, err := f.priceList(region)
	if err != nil {
		return costResult{}, err
	}
	from := r.From
	r.Report = cost.Estimate(shape, list, float64(f.calls), real)
	r.Stage, r.From = rec.Stage, from
	return r, nil
}

// readTemplates reads a stage's synthesized templates.
func readTemplates(dir, name string) ([][]byte, error) {
	files, err := filepath.Glob(filepath.Join(dir, "vacancy-"+name+"-*.template.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, kit.WithHint(problem.New(problem.NotFound, "%s has no vacancy-%s-*.template.json", dir, name), "%s", synthesis(name))
	}
	var found [][]byte
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		found = append(found, b)
	}
	return found, nil
}

// synthesis is the command that writes a stage's templates to cdk.out, for
// persons without an installed CDK.
func synthesis(name string) string {
	return fmt.Sprintf("npx --yes aws-cdk@%s synth --quiet -c stage=%s", cdk.Version, name)
}

// deployed reads templates and real calls from AWS, and returns the stage's Region.
func deployed(a *kit.App, ctx context.Context, rec stage.Record, since time.Duration) (templates [][]byte, real *cost.Real, more bool, region string, err error) {
	c, err := a.OpenCloud(ctx, rec.Region)
	if err != nil {
		return nil, nil, false, "", err
	}
	if templates, err = cloud.Templates(ctx, c, rec.Stage); err != nil {
		if problem.Is(err, problem.NotFound) {
			err = kit.WithHint(err, "%s && vacancy cost --stage %s --templates cdk.out", synthesis(rec.Stage), rec.Stage)
		}
		return nil, nil, false, "", err
	}
	read, more, err := c.CallLines(ctx, rec.Stage, a.Now().Add(-since), mostLines)
	return templates, &read, more, c.Region(), err
}

type costResult struct {
	cost.Report
	More bool `json:"more_lines,omitempty"` // more log lines exist than were read
}

func (r costResult) Print(w io.Writer) {
	fmt.Fprintf(w, "stage %s, by %s; list prices of %s, %s, without free tiers\n", r.Stage, kit.Printable(r.From), kit.Printable(r.Region), kit.Printable(r.Taken))
	if r.Basis != "" {
		fmt.Fprintf(w, "they are %s; --price-list FILE has others\n", kit.Printable(r.Basis))
	}
	for _, part := range []struct {
		title string
		lines cost.Lines
		note  string
	}{
		{fmt.Sprintf("%s by Function URL", plural(r.CallCount)), r.Direct, fmt.Sprintf(" ($%.2f before transfer out)", r.Before)},
		{fmt.Sprintf("%s through CloudFront", plural(r.CallCount)), r.Edge, ""},
		{"their rows, each month after", r.Kept, ""},
		{fmt.Sprintf("%s by A2A, each a task", plural(r.CallCount)), r.Tasks, " before transfer out"},
		{"the same in the background", r.Queued, " before transfer out, without reading or pushing their ends"},
		{"1,000 signed calls of a vacant that takes a minute", r.Slow, " before transfer out"},
		{fmt.Sprintf("%s of a page that CloudFront has not kept", views(r.CallCount)), r.Pages, ""},
		{fmt.Sprintf("%s with a price by Function URL", plural(r.CallCount)), r.Priced, " before transfer out"},
		{"1,000 bookings by AGP", r.Booked, " before transfer out"},
		{"what a paid model adds to 1,000 calls of one turn", r.Thinking, ", and the provider's price of their tokens"},
		{"a child that graduates", r.Graduated, ""},
		{"a month in which nobody calls", r.Month, ""},
		{"what a month costs more if every handler is used in every hour", r.EveryHour, ""},
		{"the worst day, by the limits", cost.Lines{Lines: r.WorstDay.Lines, USD: r.WorstDay.USD}, ", without what no limit bounds (below)"},
	} {
		if len(part.lines.Lines) == 0 {
			continue // a stage without a gate
		}
		fmt.Fprintf(w, "\n%s: $%s%s\n", part.title, inDollars(part.lines.USD), part.note)
		for _, l := range part.lines.Lines {
			fmt.Fprintf(w, "  %9s  %s: %s, %s%s\n", fmt.Sprintf("$%.4f", l.USD), l.What, l.Formula, l.Price, assumed(l.Assumes))
		}
	}
	r.capacityText(w)
	fmt.Fprint(w, "\nnot bounded by any limit\n")
	for _, s := range r.WorstDay.Unbounded {
		fmt.Fprintf(w, "  %s\n", s)
	}
	r.realText(w)
}

// capacityText tells what the worst day buys.
func (r costResult) capacityText(w io.Writer) {
	if len(r.Capacity.Bought) == 0 {
		return
	}
	fmt.Fprintf(w, "\nwhat the worst day buys: %.4g calls a second, or %.4g with a price\n", r.Capacity.Calls, r.Capacity.PricedCalls)
	for _, b := range r.Capacity.Bought {
		fmt.Fprintf(w, "  %9s  %s: %d %s; a dollar more buys %.3g\n", fmt.Sprintf("$%.4f", b.USD), b.Name, b.Limit, b.Unit, b.PerUSD)
	}
}

func (r costResult) realText(w io.Writer) {
	if r.Real == nil {
		return
	}
	if r.Real.Calls == 0 {
		fmt.Fprint(w, "\nno calls in the log to compare with\n")
		return
	}
	more := ""
	if r.More {
		more = ", the first ones of the time"
	}
	fmt.Fprintf(w, "\nper call, as %d calls%s took: $%.2f for %s\n", r.Real.Calls, more, r.RealUSD, plural(r.CallCount))
	fmt.Fprintf(w, "  %-14s %10s %10s %11s\n", "", "estimated", "real", "difference")
	for _, c := range r.Compared {
		fmt.Fprintf(w, "  %-14s %10.3f %10.3f %+11.3f\n", c.What, c.Model, c.Real, c.Diff)
	}
}

// inDollars rounds to cents, or to more digits below a cent.
func inDollars(usd float64) string {
	if usd > 0 && usd < 0.01 {
		return fmt.Sprintf("%.4f", usd)
	}
	return fmt.Sprintf("%.2f", usd)
}

func assumed(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

// plural is a number of calls with its noun.
func plural(n float64) string {
	return grouped(n) + map[bool]string{true: " call", false: " calls"}[n == 1]
}

func views(n float64) string {
	return grouped(n) + map[bool]string{true: " view", false: " views"}[n == 1]
}

// grouped is a whole number with commas.
func grouped(n float64) string {
	s := fmt.Sprintf("%.0f", n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
