package cost

type Report struct {
	Stage  string `json:"stage"`
	From   string `json:"from"` // source of the templates
	Region string `json:"region"`
	Taken  string `json:"prices_taken"`
	Basis  string `json:"prices_derived_from,omitempty"`
	Model  Model  `json:"model"`
	Shape  Shape  `json:"shape"`

	CallCount float64 `json:"call_count"`
	Direct    Lines   `json:"function_url"`
	// BeforeTransfer is the cost of Direct without transfer to the Internet.
	BeforeTransfer float64 `json:"function_url_before_transfer_usd"`
	Edge           Lines   `json:"cloudfront"`
	Kept           Lines   `json:"kept_a_month"`
	Month          Lines   `json:"month"`
	// EveryHour is the additional cost if every handler is used in every hour.
	EveryHour Lines `json:"month_every_hour"`
	WorstDay  Day   `json:"worst_day"`
}

// Lines contains lines and their sum.
type Lines struct {
	Lines []Line  `json:"lines"`
	USD   float64 `json:"usd"`
}

func Estimate(s Shape, l List, n float64) Report {
	sum := func(lines []Line) Lines { return Lines{Lines: lines, USD: Sum(lines)} }
	m := DefaultModel()
	r := Report{
		Region: l.Region, Taken: l.Taken, Basis: l.Basis, Model: m, Shape: s, CallCount: n,
		Direct: sum(m.Calls(s, l, n, false)), Edge: sum(m.Calls(s, l, n, true)), Kept: sum(m.RowStorage(l, n)),
		Month: sum(append(Month(s, l), ScheduledRuns(s, l)...)), EveryHour: sum(EveryHour(s, l)), WorstDay: WorstDay(s, l, DefaultBounds()),
	}
	r.BeforeTransfer = r.Direct.USD
	for _, line := range r.Direct.Lines {
		if line.Item == TransferOut {
			r.BeforeTransfer -= line.USD
		}
	}
	return r
}
