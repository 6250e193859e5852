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
	where         kit.HostFlags
	callCount     int64
	priceListPath string
	templatesDir  string
}

func costCommand(a *kit.App) *cobra.Command {
	var f costFlags
	cmd := &cobra.Command{
		Use:   "cost",
		Short: "List the prices of AWS, or estimate the costs of a stage",
		Long: `List the prices that AWS charges for a stage, in us-east-1 and without free tiers. For a stage
in another Region, the surcharge of the Region is added. A host on this machine costs nothing
at AWS.

With --host aws the command estimates the costs of a stage line by line: its calls by Function
URL and through CloudFront, a month without calls, and the worst day. The worst day is the
highest cost of one day that the limits of the stage allow. The command also lists the costs
that no limit bounds. It reads the templates of the deployed stage.

With --templates the command reads templates that "cdk synth" wrote, and needs no account.
infra/README.md lists the costs of tasks, bookings, pages and other features.`,
		Example: `  vacancy cost
  vacancy cost --host aws --stage prod --calls 50000000
  vacancy cost --templates cdk.out --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := loadCosts(a, cmd, f)
			if err != nil {
				return err
			}
			return a.PrintResult(r)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.where.Host, "host", "", "the host: aws or local (default $VACANCY_HOST, else local)")
	kit.AddStageFlag(flags, &f.where.Stage)
	flags.Int64Var(&f.callCount, "calls", 1_000_000, "number of calls")
	flags.StringVar(&f.priceListPath, "price-list", "", "JSON file with prices of your own: {\"region\", \"taken\", \"prices\": {ITEM: {\"usd\", \"per\"}}}")
	flags.StringVar(&f.templatesDir, "templates", "", "folder with templates of \"cdk synth\" (*.template.json), instead of the deployed templates")
	return cmd
}

func loadCosts(a *kit.App, cmd *cobra.Command, f costFlags) (kit.Result, error) {
	if f.templatesDir != "" {
		return estimateCosts(a, cmd.Context(), f)
	}
	onAWS, err := f.where.IsAWS(a)
	switch {
	case err != nil:
		return nil, err
	case onAWS:
		return estimateCosts(a, cmd.Context(), f)
	}
	if cmd.Flags().Changed("calls") {
		return nil, kit.WithHint(problem.New(problem.Usage, "--calls: not supported without --host aws or --templates"), "%s", a.CommandLineWithFlag("--host", kit.HostAWS))
	}
	list, err := f.readPriceList("")
	return pricesResult(list), err
}

func (f *costFlags) readPriceList(region string) (cost.PriceList, error) {
	// The prices in --price-list replace the Region's prices.
	list := cost.RegionPrices(region)
	if f.priceListPath == "" {
		return list, nil
	}
	b, err := os.ReadFile(f.priceListPath)
	if err != nil {
		return list, err
	}
	return cost.OverridePrices(canon.TrimByteOrderMark(b), list)
}

type pricesResult cost.PriceList

func (r pricesResult) Print(w io.Writer) {
	fmt.Fprintf(w, "a host on this machine costs nothing at AWS\nlist prices of %s, %s, without free tiers, for a stage on AWS:\n", kit.EscapeLine(r.Region), kit.EscapeLine(r.PriceMonth))
	for _, item := range slices.Sorted(maps.Keys(r.Prices)) {
		p := r.Prices[item]
		if p.Per == 1 {
			p.Unit = strings.TrimSuffix(p.Unit, "s")
		}
		fmt.Fprintf(w, "  %-32s $%s for %s %s\n", item, strconv.FormatFloat(p.USD, 'f', -1, 64), groupDigits(p.Per), kit.EscapeLine(p.Unit))
	}
}

func estimateCosts(a *kit.App, ctx context.Context, f costFlags) (costResult, error) {
	if f.callCount < 1 || f.callCount > 1e12 {
		return costResult{}, &problem.Error{Kind: problem.Usage, Field: "--calls", Want: "1 to 1,000,000,000,000", Got: fmt.Sprint(f.callCount)}
	}
	rec, err := a.FindStageRecord(f.where.Stage)
	if err != nil {
		return costResult{}, err
	}
	region := cmp.Or(rec.Region, a.Env["AWS_REGION"])
	var templates [][]byte
	source := f.templatesDir
	if source == "" {
		source = "the deployed templates"
		c, err := a.OpenCloud(ctx, rec.Region)
		if err != nil {
			return costResult{}, err
		}
		templates, err = cloud.LoadTemplates(ctx, c, rec.Stage)
		if problem.Is(err, problem.NotFound) {
			err = kit.WithHint(err, "%s && vacancy cost --stage %s --templates cdk.out", synthCommand(rec.Stage), rec.Stage)
		}
		if err != nil {
			return costResult{}, err
		}
		region = c.Region()
	} else {
		files, err := filepath.Glob(filepath.Join(source, "vacancy-"+rec.Stage+"-*.template.json"))
		if err != nil {
			return costResult{}, err
		}
		if len(files) == 0 {
			return costResult{}, kit.WithHint(problem.New(problem.NotFound, "%s has no vacancy-%s-*.template.json", source, rec.Stage), "%s", synthCommand(rec.Stage))
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				return costResult{}, err
			}
			templates = append(templates, b)
		}
	}
	shape, err := cost.ParseTemplates(templates...)
	if err != nil {
		return costResult{}, err
	}
	list, err := f.readPriceList(region)
	if err != nil {
		return costResult{}, err
	}
	r := costResult(cost.Estimate(shape, list, float64(f.callCount)))
	r.Stage, r.TemplateSource = rec.Stage, source
	return r, nil
}

func synthCommand(name string) string {
	return fmt.Sprintf("npx --yes aws-cdk@%s synth --quiet -c stage=%s", cdk.Version, name)
}

type costResult cost.Report

func (r costResult) Print(w io.Writer) {
	fmt.Fprintf(w, "stage %s, by %s; list prices of %s, %s, without free tiers\n", r.Stage, kit.EscapeLine(r.TemplateSource), kit.EscapeLine(r.Region), kit.EscapeLine(r.PriceMonth))
	if r.Basis != "" {
		fmt.Fprintf(w, "the prices are %s; to use other prices, give --price-list FILE\n", kit.EscapeLine(r.Basis))
	}
	for _, part := range []struct {
		title string
		lines cost.CostSum
		note  string
	}{
		{fmt.Sprintf("%s by Function URL", formatCalls(r.CallCount)), r.Direct, fmt.Sprintf(" ($%.2f before transfer out)", r.BeforeTransfer)},
		{fmt.Sprintf("%s through CloudFront", formatCalls(r.CallCount)), r.Edge, ""},
		{"storage of their rows, each month", r.RowStorage, ""},
		{"a month without calls", r.Month, ""},
		{"extra cost of a month if every handler is used in every hour", r.MonthlyMetrics, ""},
		{"the worst day, by the limits", cost.CostSum{Lines: r.WorstDay.Lines, USD: r.WorstDay.USD}, ", without the costs that no limit bounds (listed below)"},
	} {
		if len(part.lines.Lines) == 0 {
			continue // a stage without handlers
		}
		fmt.Fprintf(w, "\n%s: $%s%s\n", part.title, formatDollars(part.lines.USD), part.note)
		for _, l := range part.lines.Lines {
			fmt.Fprintf(w, "  %9s  %s: %s, %s%s\n", fmt.Sprintf("$%.4f", l.USD), l.Label, l.Formula, l.Price, kit.FormatIf(l.Assumption != "", " (%s)", l.Assumption))
		}
	}
	fmt.Fprint(w, "\nnot bounded by any limit\n")
	for _, s := range r.WorstDay.Unbounded {
		fmt.Fprintf(w, "  %s\n", s)
	}
}

func formatDollars(usd float64) string {
	if usd > 0 && usd < 0.01 {
		return fmt.Sprintf("%.4f", usd)
	}
	return fmt.Sprintf("%.2f", usd)
}

func formatCalls(n float64) string {
	return groupDigits(n) + map[bool]string{true: " call", false: " calls"}[n == 1]
}

func groupDigits(n float64) string {
	s := fmt.Sprintf("%.0f", n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
