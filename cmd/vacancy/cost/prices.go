package cost

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
)

type Item string

const (
	LambdaRequests    Item = "lambda-requests"
	LambdaArm         Item = "lambda-arm64"
	LambdaX86         Item = "lambda-x86_64"
	WriteUnits        Item = "dynamodb-write-units"
	ReadUnits         Item = "dynamodb-read-units"
	TableStorage      Item = "dynamodb-storage"
	TableBackups      Item = "dynamodb-pitr"
	StreamReads       Item = "dynamodb-stream-reads-by-lambda"
	StreamRequests    Item = "dynamodb-stream-requests"
	LogBytes          Item = "logs-ingested"
	LogStorage        Item = "logs-stored"
	Metrics           Item = "metrics"
	Alarms            Item = "alarms"
	Dashboards        Item = "dashboards"
	KMSKeys           Item = "kms-keys"
	KMSRequests       Item = "kms-requests"
	Secrets           Item = "secrets"
	BlobStorage       Item = "s3-storage"
	BlobReads         Item = "s3-reads"
	BlobWrites        Item = "s3-writes" // includes listings
	TransferOut       Item = "transfer-out"
	EdgeRequests      Item = "cloudfront-requests"
	EdgeTransferOut   Item = "cloudfront-transfer-out"
	EdgeTransferInner Item = "cloudfront-to-origin"
	WAFACLs           Item = "waf-web-acls"
	WAFRules          Item = "waf-rules"
	WAFRequests       Item = "waf-requests"
	Transitions       Item = "states-transitions"
	QueueRequests     Item = "sqs-requests"
	FairRequests      Item = "sqs-fair-requests" // in addition to QueueRequests
)

type Price struct {
	USD  float64 `json:"usd"`
	Per  float64 `json:"per"`
	Unit string  `json:"unit"`
}

type PriceList struct {
	Region     string `json:"region"`
	PriceMonth string `json:"taken"`
	// Basis describes how the prices were derived from us-east-1.
	Basis  string         `json:"-"`
	Prices map[Item]Price `json:"prices"`
}

const (
	million = 1e6
	gib     = 1 << 30 // AWS's GB
)

// ListPrices returns the list prices of us-east-1 in November 2025. The prices of requests to
// CloudFront and KMS, transfer out, backups, S3, SQS, Secrets Manager, transfer to CloudFront's
// origin and transitions were not compared with AWS's price pages.
func ListPrices() PriceList {
	return PriceList{Region: "us-east-1", PriceMonth: "2025-11", Prices: map[Item]Price{
		LambdaRequests:    {0.20, million, "requests"},
		LambdaArm:         {0.0000133334, 1, "GB-seconds"},
		LambdaX86:         {0.0000166667, 1, "GB-seconds"},
		WriteUnits:        {0.625, million, "write units"},
		ReadUnits:         {0.125, million, "read units"},
		TableStorage:      {0.25, 1, "GB-months"},
		TableBackups:      {0.20, 1, "GB-months"},
		StreamReads:       {0, million, "reads"},
		StreamRequests:    {0.20, million, "requests"},
		LogBytes:          {0.50, 1, "GB"},
		LogStorage:        {0.03, 1, "GB-months"},
		Metrics:           {0.30, 1, "metrics"},
		Alarms:            {0.10, 1, "alarm metrics"},
		Dashboards:        {3.00, 1, "dashboards"},
		KMSKeys:           {1.00, 1, "keys"},
		KMSRequests:       {0.03, 10_000, "requests"},
		Secrets:           {0.40, 1, "secrets"},
		BlobStorage:       {0.023, 1, "GB-months"},
		BlobReads:         {0.40, million, "requests"},
		BlobWrites:        {5.00, million, "requests"},
		TransferOut:       {0.09, 1, "GB"},
		EdgeRequests:      {0.0100, 10_000, "requests"},
		EdgeTransferOut:   {0.085, 1, "GB"},
		EdgeTransferInner: {0.020, 1, "GB"},
		WAFACLs:           {5.00, 1, "web ACLs"},
		WAFRules:          {1.00, 1, "rules"},
		WAFRequests:       {0.60, million, "requests"},
		Transitions:       {25.00, million, "transitions"},
		QueueRequests:     {0.40, million, "requests"},
		FairRequests:      {0.10, million, "requests"},
	}}
}

// OverridePrices returns a copy of l with the prices in b, a JSON object like PriceList. It ignores
// units in b.
func OverridePrices(b []byte, l PriceList) (PriceList, error) {
	var overrides PriceList
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	if err := d.Decode(&overrides); err != nil {
		return PriceList{}, problem.Wrap(problem.Malformed, err, "the price list is not a JSON object with region, taken and prices")
	}
	if overrides.Region == "" || overrides.PriceMonth == "" {
		return PriceList{}, problem.Invalid("region and taken", "a Region and a date", fmt.Sprintf("%.20q and %.20q", overrides.Region, overrides.PriceMonth))
	}
	out := PriceList{Region: overrides.Region, PriceMonth: overrides.PriceMonth, Prices: maps.Clone(l.Prices)}
	for item, p := range overrides.Prices {
		listPrice, ok := l.Prices[item]
		if !ok {
			names := slices.Sorted(maps.Keys(l.Prices))
			return PriceList{}, problem.Invalid("prices", fmt.Sprintf("items of %v", names), fmt.Sprintf("%.40q", item))
		}
		if !(p.USD >= 0 && p.USD < 1e6) || !(p.Per > 0 && p.Per <= 1e12) {
			return PriceList{}, problem.Invalid(string(item), "usd from 0 and per above 0", fmt.Sprintf("%v per %v", p.USD, p.Per))
		}
		out.Prices[item] = Price{USD: p.USD, Per: p.Per, Unit: listPrice.Unit}
	}
	return out, nil
}

type CostLine struct {
	Label      string  `json:"what"`
	Item       Item    `json:"item"`
	Units      float64 `json:"units"`
	Unit       string  `json:"unit"`
	USD        float64 `json:"usd"`
	Formula    string  `json:"formula"`
	Price      string  `json:"price"`
	Assumption string  `json:"assumes,omitempty"`
}

func (l PriceList) newLine(label string, item Item, units float64, assumption, formula string, args ...any) CostLine {
	p := l.Prices[item]
	return CostLine{
		Label: label, Item: item, Units: units, Unit: p.Unit, USD: units / p.Per * p.USD,
		Formula: fmt.Sprintf(formula, args...), Price: p.format(), Assumption: assumption,
	}
}

func (p Price) format() string {
	switch p.Per {
	case 1:
		return fmt.Sprintf("$%s per %s", formatNumber(p.USD), strings.TrimSuffix(p.Unit, "s"))
	case million:
		return fmt.Sprintf("$%s per million %s", formatNumber(p.USD), p.Unit)
	}
	return fmt.Sprintf("$%s per %s %s", formatNumber(p.USD), formatNumber(p.Per), p.Unit)
}

func formatNumber(f float64) string {
	s := fmt.Sprintf("%.10f", f)
	s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	whole, fraction, _ := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		return whole + "." + fraction
	}
	return whole
}

func Sum(lines []CostLine) (usd float64) {
	for _, l := range lines {
		usd += l.USD
	}
	return usd
}
