package cost

import (
	"fmt"
	"maps"
)

type surcharge struct {
	compute  float64
	requests float64 // requests to other services, and storage
	logs     float64
	transfer float64
}

// surcharges contains factors as of November 2025, rounded up. Only logs in eu-central-1 and
// ap-northeast-1 and tables in eu-west-2 were compared with published prices.
var surcharges = map[string]surcharge{
	"us-east-1":      {1, 1, 1, 1},
	"us-east-2":      {1, 1, 1, 1},
	"us-west-1":      {1, 1.12, 1.34, 1},
	"us-west-2":      {1, 1, 1, 1},
	"ca-central-1":   {1, 1.1, 1.1, 1},
	"eu-central-1":   {1, 1.22, 1.26, 1},
	"eu-north-1":     {1, 1.08, 1.08, 1},
	"eu-west-1":      {1, 1.14, 1.14, 1},
	"eu-west-2":      {1, 1.19, 1.2, 1},
	"eu-west-3":      {1, 1.19, 1.2, 1},
	"ap-northeast-1": {1, 1.15, 1.52, 1.27},
	"ap-northeast-2": {1, 1.09, 1.52, 1.4},
	"ap-south-1":     {1, 1.14, 1.34, 1.22},
	"ap-southeast-1": {1, 1.14, 1.4, 1.34},
	"ap-southeast-2": {1, 1.22, 1.34, 1.27},
	"sa-east-1":      {1, 1.5, 1.8, 1.67},
}

// highestSurcharge covers the other Regions, whose published compute prices are up to 1.39 times as
// high.
var highestSurcharge = surcharge{1.4, 1.5, 1.8, 1.72}

// RegionPrices returns ListPrices with a Region's surcharge, or the highest surcharge if it is
// unknown.
func RegionPrices(region string) PriceList {
	l := ListPrices()
	if region == "" || region == l.Region {
		return l
	}
	factors, isKnown := surcharges[region]
	l.Basis = "the prices of us-east-1 with the surcharge of " + region
	if !isKnown {
		factors, l.Basis = highestSurcharge, fmt.Sprintf("the prices of us-east-1 with the highest surcharge of any Region, because the surcharge of %s is not known", region)
	}
	l.Region, l.Prices = region, maps.Clone(l.Prices)
	for item, p := range l.Prices {
		p.USD *= factors.factor(item)
		l.Prices[item] = p
	}
	return l
}

func (s surcharge) factor(item Item) float64 {
	switch item {
	case LambdaRequests, LambdaArm, LambdaX86:
		return s.compute
	case WriteUnits, ReadUnits, TableStorage, TableBackups, StreamReads, StreamRequests, BlobStorage, BlobReads, BlobWrites, Transitions, QueueRequests, FairRequests:
		return s.requests
	case LogBytes, LogStorage:
		return s.logs
	case TransferOut:
		return s.transfer
	}
	// All other prices do not depend on the Region.
	return 1
}
