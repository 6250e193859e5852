package setting

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/edge"
	"github.com/vacancy-host/vacancy/shared/front/origin"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/booking"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/substrate/resources"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/host/tenant/quota"
)

// Host contains the settings that the processes of a host read. A zero value means the default, or
// no value.
type Host struct {
	Rate, PairRate edge.Rate // per address; zero means no limit
	// ByteRate limits the KB that an address may send beyond the first KB of each request. Zero
	// means no limit.
	ByteRate    edge.Rate
	CallTimeout time.Duration // zero means call.DefaultCallTimeout
	Retention   time.Duration // retention of texts; zero means textkeys.MinRetention

	// Fee is the host's share of what callers pay, in basis points. A change does not affect
	// existing prices.
	Fee int64
	// Zero means booking.DefaultPrice.
	BookingPrice            money.Amount
	KeyPrefix, AGPKeyPrefix string // "" means the defaults

	Quotas          quota.Quotas // nil means the defaults
	ModelBudget     money.Amount // per day, for vacants without a tenant
	AllowMocks      bool
	TenantFunctions resources.Functions // Lambda functions that may serve as agents
	AllowedOrigins  []string
}

type Values struct {
	Host

	Stage string
	Arch  string // arm64 or amd64

	HasEdge     bool
	Domain      string
	Certificate string // ARN
	WAF         bool

	WorstDay           int // maximum cost of a day in USD, from which the limits are derived
	SetLimits          string
	ReserveConcurrency bool

	BedrockModels []string // models and inference profiles that agents may use

	Email  string // if empty, no mail is sent
	Budget int

	// RetainData also protects tables from deletion.
	RetainData    bool
	HostKey       string // kms or software
	IndexSeconds  int    // maximum time until the search index contains a change
	Dashboard     bool
	RetentionDays int

	LacksBudgets bool // CloudFormation has no AWS::Budgets::Budget in the stage's Region

	EdgeSecretVersion         string // if empty, the current version
	PreviousEdgeSecretVersion string // still accepted; may be empty

	// Changes lists the settings of a deployed stage that a deployment may change, or is "all".
	Changes []string
}

const DefaultWorstDay = 20

var logRetentionDays = []int{1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653}

const (
	lowercaseLetters     = "abcdefghijklmnopqrstuvwxyz"
	keyPrefixForm        = "1 to 12 characters of a-z and 0-9"
	secretVersionPattern = `[A-Za-z0-9-]{32,64}`
)

func Table() []Setting {
	return []Setting{
		{
			Context: "stage", Variable: "VACANCY_STAGE", Functions: EveryFunction, Required: true, Default: "dev", DeployOnly: true,
			Help: "part of every name; several stages can coexist",
			Kind: stringKind("1 to 20 characters of a-z, 0-9 and -, the first a letter", isStage, func(v *Values) *string { return &v.Stage }),
		},
		{
			Context: "arch", Default: "arm64",
			Help: "the functions' architecture",
			Kind: wordKind(func(v *Values) *string { return &v.Arch }, "arm64", "amd64"),
		},
		{
			Context: "edge", Default: "true",
			Help: "serve through CloudFront",
			Kind: boolKind(func(v *Values) *bool { return &v.HasEdge }),
		},
		{
			Context: "domain",
			Help:    "the host name of the edge; it needs certificate",
			Kind: stringKind("a host name such as vacants.example.org", patternMatcher(`([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?`),
				func(v *Values) *string { return &v.Domain }),
		},
		{
			Context: "certificate",
			Help:    "the ARN of the domain's certificate, in us-east-1",
			Kind: stringKind("the ARN of an ACM certificate in us-east-1, which is where CloudFront looks for it", patternMatcher(`arn:aws:acm:us-east-1:[0-9]{12}:certificate/[A-Za-z0-9-]{1,64}`),
				func(v *Values) *string { return &v.Certificate }),
		},
		{
			Context: "waf", Default: "false",
			Help: "a web ACL for the edge, in us-east-1",
			Kind: boolKind(func(v *Values) *bool { return &v.WAF }),
		},
		{
			Context: "worstDay", Default: strconv.Itoa(DefaultWorstDay),
			Help: "the most USD that a day may cost at the Region's prices, without CloudFront, models and bursts of DynamoDB",
			Kind: numberKind(1, 1000000, func(v *Values) *int { return &v.WorstDay }),
		},
		{
			Context: "limits",
			Help:    "limits that are set explicitly, such as message:8,rowsWrites:100",
			Kind:    stringKind("NAME:NUMBER,... of functions and tables", func(string) bool { return true }, func(v *Values) *string { return &v.SetLimits }),
		},
		{
			Context: "reserve", Default: "true",
			Help: "functions have reserved concurrency",
			Kind: boolKind(func(v *Values) *bool { return &v.ReserveConcurrency }),
		},
		{
			Context: "rate", Variable: "VACANCY_RATE", Functions: WithURL, Flag: "rate", Commands: "serve", Default: "20:40",
			Help: "requests that one address may send, per second and at once",
			Kind: rateKind("tokens", "20:40", func(v *Values) *edge.Rate { return &v.Rate }),
		},
		{
			Context: "pairRate", Variable: "VACANCY_PAIR_RATE", Functions: WithURL, Flag: "pair-rate", Commands: "serve", Default: "1:20",
			Help: "first calls and resets that one address may send, per second and at once",
			Kind: rateKind("tokens", "1:20", func(v *Values) *edge.Rate { return &v.PairRate }),
		},
		{
			Variable: "VACANCY_BYTES", Functions: "agent message registry", Flag: "bytes", Commands: "serve", Default: "10:600",
			Help: "KB that one address may send, per second and at once; the first KB of each request is free",
			Kind: rateKind("kilobytes", "4.4:66", func(v *Values) *edge.Rate { return &v.ByteRate }),
		},
		{
			Flag: "work", Commands: "serve, dev", Default: call.DefaultCallTimeout.String(),
			Help: "how long an answer may take, from 1s to 14m; a vacant may have its own setting work",
			Kind: newKind("duration", "1s to 14m", func(s string) (time.Duration, bool) {
				duration, err := time.ParseDuration(s)
				return duration, err == nil && duration >= call.MinCallTimeout && duration <= call.MaxCallTimeout
			}, func(v *Values) *time.Duration { return &v.CallTimeout }),
		},
		{
			Variable: "VACANCY_RETENTION", Functions: "message agent worker admin export sweeper", Default: strconv.Itoa(int(textkeys.MinRetention / time.Hour)),
			Help: "hours after which the texts of a day can no longer be read",
			Kind: newKind("int", fmt.Sprintf("whole hours, %d to 87600", textkeys.MinRetention/time.Hour), func(s string) (time.Duration, bool) {
				n, err := strconv.Atoi(s)
				duration := time.Duration(n) * time.Hour
				return duration, err == nil && duration >= textkeys.MinRetention && n <= 87600 && strconv.Itoa(n) == s
			}, func(v *Values) *time.Duration { return &v.Retention }),
		},
		{
			Context: "email",
			Help:    "the mail address for alarms and for warnings about the budget",
			Kind:    stringKind("a mail address", patternMatcher(`[^@\s"'{}<>,;]{1,64}@[A-Za-z0-9.-]+\.[A-Za-z]{2,}`), func(v *Values) *string { return &v.Email }),
		},
		{
			Context: "budget", Default: "20",
			Help: "the daily cost of the AWS account, in USD, above which mail is sent",
			Kind: numberKind(1, 1000000, func(v *Values) *int { return &v.Budget }),
		},
		{
			Context: "modelBudget", Variable: "VACANCY_MODEL_BUDGET", Functions: "message agent worker think admin", Required: true, Flag: "model-budget", Commands: "serve, dev, a2a serve", Default: formatDollars(spend.DefaultHostBudget),
			Help: "the daily budget in `DOLLARS` for the models of vacants without a tenant",
			Kind: dollarKind("USD such as 5 or 0.5, at most 1000000", func(p money.Amount) bool { return p <= models.MaxBudget },
				func(v *Values) *money.Amount { return &v.ModelBudget }),
		},
		{
			Context: "bedrockModels",
			Help:    "ids of models and inference profiles at Bedrock that agents may use; with a profile, its own models are allowed",
			Kind:    listKind("ids of models or inference profiles at Bedrock, separated by commas", substrate.IsBedrockModel, func(v *Values) *[]string { return &v.BedrockModels }),
		},
		{
			Context: "tenantFunctions", Variable: "VACANCY_TENANT_FUNCTIONS", Functions: "think admin",
			Help: "Lambda functions that may serve as agents",
			Kind: newKind("string", "TENANT=ARN,... with ARNs of Lambda functions; an ARN without TENANT= is for vacants without a tenant", func(s string) (resources.Functions, bool) {
				tenantFunctions, err := resources.ParseFunctions(s)
				return tenantFunctions, err == nil
			}, func(v *Values) *resources.Functions { return &v.TenantFunctions }),
		},
		{
			Context: "mock", Variable: "VACANCY_MOCK", Functions: "message agent worker think admin", Default: "false",
			Help: "agents may be scripts instead of models, for trials",
			Kind: boolKind(func(v *Values) *bool { return &v.AllowMocks }),
		},
		{
			Context: "fee", Variable: "VACANCY_FEE", Functions: "admin", Flag: "fee", Commands: "serve, dev", Default: "0",
			Help: "the host's share of what callers pay, in `BASIS` points; a price takes the fee that holds when the price is set",
			Kind: numberKind(0, int64(price.MaxFeeBasisPoints), func(v *Values) *int64 { return &v.Fee }),
		},
		{
			Context: "bookingPrice", Variable: "VACANCY_BOOKING_PRICE", Functions: "gateway", Flag: "booking-price", Commands: "serve, dev", Default: formatDollars(booking.DefaultPrice),
			Help: "what a booking by AGP costs, in `DOLLARS` with at most two decimals",
			Kind: dollarKind("USD in whole cents such as 0.25, 0.01 to 1000", func(p money.Amount) bool { return price.CheckBookingPrice(p) == nil },
				func(v *Values) *money.Amount { return &v.BookingPrice }),
		},
		{
			Context: "keyPrefix", Variable: "VACANCY_KEY_PREFIX", Functions: "admin gateway", Flag: "key-prefix", Commands: "serve, dev", Default: billing.DefaultKeyPrefix,
			Help: "the `WORD` that new keys of accounts begin with, 1 to 12 characters of a-z and 0-9",
			Kind: stringKind(keyPrefixForm, isKeyPrefix, func(v *Values) *string { return &v.KeyPrefix }),
		},
		{
			Context: "agpKeyPrefix", Variable: "VACANCY_AGP_KEY_PREFIX", Functions: "admin gateway", Flag: "agp-key-prefix", Commands: "serve, dev", Default: billing.DefaultAGPKeyPrefix,
			Help: "the `WORD` that new keys with a tier of AGP begin with",
			Kind: stringKind(keyPrefixForm, isKeyPrefix, func(v *Values) *string { return &v.AGPKeyPrefix }),
		},
		{
			Context: "quotas", Variable: "VACANCY_QUOTAS", Functions: "admin gateway", Flag: "quotas", Commands: "serve, dev", Default: quota.Defaults().String(),
			Help: "what a tenant may have, as `NAME=NUMBER`,...; TENANT/NAME=NUMBER is for one tenant",
			Kind: newKind("string", quota.ParseFormat, func(s string) (quota.Quotas, bool) {
				q, err := quota.Parse(s)
				return q, err == nil
			}, func(v *Values) *quota.Quotas { return &v.Quotas }),
		},
		{
			Flag: "allow-origin", Commands: "serve, dev",
			Help: "the origin of another site, or of a desktop program, whose pages may send requests and read the answers, such as https://chat.example.com or app://client; separate several origins by commas",
			Kind: listKind("origins such as https://chat.example.com or app://client, separated by commas", func(s string) bool {
				parsed, ok := origin.Parse(s)
				return ok && parsed == s // the form that browsers send
			}, func(v *Values) *[]string { return &v.AllowedOrigins }),
		},
		{
			Context: "keep", Default: "true",
			Help: "data is retained when its stack is deleted, and tables refuse deletion",
			Kind: boolKind(func(v *Values) *bool { return &v.RetainData }),
		},
		{
			Context: "hostKey", Default: "kms",
			Help: "where the host's identity is: in KMS, or in software where KMS has no Ed25519",
			Kind: wordKind(func(v *Values) *string { return &v.HostKey }, "kms", "software"),
		},
		{
			Context: "indexSeconds", Default: "300",
			Help: "seconds from a change of a registration to a search index that contains it",
			Kind: numberKind(0, 300, func(v *Values) *int { return &v.IndexSeconds }),
		},
		{
			Context: "dashboard", Default: "true",
			Help: "a CloudWatch dashboard",
			Kind: boolKind(func(v *Values) *bool { return &v.Dashboard }),
		},
		{
			Context: "retentionDays", Default: "30",
			Help: "days that logs are kept",
			Kind: newKind("int", "a number of days that CloudWatch Logs offers ("+strings.Trim(fmt.Sprint(logRetentionDays), "[]")+")", func(s string) (int, bool) {
				n, err := strconv.Atoi(s)
				return n, err == nil && slices.Contains(logRetentionDays, n)
			}, func(v *Values) *int { return &v.RetentionDays }),
		},
		{
			Context: "lacksBudgets", DeployOnly: true,
			Help: "whether CloudFormation has no budgets in the stage's Region",
			Kind: boolKind(func(v *Values) *bool { return &v.LacksBudgets }),
		},
		{
			Context: "edgeSecretVersion", DeployOnly: true,
			Help: "the version of the edge's secret that CloudFront sends",
			Kind: stringKind("a version id of the edge's secret", patternMatcher(secretVersionPattern), func(v *Values) *string { return &v.EdgeSecretVersion }),
		},
		{
			Context: "edgeSecretBefore", DeployOnly: true,
			Help: "the version of the edge's secret that is still accepted",
			Kind: stringKind("a version id of the edge's secret", patternMatcher(secretVersionPattern), func(v *Values) *string { return &v.PreviousEdgeSecretVersion }),
		},
		{
			Context: "changes", DeployOnly: true,
			Help: "the settings of the deployed stage that this deployment may change",
			Kind: listKind("names of settings such as worstDay,edge, or all", patternMatcher(`[A-Za-z]+`), func(v *Values) *[]string { return &v.Changes }),
		},
	}
}

func isStage(s string) bool {
	return len(s) >= 1 && len(s) <= 20 && strings.Trim(s, lowercaseLetters+"0123456789-") == "" && strings.ContainsAny(s[:1], lowercaseLetters)
}

func isKeyPrefix(s string) bool { return billing.CheckKeyPrefix(s) == nil }

func formatDollars(p money.Amount) string { return strings.TrimPrefix(p.String(), "$") }
