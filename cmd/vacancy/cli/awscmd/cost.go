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

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cdk"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

type costFlags struct {
	where     kit.Where
	calls     int64
	prices    string
	templates string
}

func costCommand(a *kit.App) *cobra.Command {
	var f costFlags
	cmd := &cobra.Command{
		Use:   "cost",
		Short: "List what AWS charges, or estimate the cost of a stage and its worst day",
		Long: `List the prices by which AWS charges a stage, in us-east-1 without free tiers. A host on
this machine costs nothing at AWS. For a stage in another Region its surcharge is added.

With --host aws it prints each line of the estimated cost of a stage's calls by Function URL and
through CloudFront, of a month without calls, and of the worst day: the most that one day can
cost by the stage's limits. It lists the costs that no limit bounds. It reads the templates of
the deployed stage. With --templates it reads templates that "cdk synth" wrote, and needs no
account. infra/README.md lists the costs of tasks, bookings, pages and other features.`,
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
	flags := cmd.Flags()
	flags.StringVar(&f.where.Host, "host", "", "the host: aws or local (default $VACANCY_HOST, else local)")
	kit.StageFlag(flags, &f.where.Stage)
	flags.Int64Var(&f.calls, "calls", 1_000_000, "number of calls")
	flags.StringVar(&f.prices, "price-list", "", "JSON file with prices of your own: {\"region\", \"taken\", \"prices\": {ITEM: {\"usd\", \"per\"}}}")
	flags.StringVar(&f.templates, "templates", "", "folder with synthesized templates (*.template.json), in place of the deployed ones")
	return cmd
}

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
	if cmd.Flags().Changed("calls") {
		return nil, kit.WithHint(problem.New(problem.Usage, "--calls: not supported without --host aws or --templates"), "%s", a.CommandLineWith("--host", kit.HostAWS))
	}
	list, err := f.priceList("")
	return pricesResult(list), err
}

func (f *costFlags) priceList(region string) (cost.List, error) {
	// The prices in --price-list replace the Region's prices.
	list := cost.PricesIn(region)
	if f.prices == "" {
		return list, nil
	}
	b, err := os.ReadFile(f.prices)
	if err != nil {
		return list, err
	}
	return cost.ReadPrices(canon.TrimByteOrderMark(b), list)
}

type pricesResult cost.List

func (r pricesResult) Print(w io.Writer) {
	fmt.Fprintf(w, "a host on this machine costs nothing at AWS\nlist prices of %s, %s, without free tiers, for a stage on AWS:\n", kit.Printable(r.Region), kit.Printable(r.Taken))
	for _, item := range slices.Sorted(maps.Keys(r.Prices)) {
		p := r.Prices[item]
		if p.Per == 1 {
			p.Unit = strings.TrimSuffix(p.Unit, "s")
		}
		fmt.Fprintf(w, "  %-32s $%s for %s %s\n", item, strconv.FormatFloat(p.USD, 'f', -1, 64), groupDigits(p.Per), kit.Printable(p.Unit))
	}
}

func estimate(a *kit.App, ctx context.Context, f costFlags) (costResult, error) {
	if f.calls < 1 || f.calls > 1e12 {
		return costResult{}, &problem.Error{Kind: problem.Usage, Field: "--calls", Want: "1 to 1,000,000,000,000", Got: fmt.Sprint(f.calls)}
	}
	rec, err := a.RecordOrName(f.where.Stage)
	if err != nil {
		return costResult{}, err
	}
	region := cmp.Or(rec.Region, a.Env["AWS_REGION"])
	var templates [][]byte
	from := f.templates
	if from == "" {
		from = "the deployed templates"
		c, err := a.OpenCloud(ctx, rec.Region)
		if err != nil {
			return costResult{}, err
		}
		templates, err = cloud.Templates(ctx, c, rec.Stage)
		if problem.Is(err, problem.NotFound) {
			err = kit.WithHint(err, "%s && vacancy cost --stage %s --templates cdk.out", synthesis(rec.Stage), rec.Stage)
		}
		if err != nil {
			return costResult{}, err
		}
		region = c.Region()
	} else {
		files, err := filepath.Glob(filepath.Join(from, "vacancy-"+rec.Stage+"-*.template.json"))
		if err != nil {
			return costResult{}, err
		}
		if len(files) == 0 {
			return costResult{}, kit.WithHint(problem.New(problem.NotFound, "%s has no vacancy-%s-*.template.json", from, rec.Stage), "%s", synthesis(rec.Stage))
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				return costResult{}, err
			}
			templates = append(templates, b)
		}
	}
	shape, err := cost.ReadTemplates(templates...)
	if err != nil {
		return costResult{}, err
	}
	list, err := f.priceList(region)
	if err != nil {
		return costResult{}, err
	}
	r := costResult(cost.Estimate(shape, list, float64(f.calls)))
	r.Stage, r.From = rec.Stage, from
	return r, nil
}

func synthesis(name string) string {
	return fmt.Sprintf("npx --yes aws-cdk@%s synth --quiet -c stage=%s", cdk.Version, name)
}

type costResult cost.Report

func (r costResult) Print(w io.Writer) {
	fmt.Fprintf(w, "stage %s, by %s; list prices of %s, %s, without free tiers\n", r.Stage, kit.Printable(r.From), kit.Printable(r.Region), kit.Printable(r.Taken))
	if r.Basis != "" {
		fmt.Fprintf(w, "the prices are %s; to use other prices, give --price-list FILE\n", kit.Printable(r.Basis))
	}
	for _, part := range []struct {
		title string
		lines cost.Lines
		note  string
	}{
		{fmt.Sprintf("%s by Function URL", plural(r.CallCount)), r.Direct, fmt.Sprintf(" ($%.2f before transfer out)", r.BeforeTransfer)},
		{fmt.Sprintf("%s through CloudFront", plural(r.CallCount)), r.Edge, ""},
		{"storage of their rows, each month", r.Kept, ""},
		{"a month without calls", r.Month, ""},
		{"extra cost of a month in which every handler is used in every hour", r.EveryHour, ""},
		{"the worst day, by the limits", cost.Lines{Lines: r.WorstDay.Lines, USD: r.WorstDay.USD}, ", without what no limit bounds (below)"},
	} {
		if len(part.lines.Lines) == 0 {
			continue // a stage without handlers
		}
		fmt.Fprintf(w, "\n%s: $%s%s\n", part.title, inDollars(part.lines.USD), part.note)
		for _, l := range part.lines.Lines {
			fmt.Fprintf(w, "  %9s  %s: %s, %s%s\n", fmt.Sprintf("$%.4f", l.USD), l.What, l.Formula, l.Price, kit.FormatIf(l.Assumes != "", " (%s)", l.Assumes))
		}
	}
	fmt.Fprint(w, "\nnot bounded by any limit\n")
	for _, s := range r.WorstDay.Unbounded {
		fmt.Fprintf(w, "  %s\n", s)
	}
}

func inDollars(usd float64) string {
	if usd > 0 && usd < 0.01 {
		return fmt.Sprintf("%.4f", usd)
	}
	return fmt.Sprintf("%.2f", usd)
}

func plural(n float64) string {
	return groupDigits(n) + map[bool]string{true: " call", false: " calls"}[n == 1]
}

func groupDigits(n float64) string {
	s := fmt.Sprintf("%.0f", n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
