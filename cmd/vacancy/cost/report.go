package cost

// Report is the cost of a stage.
type Report struct {
	Stage  string `json:"stage"`
	From   string `json:"from"` // where the templates were read
	Region string `json:"region"`
	Taken  string `json:"prices_taken"`
	Basis  string `json:"prices_derived_from,omitempty"`
	Model  Model  `json:"model"`
	Shape  Shape  `json:"shape"`

	CallCount      float64 `json:"call_count"`
	Direct         Lines   `json:"function_url"`
	BeforeTransfer float64 `json:"function_url_before_transfer_usd"` // Direct without transfer to the Internet
	Edge           Lines   `json:"cloudfront"`
	Kept           Lines   `json:"kept_a_month"`
	Month          Lines   `json:"month"`
	EveryHour      Lines   `json:"month_every_hour"` // additional cost if every handler is used in every hour
	WorstDay       Day     `json:"worst_day"`
}

// Lines are lines with their sum.
type Lines struct {
	Lines []Line  `json:"lines"`
	USD   float64 `json:"usd"`
}

// Estimate reports the cost of a stage for n calls.
func Estimate(s Shape, l List, n float64) Report {
	sum := func(lines []Line) Lines { return Lines{Lines: lines, USD: Sum(lines)} }
	m := DefaultModel()
	r := Report{
		Region: l.Region, Taken: l.Taken, Basis: l.Basis, Model: m, Shape: s, CallCount: n,
		Direct: sum(m.Calls(s, l, n, false)), Edge: sum(m.Calls(s, l, n, true)), Kept: sum(m.Kept(l, n)),
		Month: sum(append(Month(s, l), Scheduled(s, l)...)), EveryHour: sum(EveryHour(s, l)), WorstDay: WorstDay(s, l, DefaultBounds()),
	}
	r.BeforeTransfer = r.Direct.USD
	for _, line := range r.Direct.Lines {
		if line.Item == TransferOut {
			r.BeforeTransfer -= line.USD
		}
	}
	return r
}
