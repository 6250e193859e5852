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

// Limits contains a stage's limits by name: reserved concurrency of functions, and request units
// per second of tables.
type Limits map[string]int

// Names of the tables' limits. The limit of a function has the function's name.
const (
	RowsWrites  = "rowsWrites"
	RowsReads   = "rowsReads"
	DocsWrites  = "docsWrites"
	DocsReads   = "docsReads"
	IndexWrites = "indexWrites"
	IndexReads  = "indexReads"
	// Limits of workspace objects per second, for all instances together.
	ObjectWrites = "objectWrites"
	ObjectReads  = "objectReads"
)

type LimitOptions struct {
	WorstDay       float64 // USD
	Region         string
	ExplicitLimits Limits

	Edge, WAF, Dashboard, X86, SoftwareKey bool
}

// share is a part of the worst day's cost. It first gets its minimum, and then the units that its
// percentage of the remaining money buys.
type share struct {
	name    string
	minimum int
	percent float64
}

// callsShare determines the tables' limits.
const callsShare = "calls"

const minQueueConcurrency = 2 // minimum that Lambda accepts for the trigger of a queue

// SplitWorkerInstances divides worker's instances into those that run turns and those that push
// events.
func SplitWorkerInstances(instances int) (tasks, pushes int) {
	pushes = max(minQueueConcurrency, instances/4)
	return max(minQueueConcurrency, instances-pushes), pushes
}

// maxThinkInstances leaves two instances of message for other calls, because an instance of message
// may wait for an instance of think.
func maxThinkInstances(message int) int { return max(1, message-2) }

func listShares() []share {
	shares := []share{{callsShare, 1, 41}}
	for _, f := range functions.All() {
		if f.MinInstances > 0 {
			shares = append(shares, share{f.Name, f.MinInstances, f.CostShare})
		}
	}
	return shares
}

// tableLimits contains the units per second for each call per second. A call writes and reads two
// units of rows, and reads two units of docs. Public reads, graduations and publications use the
// rest. A priced call writes five units of docs and an A2A task six, so the limits allow fewer.
var tableLimits = []struct {
	name    string
	ofACall float64 // per call
	least   int
}{
	{RowsWrites, 2, 2}, {RowsReads, 2.4, 3}, {DocsWrites, 1, 8}, {DocsReads, 4, 5}, {IndexWrites, 0.4, 1}, {IndexReads, 0.8, 1},
	{ObjectWrites, 0.02, 1}, {ObjectReads, 0.1, 4},
}

// ObjectShare returns one instance's share of the named limit, at least 0.001.
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

// Default quotas of AWS.
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

// DeriveLimits divides options.WorstDay among the shares. The error is of kind Invalid if WorstDay
// is too low.
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
		return nil, problem.Invalid("worstDay", fmt.Sprintf("at least %.0f, because even with the lowest limits a day of such a stage in %s may cost $%.2f", math.Ceil(minCost), prices.Region, minCost),
			fmt.Sprint(options.WorstDay))
	}
	// The rounding of limits distorts the price of a single unit.
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
	// The limits are rounded, so their cost may differ from the worst day.
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
