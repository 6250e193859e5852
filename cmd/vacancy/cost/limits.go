package cost

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Limits contains a stage's limits by name: the reserved concurrency of functions, and the
// throughput limits of tables in request units per second.
type Limits map[string]int

// Names of the tables' limits. The limits of functions have the functions' names.
const (
	RowsWrites  = "rowsWrites"
	RowsReads   = "rowsReads"
	DocsWrites  = "docsWrites"
	DocsReads   = "docsReads"
	IndexWrites = "indexWrites"
	IndexReads  = "indexReads"
	// Limits of the S3 objects of workspace files that all instances together write and read per
	// second.
	ObjectWrites = "objectWrites"
	ObjectReads  = "objectReads"
)

// LimitOptions contains the choices that determine a stage's limits.
type LimitOptions struct {
	WorstDay       float64 // USD that a day may cost with the limits
	Region         string  // Region of the prices; see RegionPrices
	ExplicitLimits Limits  // limits that are set explicitly

	Edge, WAF, Dashboard, X86, SoftwareKey bool
}

// share is a part of the worst day's cost. It determines the limit of a function, or the number of
// calls per second. Each share first gets its minimum. It then gets as many more units as its
// percentage of the remaining money buys.
type share struct {
	name    string
	minimum int
	percent float64
}

// callsShare is the name of the share for calls, from which the tables' limits are derived.
const callsShare = "calls"

// minQueueConcurrency is the minimum concurrency that Lambda accepts for the trigger of a queue.
const minQueueConcurrency = 2

// SplitWorkerInstances divides the instances of worker into those that run turns and those that
// push events.
func SplitWorkerInstances(instances int) (tasks, pushes int) {
	pushes = max(minQueueConcurrency, instances/4)
	return max(minQueueConcurrency, instances-pushes), pushes
}

// maxThinkInstances returns the maximum limit of the function think, given the limit of message. An
// instance of message may wait for an instance of think. Two instances of message should remain for
// other calls.
func maxThinkInstances(message int) int { return max(1, message-2) }

func listShares() []share {
	list := []share{{callsShare, 1, 41}}
	for _, f := range functions.All() {
		if f.MinInstances > 0 {
			list = append(list, share{f.Name, f.MinInstances, f.CostShare})
		}
	}
	return list
}

// tableLimits contains the minimum of each table limit, and the units per second for each call per
// second. A call writes two units of rows and reads two. The registry and graduations also read
// rows. A call reads two units of docs, and public reads may use as many. Publications, which write
// docs and their index, are fewer than calls. The limit of docs allows fewer priced calls, which
// write five units, and fewer A2A tasks, which write six.
var tableLimits = []struct {
	name    string
	ofACall float64 // units for each call
	least   int     // minimum limit
}{
	{RowsWrites, 2, 2}, {RowsReads, 2.4, 3}, {DocsWrites, 1, 8}, {DocsReads, 4, 5}, {IndexWrites, 0.4, 1}, {IndexReads, 0.8, 1},
	{ObjectWrites, 0.02, 1}, {ObjectReads, 0.1, 4}, // few calls write or read files
}

// ObjectShare returns the number of objects that one instance may write or read per second: its
// share of the named limit. The result is at least 0.001.
func (l Limits) ObjectShare(limit string) float64 {
	instances := max(1, l[functions.Agent.Name]+l[functions.Worker.Name]+l[functions.Admin.Name])
	return max(1, math.Floor(1000*float64(l[limit])/float64(instances))) / 1000
}

func (o LimitOptions) buildLimits(shareCounts map[string]int) Limits {
	l := Limits{}
	for _, s := range listShares() {
		if s.name != callsShare {
			l[s.name] = min(shareCounts[s.name], maxConcurrency)
		}
	}
	for _, t := range tableLimits {
		l[t.name] = min(max(t.least, int(math.Round(t.ofACall*float64(shareCounts[callsShare])))), maxUnits)
	}
	return l
}

func LimitNames() []string { return slices.Sorted(maps.Keys(LimitOptions{}.buildLimits(nil))) }

// Default quotas of Lambda and DynamoDB.
const (
	maxConcurrency = 1000
	maxUnits       = 40_000
)

func maxLimit(name string) int {
	if isTableLimit(name) {
		return maxUnits
	}
	return maxConcurrency
}

func isTableLimit(name string) bool {
	return strings.HasSuffix(name, "Reads") || strings.HasSuffix(name, "Writes")
}

// DeriveLimits divides options.WorstDay among the shares, at the prices of options.Region. If
// WorstDay is too low, the error is of kind Invalid and names the minimum.
func DeriveLimits(options LimitOptions) (Limits, error) {
	prices, shareCounts := RegionPrices(options.Region), map[string]int{}
	for _, s := range listShares() {
		shareCounts[s.name] = s.minimum
	}
	dayCost := func() float64 {
		return WorstDay(options.plannedShape(options.buildLimits(shareCounts)), prices, DefaultBounds()).USD
	}
	minCost := dayCost()
	if options.WorstDay < minCost {
		return nil, problem.Invalid("worstDay", fmt.Sprintf("at least %.0f, because the least limits of such a stage in %s let a day cost $%.2f", math.Ceil(minCost), prices.Region, minCost),
			fmt.Sprint(options.WorstDay))
	}
	// The price of one unit of a share is measured over a hundred units, because the rounding of
	// limits distorts the price of a single unit.
	const sampleUnits = 100
	derived := maps.Clone(shareCounts)
	for _, s := range listShares() {
		if s.percent > 0 {
			shareCounts[s.name] = s.minimum + sampleUnits
			unitCost := (dayCost() - minCost) / sampleUnits
			shareCounts[s.name] = s.minimum
			derived[s.name] += int((options.WorstDay - minCost) * s.percent / 100 / unitCost)
		}
	}
	derived[functions.Think.Name] = min(derived[functions.Think.Name], maxThinkInstances(derived[functions.Message.Name]))
	// The limits are rounded, so their cost may be slightly below or above the worst day.
	for shareCounts = derived; dayCost() <= options.WorstDay && shareCounts[callsShare] < maxUnits; {
		shareCounts[callsShare]++
	}
	for dayCost() > options.WorstDay {
		shareCounts[callsShare]--
	}
	l := options.buildLimits(shareCounts)
	maps.Copy(l, options.ExplicitLimits)
	if n := l[functions.Worker.Name]; n < functions.Worker.MinInstances {
		return nil, problem.Invalid("limits", fmt.Sprintf("%s:%d at least, two for each of its queues", functions.Worker.Name, functions.Worker.MinInstances), fmt.Sprintf("%s:%d", functions.Worker.Name, n))
	}
	if maxThink := maxThinkInstances(l[functions.Message.Name]); l[functions.Think.Name] > maxThink {
		if _, isExplicit := options.ExplicitLimits[functions.Think.Name]; isExplicit {
			return nil, problem.Invalid("limits", fmt.Sprintf("%s:%d at most, two less than message, so that models never occupy all instances that calls need", functions.Think.Name, maxThink), fmt.Sprintf("%s:%d", functions.Think.Name, l[functions.Think.Name]))
		}
		l[functions.Think.Name] = maxThink
	}
	return l, nil
}

func ParseLimits(text string) (Limits, error) {
	// The text is, for example, message:8,rowsWrites:100.
	limits := Limits{}
	var errs []error
	for pair := range strings.SplitSeq(text, ",") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, ":")
		n, err := strconv.Atoi(value)
		switch {
		case !slices.Contains(LimitNames(), name):
			errs = append(errs, fmt.Errorf("expected NAME:NUMBER with one of %s, got %.80q", strings.Join(LimitNames(), ", "), pair))
		case err != nil || n < 1 || n > maxLimit(name):
			errs = append(errs, fmt.Errorf("expected %s:NUMBER with 1 to %d, got %.80q", name, maxLimit(name), pair))
		default:
			limits[name] = n
		}
	}
	return limits, errors.Join(errs...)
}

func ParseLimitOptions(context map[string]string, region string) (LimitOptions, error) {
	v, invalid := setting.ReadContext(context)
	if len(invalid) > 0 {
		return LimitOptions{}, problem.Invalid("context value "+invalid[0].Context, invalid[0].ExpectedValue(), fmt.Sprintf("%.40q", invalid[0].Text))
	}
	options, err := NewLimitOptions(v, region)
	if err != nil {
		return LimitOptions{}, problem.Wrap(problem.Malformed, err, "context value %s", err)
	}
	return options, nil
}

func NewLimitOptions(v setting.Values, region string) (LimitOptions, error) {
	explicitLimits, err := ParseLimits(v.SetLimits)
	if err != nil {
		return LimitOptions{}, fmt.Errorf("limits: %w", err)
	}
	return LimitOptions{
		WorstDay: float64(v.WorstDay), Region: region, ExplicitLimits: explicitLimits,
		Edge: v.HasEdge, WAF: v.WAF, Dashboard: v.Dashboard, X86: v.Arch == "amd64", SoftwareKey: v.HostKey == "software",
	}, nil
}

func (l Limits) ReservedConcurrency() (n int) {
	for name, v := range l {
		if !isTableLimit(name) {
			n += v
		}
	}
	return n
}

// plannedShape returns the shape that the templates of a stage with limits l will have. A test
// compares it with the templates.
func (o LimitOptions) plannedShape(l Limits) Shape {
	s := Shape{Keys: 3, Alarms: countAlarms(), Edge: o.Edge, Transitions: gateTransitions}
	if o.SoftwareKey {
		s.Keys--
	}
	if o.Edge {
		s.Secrets = 1
	}
	if o.WAF {
		s.ACLs, s.Rules = 1, rulesPerACL
	}
	if o.Dashboard {
		s.Dashboards = 1
	}
	limit := func(name string) *int { n := l[name]; return &n }
	for _, f := range functions.All() {
		if f.MinInstances > 0 {
			s.addFunction(f, !o.X86, limit(f.Name))
		} else {
			s.addFunction(f, !o.X86, nil)
		}
		if added := &s.Functions[len(s.Functions)-1]; f.HasVariable("VACANCY_PUTS") {
			added.ObjectWrites, added.ObjectReads = l.ObjectShare(ObjectWrites), l.ObjectShare(ObjectReads)
		}
	}
	slices.SortFunc(s.Functions, func(a, b Function) int { return strings.Compare(a.Name, b.Name) })
	s.Tables = []Table{
		{Name: "Docs", ReadLimit: limit(DocsReads), WriteLimit: limit(DocsWrites)},
		{Name: "Docs/listed", IsIndex: true, ReadLimit: limit(IndexReads), WriteLimit: limit(IndexWrites)},
		{Name: "Rows", ReadLimit: limit(RowsReads), WriteLimit: limit(RowsWrites)},
	}
	return s
}
