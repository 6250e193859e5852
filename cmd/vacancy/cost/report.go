package cost

type Report struct {
	Stage          string    `json:"stage"`
	TemplateSource string    `json:"from"`
	Region         string    `json:"region"`
	PriceMonth     string    `json:"prices_taken"`
	Basis          string    `json:"prices_derived_from,omitempty"`
	Model          CallModel `json:"model"`
	Shape          Shape     `json:"shape"`

	CallCount float64 `json:"call_count"`
	Direct    CostSum `json:"function_url"`
	// BeforeTransfer is the cost of Direct without transfer to the Internet.
	BeforeTransfer float64 `json:"function_url_before_transfer_usd"`
	Edge           CostSum `json:"cloudfront"`
	RowStorage     CostSum `json:"kept_a_month"`
	Month          CostSum `json:"month"`
	MonthlyMetrics CostSum `json:"month_every_hour"`
	WorstDay       Day     `json:"worst_day"`
}

type CostSum struct {
	Lines []CostLine `json:"lines"`
	USD   float64    `json:"usd"`
}

func Estimate(s Shape, l PriceList, n float64) Report {
	withSum := func(lines []CostLine) CostSum { return CostSum{Lines: lines, USD: Sum(lines)} }
	m := DefaultModel()
	r := Report{
		Region: l.Region, PriceMonth: l.PriceMonth, Basis: l.Basis, Model: m, Shape: s, CallCount: n,
		Direct: withSum(m.CallCosts(s, l, n, false)), Edge: withSum(m.CallCosts(s, l, n, true)), RowStorage: withSum(m.RowStorageCosts(l, n)),
		Month: withSum(append(MonthlyCosts(s, l), ScheduledRunCosts(s, l)...)), MonthlyMetrics: withSum(MonthlyMetricCosts(s, l)), WorstDay: WorstDay(s, l, DefaultBounds()),
	}
	r.BeforeTransfer = r.Direct.USD
	for _, line := range r.Direct.Lines {
		if line.Item == TransferOut {
			r.BeforeTransfer -= line.USD
		}
	}
	return r
}
