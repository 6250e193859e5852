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
	Stage     string            `json:"stage"`
	Region    string            `json:"region"`
	Stacks    []plannedStack    `json:"stacks"`
	Functions []cost.Function   `json:"functions"`
	Reserved  int               `json:"reserved_concurrency"`
	Settings  map[string]string `json:"settings"`
	Prices    string            `json:"prices"` // Region, month and basis of the price list
	Month     float64           `json:"idle_month_usd"`
	Calls     float64           `json:"million_calls_usd"`
	WorstDay  float64           `json:"worst_day_usd"`
	Unbounded []string          `json:"not_bounded"`

	edge bool
}

// plannedStack is a stack with the number of its resources by type.
type plannedStack struct {
	Name      string         `json:"name"`
	Resources map[string]int `json:"resources"`

	counts []string // one text for each resource type, such as "3 Lambda::Function"
	sum    int      // number of all resources
}

func (r planResult) Print(w io.Writer) {
	fmt.Fprintf(w, "a plan of stage %s in Region %s: nothing was created, and AWS was not called\n", r.Stage, kit.Printable(r.Region))
	for _, s := range r.Stacks {
		fmt.Fprintf(w, "\nstack %s, %d resources\n", s.Name, s.sum)
		for _, line := range wrap(s.counts) {
			fmt.Fprintf(w, "  %s\n", line)
		}
	}
	fmt.Fprintf(w, "\n%d functions, which reserve %d concurrent executions\n", len(r.Functions), r.Reserved)
	for _, f := range r.Functions {
		reserves, url := "", ""
		if f.Reserved != nil {
			reserves = fmt.Sprintf("reserves %d", *f.Reserved)
		}
		if f.URL {
			url = "Function URL"
		}
		fmt.Fprintf(w, "  %s\n", strings.TrimRight(fmt.Sprintf("%-13s %4d MB %4d s  %-10s  %s", f.Name, f.MemoryMB, f.Seconds, reserves, url), " "))
	}
	fmt.Fprint(w, "\nsettings\n")
	for _, name := range setting.OperatorContexts() {
		if v := r.Settings[name]; v != "" {
			fmt.Fprintf(w, "  %s=%s\n", name, kit.Printable(v))
		}
	}
	way := "by Function URL"
	if r.edge {
		way = "through CloudFront"
	}
	fmt.Fprintf(w, "\ncosts at list prices of %s, without free tiers\n", r.Prices)
	fmt.Fprintf(w, "  %9s  a month without calls\n", "$"+inDollars(r.Month))
	fmt.Fprintf(w, "  %9s  a million calls %s\n", "$"+inDollars(r.Calls), way)
	fmt.Fprintf(w, "  %9s  the worst day by the limits, without these unlimited costs:\n", "$"+inDollars(r.WorstDay))
	for _, s := range r.Unbounded {
		fmt.Fprintf(w, "             %s\n", s)
	}
	fmt.Fprint(w, "\nto deploy it, run the same command without --plan, with AWS credentials; it checks the account first\n")
}

// plan shows the stacks, settings and costs of a deployment. It reads this machine's record of the
// stage and runs the CDK app directly, which needs neither credentials nor the CDK's command line.
func (d *deployment) plan(ctx context.Context, name string) error {
	err := findGo()
	if err != nil {
		return err
	}
	if d.rec, err = d.RecordOrName(name); err != nil {
		return err
	}
	d.rec.Region = cmp.Or(d.rec.Region, d.Env["AWS_REGION"], d.Env["AWS_DEFAULT_REGION"], "us-east-1")
	given, err := d.flags.values()
	if err != nil {
		return err
	}
	d.rec.Context = changeContext(d.rec.Context, given)
	r := planResult{Stage: name, Region: d.rec.Region}
	if r.Settings, err = d.context(); err != nil {
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
		d.Note("stage %s is deployed, and stores its settings, which a plan does not read: give them with --context", name)
	}
	d.Note("making the templates of stage %s", name)
	// The app gets the Region, but no credentials.
	environ := slices.DeleteFunc(d.environ(), func(v string) bool { return strings.HasPrefix(v, "AWS_") && !strings.HasPrefix(v, "AWS_REGION=") })
	cmd := exec.CommandContext(ctx, "go", "run", "./infra", "-plan")
	cmd.Dir, cmd.Env = d.top, append(environ, "CDK_OUTDIR="+dir, "CDK_CONTEXT_JSON="+string(values))
	built, err := d.assemble(ctx, dir, cmd)
	if err != nil {
		return err
	}
	var templates [][]byte
	for _, s := range built.Stacks {
		t, err := assembly.Parse(s.Template)
		if err != nil {
			return err
		}
		p := plannedStack{Name: s.Name, Resources: map[string]int{}}
		p.counts, p.sum = countTypes(t)
		for _, c := range t.Counts() {
			p.Resources[c.Type] = c.N
		}
		r.Stacks, templates = append(r.Stacks, p), append(templates, s.Template)
	}
	shape, err := cost.ReadTemplates(templates...)
	if err != nil {
		return err
	}
	costs := cost.Estimate(shape, cost.PricesIn(r.Region), 1_000_000)
	r.Functions, r.edge = shape.Functions, shape.Edge
	for _, f := range r.Functions {
		if f.Reserved != nil {
			r.Reserved += *f.Reserved
		}
	}
	if r.Prices = costs.Region + ", " + costs.Taken; costs.Basis != "" {
		r.Prices += " (" + costs.Basis + ")"
	}
	r.Month, r.WorstDay, r.Unbounded = costs.Month.USD, costs.WorstDay.USD, costs.WorstDay.Unbounded
	if r.Calls = costs.Direct.USD; r.edge {
		r.Calls = costs.Edge.USD
	}
	return d.Show(r)
}
