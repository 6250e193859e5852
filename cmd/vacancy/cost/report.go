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

	CallCount float64  `json:"call_count"`
	Direct    Lines    `json:"function_url"`
	Before    float64  `json:"function_url_before_transfer_usd"` // Direct without transfer to the Internet
	Edge      Lines    `json:"cloudfront"`
	Kept      Lines    `json:"kept_a_month"`
	Thinking  Lines    `json:"thinking_1000"` // what a model adds to 1,000 calls; empty without think
	Tasks     Lines    `json:"a2a_tasks"`     // that are waited for; empty without agent
	Queued    Lines    `json:"a2a_queued"`    // in the background
	Slow      Lines    `json:"slow_1000"`     // signed calls of a vacant that takes a minute; empty without worker
	Pages     Lines    `json:"pages"`         // views that CloudFront has not kept; empty without an edge
	Priced    Lines    `json:"priced"`        // calls with a flat price, by Function URL
	Booked    Lines    `json:"bookings_1000"` // by AGP; empty without gateway
	Graduated Lines    `json:"graduation"`    // for one, with AWS's state machine; empty without a gate
	Month     Lines    `json:"month"`
	EveryHour Lines    `json:"month_every_hour"` // what it costs more if every handler is used in every hour
	WorstDay  Day      `json:"worst_day"`
	Capacity  Capacity `json:"worst_day_buys"`

	Real     *Real      `json:"real,omitempty"` // nil if not requested
	Compared []Compared `json:"compared,omitempty"`
	RealUSD  float64    `json:"real_usd,omitempty"` // of CallCount calls with the real units
}

// Lines are lines with their sum.
type Lines struct {
	Lines []Line  `json:"lines"`
	USD   float64 `json:"usd"`
}

func sum(lines []Line) Lines { return Lines{Lines: lines, USD: Sum(lines)} }

// Estimate reports the cost of a stage for n calls. real may be nil.
func Estimate(s Shape, l List, n float64, real *Real) Report {
	m := DefaultModel()
	r := Report{
		Region: l.Region, Taken: l.Taken, Basis: l.Basis, Model: m, Shape: s, CallCount: n,
		Direct: sum(m.Calls(s, l, n, false)), Edge: sum(m.Calls(s, l, n, true)), Kept: sum(m.Kept(l, n)),
		Thinking: sum(DefaultThinking().Calls(s, l, 1000)),
		Slow:     sum(DefaultSlow().Calls(s, l, 1000)),
		Pages:    sum(DefaultPage().Views(s, l, n)),
		Priced:   sum(DefaultPriced().Calls(s, l, n)), Booked: sum(DefaultBooking().Bookings(s, l, 1000)),
		Graduated: sum(DefaultGraduation().Graduations(s, l, 1)), Month: sum(append(Month(s, l), Scheduled(s, l)...)), EveryHour: sum(EveryHour(s, l)), WorstDay: WorstDay(s, l, DefaultBounds()),
		Capacity: Buys(s, l, DefaultBounds()), Real: real,
	}
	waited, queued := DefaultTask().Tasks(s, l, n)
	r.Tasks, r.Queued = sum(waited), sum(queued)
	r.Before = r.Direct.USD - Sum(only(r.Direct.Lines, TransferOut))
	if real != nil && real.Calls > 0 {
		r.Compared = real.Compare(m)
		r.RealUSD = Sum(real.Adjusted(m).Calls(s, l, n, s.Edge))
	}
	return r
}

// only returns the lines of one item.
func only(lines []Line, item Item) (found []Line) {
	for _, l := range lines {
		if l.Item == item {
			found = append(found, l)
		}
	}
	return found
}
