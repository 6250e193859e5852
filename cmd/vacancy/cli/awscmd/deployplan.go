package awscmd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/assembly"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/shared/front/setting"
)

// planResult describes the resources that a deployment would create, and their cost.
type planResult struct {
	Stage               string            `json:"stage"`
	Region              string            `json:"region"`
	Stacks              []plannedStack    `json:"stacks"`
	Functions           []cost.Function   `json:"functions"`
	ReservedConcurrency int               `json:"reserved_concurrency"`
	Settings            map[string]string `json:"settings"`
	PriceBasis          string            `json:"prices"` // Region, month and basis of the price list
	IdleMonthUSD        float64           `json:"idle_month_usd"`
	MillionCallsUSD     float64           `json:"million_calls_usd"`
	WorstDayUSD         float64           `json:"worst_day_usd"`
	Unbounded           []string          `json:"not_bounded"`

	hasEdge bool
}

type plannedStack struct {
	Name      string         `json:"name"`
	Resources map[string]int `json:"resources"`

	countTexts    []string // for example "3 Lambda::Function"
	resourceCount int
}

func (r planResult) Print(w io.Writer) {
	fmt.Fprintf(w, "a plan of stage %s in Region %s: nothing was created, and AWS was not called\n", r.Stage, kit.EscapeLine(r.Region))
	for _, s := range r.Stacks {
		fmt.Fprintf(w, "\nstack %s, %d resources\n", s.Name, s.resourceCount)
		for _, line := range wrapWords(s.countTexts) {
			fmt.Fprintf(w, "  %s\n", line)
		}
	}
	fmt.Fprintf(w, "\n%d functions, which reserve %d concurrent executions\n", len(r.Functions), r.ReservedConcurrency)
	for _, f := range r.Functions {
		reservation, url := "", ""
		if f.Reserved != nil {
			reservation = fmt.Sprintf("reserves %d", *f.Reserved)
		}
		if f.URL {
			url = "Function URL"
		}
		fmt.Fprintf(w, "  %s\n", strings.TrimRight(fmt.Sprintf("%-13s %4d MB %4d s  %-10s  %s", f.Name, f.MemoryMB, f.TimeoutSeconds, reservation, url), " "))
	}
	fmt.Fprint(w, "\nsettings\n")
	for _, name := range setting.OperatorContexts() {
		if v := r.Settings[name]; v != "" {
			fmt.Fprintf(w, "  %s=%s\n", name, kit.EscapeLine(v))
		}
	}
	route := "by Function URL"
	if r.hasEdge {
		route = "through CloudFront"
	}
	fmt.Fprintf(w, "\ncosts at list prices of %s, without free tiers\n", r.PriceBasis)
	fmt.Fprintf(w, "  %9s  a month without calls\n", "$"+formatDollars(r.IdleMonthUSD))
	fmt.Fprintf(w, "  %9s  a million calls %s\n", "$"+formatDollars(r.MillionCallsUSD), route)
	fmt.Fprintf(w, "  %9s  the worst day that the limits allow, without these unlimited costs:\n", "$"+formatDollars(r.WorstDayUSD))
	for _, s := range r.Unbounded {
		fmt.Fprintf(w, "             %s\n", s)
	}
	fmt.Fprint(w, "\nto deploy this plan, run the command without --plan and with AWS credentials; it checks the account first\n")
}

// showPlan shows the stacks, settings and costs of a deployment. It runs the CDK app directly,
// which needs no credentials.
func (d *deployment) showPlan(ctx context.Context, name string) error {
	err := checkGo()
	if err != nil {
		return err
	}
	if d.rec, err = d.FindStageRecord(name); err != nil {
		return err
	}
	d.rec.Region = cmp.Or(d.rec.Region, d.Env["AWS_REGION"], d.Env["AWS_DEFAULT_REGION"], "us-east-1")
	overrides, err := d.flags.contextOverrides()
	if err != nil {
		return err
	}
	d.rec.Context = mergeContext(d.rec.Context, overrides)
	r := planResult{Stage: name, Region: d.rec.Region}
	if r.Settings, err = d.contextValues(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "vacancy-plan-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	values, err := json.Marshal(r.Settings)
	if err != nil {
		return err
	}
	if d.rec.URL != "" {
		d.PrintNote("stage %s is deployed. A plan does not read the settings that the stage stores: give them with --context", name)
	}
	d.PrintNote("building the templates of stage %s", name)
	// The app gets the Region, but no credentials.
	environ := slices.DeleteFunc(d.environ(), func(v string) bool { return strings.HasPrefix(v, "AWS_") && !strings.HasPrefix(v, "AWS_REGION=") })
	cmd := exec.CommandContext(ctx, "go", "run", "./infra", "-plan")
	cmd.Dir, cmd.Env = d.checkoutDir, append(environ, "CDK_OUTDIR="+dir, "CDK_CONTEXT_JSON="+string(values))
	newAssembly, err := d.buildAssembly(ctx, dir, cmd)
	if err != nil {
		return err
	}
	var templates [][]byte
	for _, s := range newAssembly.Stacks {
		t, err := assembly.Parse(s.Template)
		if err != nil {
			return err
		}
		p := plannedStack{Name: s.Name, Resources: map[string]int{}}
		p.countTexts, p.resourceCount = countTypes(t)
		for _, c := range t.CountTypes() {
			p.Resources[c.Type] = c.ResourceCount
		}
		r.Stacks, templates = append(r.Stacks, p), append(templates, s.Template)
	}
	shape, err := cost.ParseTemplates(templates...)
	if err != nil {
		return err
	}
	costs := cost.Estimate(shape, cost.RegionPrices(r.Region), 1_000_000)
	r.Functions, r.hasEdge = shape.Functions, shape.Edge
	for _, f := range r.Functions {
		if f.Reserved != nil {
			r.ReservedConcurrency += *f.Reserved
		}
	}
	if r.PriceBasis = costs.Region + ", " + costs.PriceMonth; costs.Basis != "" {
		r.PriceBasis += " (" + costs.Basis + ")"
	}
	r.IdleMonthUSD, r.WorstDayUSD, r.Unbounded = costs.Month.USD, costs.WorstDay.USD, costs.WorstDay.Unbounded
	if r.MillionCallsUSD = costs.Direct.USD; r.hasEdge {
		r.MillionCallsUSD = costs.Edge.USD
	}
	return d.PrintResult(r)
}
