// Package settings reads an operator's settings of a stage: the context values
// of the CDK app, with defaults. It reports for each wrong value what was
// expected and what was given.
//
// Invariant: settings returned by Read can be deployed, as far as their values
// can tell.
package settings

import (
	"errors"
	"fmt"
	"github.com/vacancy-host/vacancy/shared/host/substrate/resources"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/shared/front/edge"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
)

// Settings are the settings of one stage.
type Settings struct {
	Stage string // part of every name; several stages can coexist
	Arch  string // arm64 or amd64: the functions' architecture

	Edge        bool   // serve through CloudFront
	Domain      string // of the edge; empty: CloudFront chooses
	Certificate string // ARN of the domain's certificate in us-east-1
	WAF         bool   // a web ACL for the edge

	WorstDay int         // USD that the limits let one day cost
	Limits   cost.Limits // derived from WorstDay, or set alone
	Reserve  bool        // functions have reserved concurrency
	Rate     string      // per address, tokens-per-second:burst; empty: no limit
	PairRate string      // per address, for envelopes that open or reopen a pair

	ModelBudget     string   // USD a day for models that the operator pays
	BedrockModels   []string // ids of models and inference profiles that agents may use
	TenantFunctions string   // TENANT=ARN,...: Lambda functions that agents may be
	Mock            bool     // agents may be mocks

	Fee          int    // the host's share of what callers pay, in basis points
	BookingPrice string // USD for a booking by AGP
	KeyPrefix    string // the word that new keys of accounts begin with
	AGPKeyPrefix string // that of keys with a tier of AGP

	Email  string // for alarms and the budget; empty: no mail
	Budget int    // USD a day above which mail is sent

	Keep          bool   // data is retained with its stack deleted, and tables refuse deletion
	HostKey       string // kms or software
	IndexSeconds  int    // at most, from a change to an index that contains it
	Dashboard     bool
	RetentionDays int // of logs

	EdgeSecretVersion string // of the edge's secret; empty: its current one
	EdgeSecretBefore  string // a version that is still accepted; empty: none
}

// Names of the context values. cdk.json holds those that have a default.
const (
	Stage             = "stage"
	Arch              = "arch"
	Edge              = "edge"
	Domain            = "domain"
	Certificate       = "certificate"
	WAF               = "waf"
	WorstDay          = "worstDay"
	Limits            = "limits"
	Reserve           = "reserve"
	Rate              = "rate"
	PairRate          = "pairRate"
	ModelBudget       = "modelBudget"
	BedrockModels     = "bedrockModels"
	TenantFunctions   = "tenantFunctions"
	Mock              = "mock"
	Fee               = "fee"
	BookingPrice      = "bookingPrice"
	KeyPrefix         = "keyPrefix"
	AGPKeyPrefix      = "agpKeyPrefix"
	Email             = "email"
	Budget            = "budget"
	Keep              = "keep"
	HostKey           = "hostKey"
	IndexSeconds      = "indexSeconds"
	Dashboard         = "dashboard"
	RetentionDays     = "retentionDays"
	EdgeSecretVersion = "edgeSecretVersion"
	EdgeSecretBefore  = "edgeSecretBefore"
)

// Defaults are the values of an empty context. cdk.json repeats them for people
// to read and change.
func Defaults() map[string]any {
	return map[string]any{
		Stage: "dev", Arch: "arm64", Edge: true, WAF: false,
		WorstDay: cost.DefaultWorstDay, Reserve: true, Rate: "20:40", PairRate: "1:20", Budget: 20, ModelBudget: 5, Mock: false, Fee: 0, BookingPrice: 0.25, KeyPrefix: "vac", AGPKeyPrefix: "agnt",
		Keep: true, HostKey: "kms", IndexSeconds: 300, Dashboard: true, RetentionDays: 30,
	}
}

// Names lists every context value.
func Names() []string {
	rest := []string{Domain, Certificate, Email, Limits, BedrockModels, TenantFunctions, EdgeSecretVersion, EdgeSecretBefore}
	return slices.Sorted(slices.Values(append(rest, slices.Collect(maps.Keys(Defaults()))...)))
}

// Read parses a context: values from cdk.json or, as strings, from the command
// line. Other tools keep values in the same context under names with characters
// other than letters; an unknown name with letters only is refused as a
// misspelling. The error names every wrong value.
func Read(context map[string]any) (Settings, error) {
	r := reader{context: context}
	for _, name := range slices.Sorted(maps.Keys(context)) {
		if word.MatchString(name) && !slices.Contains(Names(), name) {
			r.wrong(name, "one of "+strings.Join(Names(), ", "), "it as a name")
		}
	}
	s := Settings{
		Stage: r.match(Stage, stage, "1 to 20 characters of a-z, 0-9 and -, the first a letter"),
		Arch:  r.word(Arch, "arm64", "amd64"),
		Edge:  r.flag(Edge), WAF: r.flag(WAF), Keep: r.flag(Keep), Dashboard: r.flag(Dashboard),
		Domain:      r.match(Domain, domain, "a host name such as vacants.example.org"),
		Certificate: r.match(Certificate, certificate, "the ARN of an ACM certificate in us-east-1, which is where CloudFront looks for it"),
		WorstDay:    r.number(WorstDay, 1, 1000000), Reserve: r.flag(Reserve),
		Rate:          r.rate(Rate, "tokens-per-second:burst such as 20:40, or nothing for no limit"),
		PairRate:      r.rate(PairRate, "tokens-per-second:burst such as 1:20, or nothing for no limit"),
		Email:         r.match(Email, email, "a mail address"),
		Budget:        r.number(Budget, 1, 1000000),
		HostKey:       r.word(HostKey, "kms", "software"),
		IndexSeconds:  r.number(IndexSeconds, 0, 300),
		RetentionDays: r.days(RetentionDays),

		ModelBudget: r.dollars(ModelBudget), BedrockModels: r.bedrockModels(), TenantFunctions: r.tenantFunctions(), Mock: r.flag(Mock),
		Fee: r.number(Fee, 0, price.MaxFee), BookingPrice: r.bookingPrice(),
		KeyPrefix: r.match(KeyPrefix, keyPrefix, "1 to 12 characters of a-z and 0-9"), AGPKeyPrefix: r.match(AGPKeyPrefix, keyPrefix, "1 to 12 characters of a-z and 0-9"),

		EdgeSecretVersion: r.match(EdgeSecretVersion, version, "a version id of the edge's secret"),
		EdgeSecretBefore:  r.match(EdgeSecretBefore, version, "a version id of the edge's secret"),
	}
	set := r.limits()
	errs := append(r.errs, s.together()...)
	if errs == nil {
		var err error
		if s.Limits, err = cost.Derive(s.choice(set)); err != nil {
			errs = append(errs, fmt.Errorf("context value %w", err))
		}
	}
	return s, errors.Join(errs...)
}

// choice is what the limits depend on.
func (s Settings) choice(set cost.Limits) cost.Choice {
	return cost.Choice{
		WorstDay: float64(s.WorstDay), Set: set,
		Edge: s.Edge, WAF: s.WAF, Dashboard: s.Dashboard, X86: s.Arch == "amd64", SoftwareKey: s.HostKey == "software",
	}
}

// together refuses values that exclude each other.
func (s Settings) together() (errs []error) {
	says := func(bad bool, text string) {
		if bad {
			errs = append(errs, errors.New(text))
		}
	}
	says(s.Domain != "" && s.Certificate == "", Domain+": needs context value "+Certificate+", the ARN of its certificate in us-east-1")
	says(s.Certificate != "" && s.Domain == "", Certificate+": needs context value "+Domain+", the name that it is for")
	says(s.Domain != "" && !s.Edge, Domain+": needs "+Edge+"=true, for a Function URL takes no name of one's own")
	says(s.WAF && !s.Edge, WAF+": needs "+Edge+"=true, for a Function URL takes no web ACL")
	says(s.EdgeSecretVersion != "" && !s.Edge, EdgeSecretVersion+": needs "+Edge+"=true")
	says(s.EdgeSecretBefore != "" && s.EdgeSecretVersion == "", EdgeSecretBefore+": needs context value "+EdgeSecretVersion+", the version that follows it")
	return errs
}

// InRegion refuses settings that the Region of the stacks does not support.
func (s Settings) InRegion(region string) error {
	const edges = "us-east-1"
	if s.WAF && region != edges {
		return fmt.Errorf("%s: expected a stage in %s, where CloudFront's web ACLs live, got Region %q", WAF, edges, region)
	}
	return nil
}

// Name is the physical name of a resource of the stage.
func (s Settings) Name(thing string) string { return "vacancy-" + s.Stage + "-" + thing }

// LogGroup is the name of a function's log group.
func (s Settings) LogGroup(function string) string { return "/vacancy/" + s.Stage + "/" + function }

var (
	word        = regexp.MustCompile(`^[A-Za-z]+$`)
	stage       = regexp.MustCompile(`^[a-z][a-z0-9-]{0,19}$`)
	domain      = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
	certificate = regexp.MustCompile(`^arn:aws:acm:us-east-1:[0-9]{12}:certificate/[A-Za-z0-9-]{1,64}$`)
	email       = regexp.MustCompile(`^[^@\s"'{}<>,;]{1,64}@[A-Za-z0-9.-]+\.[A-Za-z]{2,}$`)
	keyPrefix   = regexp.MustCompile(`^[a-z0-9]{1,12}$`)
	version     = regexp.MustCompile(`^[A-Za-z0-9-]{32,64}$`)
)

// logDays are the retention periods of CloudWatch Logs.
var logDays = []int{1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653}

// reader reads values of a context and collects errors.
type reader struct {
	context map[string]any
	errs    []error
}

func (r *reader) wrong(name, want, got string) {
	r.errs = append(r.errs, fmt.Errorf("context value %s: expected %s, got %s", name, want, got))
}

// quoted is what a message shows of a text.
func quoted(text string) string { return fmt.Sprintf("%.80q", text) }

// value returns a context value, or its default, as text: the command line
// passes text for everything.
func (r *reader) value(name string) string {
	v, ok := r.context[name]
	if !ok {
		v, ok = Defaults()[name]
	}
	switch v := v.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case int:
		return strconv.Itoa(v)
	case float64: // JSON numbers decode as float64
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	if ok && r.context[name] != nil {
		r.wrong(name, "a text, a number, true or false", fmt.Sprintf("%.80v", v))
	}
	return ""
}

// match returns a text that matches a pattern. A value without a default may be
// empty.
func (r *reader) match(name string, pattern *regexp.Regexp, want string) string {
	v := r.value(name)
	_, needed := Defaults()[name]
	if (v != "" || needed) && !pattern.MatchString(v) {
		r.wrong(name, want, quoted(v))
		return ""
	}
	return v
}

// rate returns a rate as the functions read it.
func (r *reader) rate(name, want string) string {
	v := r.value(name)
	if _, ok := edge.ParseRate(v); !ok && v != "" {
		r.wrong(name, want, quoted(v))
	}
	return v
}

func (r *reader) word(name string, words ...string) string {
	v := r.value(name)
	if !slices.Contains(words, v) {
		r.wrong(name, strings.Join(words, " or "), quoted(v))
	}
	return v
}

func (r *reader) flag(name string) bool { return r.word(name, "true", "false") == "true" }

func (r *reader) number(name string, least, most int) int {
	v := r.value(name)
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		r.wrong(name, fmt.Sprintf("a whole number from %d to %d", least, most), quoted(v))
		return least
	}
	return n
}

// bookingPrice returns the price of a booking in USD.
func (r *reader) bookingPrice() string {
	v := r.value(BookingPrice)
	if p, err := money.Parse(v); err != nil || price.CheckBooking(p) != nil {
		r.wrong(BookingPrice, "USD in whole cents such as 0.25, 0.01 to 1000", quoted(v))
	}
	return v
}

// dollars returns an amount in USD as the functions read it.
func (r *reader) dollars(name string) string {
	v := r.value(name)
	if n, err := money.Parse(v); err != nil || n > models.MaxBudget {
		r.wrong(name, "USD such as 5 or 0.5, at most 1000000", quoted(v))
	}
	return v
}

// bedrockModels reads ids of models and inference profiles, such as
// amazon.nova-lite-v1:0,eu.anthropic.claude-sonnet-4-5-20250929-v1:0.
func (r *reader) bedrockModels() (all []string) {
	for id := range strings.SplitSeq(r.value(BedrockModels), ",") {
		switch {
		case id == "":
		case !substrate.IsBedrockModel(id):
			r.wrong(BedrockModels, "ids of models or inference profiles at Bedrock, parted by commas", quoted(id))
		default:
			all = append(all, id)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// tenantFunctions returns the text as the functions read it.
func (r *reader) tenantFunctions() string {
	v := r.value(TenantFunctions)
	if _, err := resources.ParseFunctions(v); err != nil {
		r.wrong(TenantFunctions, "TENANT=ARN,... with ARNs of Lambda functions; an ARN alone is for vacants without a tenant", quoted(v))
	}
	return v
}

// limits reads limits that are set alone, such as message:8,rowsWrites:100.
func (r *reader) limits() cost.Limits {
	set, err := cost.ReadLimits(r.value(Limits))
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("context value %s: %w", Limits, err))
	}
	return set
}

func (r *reader) days(name string) int {
	v := r.value(name)
	n, err := strconv.Atoi(v)
	if err != nil || !slices.Contains(logDays, n) {
		r.wrong(name, "a number of days that CloudWatch Logs offers ("+strings.Trim(fmt.Sprint(logDays), "[]")+")", quoted(v))
	}
	return n
}
