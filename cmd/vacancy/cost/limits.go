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
	// Limits of the S3 objects of workspace files that all instances together write and read per second.
	ObjectWrites = "objectWrites"
	ObjectReads  = "objectReads"
)

// Choice contains the choices that determine a stage's limits.
type Choice struct {
	WorstDay float64 // USD that a day may cost with the limits
	Region   string  // Region of the prices; see PricesIn
	Set      Limits  // limits that are set explicitly

	Edge, WAF, Dashboard, X86, SoftwareKey bool
}

// share determines the limit of a function, or the number of calls per second, from the worst day's
// cost: it is the share's minimum, plus the number that a percentage of the remaining money buys.
// The remaining money is the cost of the worst day minus its cost if each share has only its
// minimum.
type share struct {
	name    string
	least   int
	percent float64
}

// callsASecond is the name of the share for calls, from which the tables' limits are derived.
const callsASecond = "calls"

// leastOfQueue is the minimum concurrency that Lambda accepts for the trigger of a queue.
const leastOfQueue = 2

// SplitInstances divides the instances of worker into those that run turns and those that push events.
func SplitInstances(instances int) (tasks, pushes int) {
	pushes = max(leastOfQueue, instances/4)
	return max(leastOfQueue, instances-pushes), pushes
}

// maxThinkInstances returns the maximum limit of the function think, given the limit of message. An
// instance of message may wait for one of think, and some must remain for other calls.
func maxThinkInstances(message int) int { return max(1, message-2) }

func shares() []share {
	list := []share{{callsASecond, 1, 41}}
	for _, f := range functions.All() {
		if f.Instances > 0 {
			list = append(list, share{f.Name, f.Instances, f.Share})
		}
	}
	return list
}

// ceilings contains, for each table limit, the units per second that a call per second needs, and
// the minimum. A call writes two units of rows and reads two. The registry and graduations also
// read rows. A call reads two units of docs, and public reads may use as many. Publications write
// docs and their index, but are fewer than calls. A call with a price writes three units of rows
// and five of docs: its debit, its reminder and the end of the reminder. The limit of docs allows
// this for a fifth of the calls. An A2A task writes six units of docs, so fewer tasks than calls
// are possible.
var ceilings = []struct {
	name    string
	ofACall float64 // units for each call
	least   int     // minimum limit
}{
	{RowsWrites, 2, 2}, {RowsReads, 2.4, 3}, {DocsWrites, 1, 8}, {DocsReads, 4, 5}, {IndexWrites, 0.4, 1}, {IndexReads, 0.8, 1},
	{ObjectWrites, 0.02, 1}, {ObjectReads, 0.1, 4}, // few calls write or read files
}

// ObjectShare returns the number of objects that one instance may write or read per second: its share
// of the named limit, which is at least 0.001.
func (l Limits) ObjectShare(limit string) float64 {
	instances := max(1, l[functions.Agent.Name]+l[functions.Worker.Name]+l[functions.Admin.Name])
	return max(1, math.Floor(1000*float64(l[limit])/float64(instances))) / 1000
}

func (c Choice) limits(counts map[string]int) Limits {
	l := Limits{}
	for _, s := range shares() {
		if s.name != callsASecond {
			l[s.name] = min(counts[s.name], mostConcurrency)
		}
	}
	for _, t := range ceilings {
		l[t.name] = min(max(t.least, int(math.Round(t.ofACall*float64(counts[callsASecond])))), mostUnits)
	}
	return l
}

func LimitNames() []string { return slices.Sorted(maps.Keys(Choice{}.limits(nil))) }

// Default quotas of Lambda and DynamoDB.
const (
	mostConcurrency = 1000
	mostUnits       = 40_000
)

func maximum(name string) int {
	if isCeiling(name) {
		return mostUnits
	}
	return mostConcurrency
}

func isCeiling(name string) bool {
	return strings.HasSuffix(name, "Reads") || strings.HasSuffix(name, "Writes")
}

// Derive divides c.WorstDay among the shares, using the prices of c.Region. If c.WorstDay is too
// low, the error is of kind Invalid and names the minimum.
func Derive(c Choice) (Limits, error) {
	prices, counts := PricesIn(c.Region), map[string]int{}
	for _, s := range shares() {
		counts[s.name] = s.least
	}
	day := func() float64 { return WorstDay(c.plannedShape(c.limits(counts)), prices, DefaultBounds()).USD }
	least := day()
	if c.WorstDay < least {
		return nil, problem.Invalid("worstDay", fmt.Sprintf("at least %.0f, because the least limits of such a stage in %s let a day cost $%.2f", math.Ceil(least), prices.Region, least),
			fmt.Sprint(c.WorstDay))
	}
	// The price of one unit of a share is measured over a hundred units, because the rounding of
	// limits distorts the price of a single unit.
	const many = 100
	derived := maps.Clone(counts)
	for _, s := range shares() {
		if s.percent > 0 {
			counts[s.name] = s.least + many
			each := (day() - least) / many
			counts[s.name] = s.least
			derived[s.name] += int((c.WorstDay - least) * s.percent / 100 / each)
		}
	}
	derived[functions.Think.Name] = min(derived[functions.Think.Name], maxThinkInstances(derived[functions.Message.Name]))
	// The limits are rounded, so their cost may be slightly below or above the worst day.
	for counts = derived; day() <= c.WorstDay && counts[callsASecond] < mostUnits; {
		counts[callsASecond]++
	}
	for day() > c.WorstDay {
		counts[callsASecond]--
	}
	l := c.limits(counts)
	maps.Copy(l, c.Set)
	if n := l[functions.Worker.Name]; n < functions.Worker.Instances {
		return nil, problem.Invalid("limits", fmt.Sprintf("%s:%d at least, two for each of its queues", functions.Worker.Name, functions.Worker.Instances), fmt.Sprintf("%s:%d", functions.Worker.Name, n))
	}
	if maxThink := maxThinkInstances(l[functions.Message.Name]); l[functions.Think.Name] > maxThink {
		if _, set := c.Set[functions.Think.Name]; set {
			return nil, problem.Invalid("limits", fmt.Sprintf("%s:%d at most, two less than message, so that models never occupy all instances that calls need", functions.Think.Name, maxThink), fmt.Sprintf("%s:%d", functions.Think.Name, l[functions.Think.Name]))
		}
		l[functions.Think.Name] = maxThink
	}
	return l, nil
}

func ReadLimits(text string) (Limits, error) {
	// The text is, for example, message:8,rowsWrites:100.
	set := Limits{}
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
		case err != nil || n < 1 || n > maximum(name):
			errs = append(errs, fmt.Errorf("expected %s:NUMBER with 1 to %d, got %.80q", name, maximum(name), pair))
		default:
			set[name] = n
		}
	}
	return set, errors.Join(errs...)
}

func ReadChoice(context map[string]string, region string) (Choice, error) {
	v, wrong := setting.ReadContext(context)
	if len(wrong) > 0 {
		return Choice{}, problem.Invalid("context value "+wrong[0].Context, wrong[0].Expects(), fmt.Sprintf("%.40q", wrong[0].Text))
	}
	c, err := ChoiceOf(v, region)
	if err != nil {
		return Choice{}, problem.Wrap(problem.Malformed, err, "context value %s", err)
	}
	return c, nil
}

func ChoiceOf(v setting.Values, region string) (Choice, error) {
	set, err := ReadLimits(v.SetLimits)
	if err != nil {
		return Choice{}, fmt.Errorf("limits: %w", err)
	}
	return Choice{
		WorstDay: float64(v.WorstDay), Region: region, Set: set,
		Edge: v.Edge, WAF: v.WAF, Dashboard: v.Dashboard, X86: v.Arch == "amd64", SoftwareKey: v.HostKey == "software",
	}, nil
}

func (l Limits) ReservedConcurrency() (n int) {
	for name, v := range l {
		if !isCeiling(name) {
			n += v
		}
	}
	return n
}

// plannedShape returns the shape that the templates of a stage with limits l will have. A test compares
// it with the templates.
func (c Choice) plannedShape(l Limits) Shape {
	s := Shape{Keys: 3, Alarms: alarms(), Edge: c.Edge, Transitions: transitionsOfGate}
	if c.SoftwareKey {
		s.Keys--
	}
	if c.Edge {
		s.Secrets = 1
	}
	if c.WAF {
		s.ACLs, s.Rules = 1, rulesOfACL
	}
	if c.Dashboard {
		s.Dashboards = 1
	}
	limit := func(name string) *int { n := l[name]; return &n }
	for _, f := range functions.All() {
		if f.Instances > 0 {
			s.add(f, !c.X86, limit(f.Name))
		} else {
			s.add(f, !c.X86, nil)
		}
		if added := &s.Functions[len(s.Functions)-1]; f.Has("VACANCY_PUTS") {
			added.Puts, added.Gets = l.ObjectShare(ObjectWrites), l.ObjectShare(ObjectReads)
		}
	}
	slices.SortFunc(s.Functions, func(a, b Function) int { return strings.Compare(a.Name, b.Name) })
	s.Tables = []Table{
		{Name: "Docs", Read: limit(DocsReads), Write: limit(DocsWrites)},
		{Name: "Docs/listed", Index: true, Read: limit(IndexReads), Write: limit(IndexWrites)},
		{Name: "Rows", Read: limit(RowsReads), Write: limit(RowsWrites)},
	}
	return s
}
