package cost

import "github.com/vacancy-host/vacancy/shared/front/onlambda/functions"

// PageModel is a view of the page of a published vacant that CloudFront has not kept. A test counts its units.
type PageModel struct {
	Reads       float64 `json:"reads"`        // of other functions, one after another
	ReadUnits   float64 `json:"read_units"`   // of those functions together
	ReadMS      float64 `json:"read_ms"`      // of one of them, for which it is billed
	RenderMS    float64 `json:"render_ms"`    // of web, besides its waiting
	AnswerBytes float64 `json:"answer_bytes"` // compressed, with headers
}

// DefaultPage has a vacant without kin, whose agent card an instance keeps signed.
func DefaultPage() PageModel {
	return PageModel{Reads: 5, ReadUnits: 5, ReadMS: 8, RenderMS: 10, AnswerBytes: 4300}
}

// Views returns the lines for n views through CloudFront. It returns nothing for a stage without web or without an edge,
// because such a stage has no pages.
func (m PageModel) Views(s Shape, l List, n float64) []Line {
	f, ok := s.Function(functions.Web.Name)
	registry, found := s.Function(functions.Registry.Name)
	if !ok || !found || !s.Edge {
		return nil
	}
	const of = "%s views"
	wait := m.Reads*m.ReadMS + m.RenderMS
	return []Line{
		l.line("invocations", LambdaRequests, n*(1+m.Reads), "web, and the functions that it reads", "(1 + %s) x "+of, number(m.Reads), number(n)),
		l.line("compute of web", compute(f), n*wait/1000*gigabytes(f), "web waits for the others", "%d MB x (%s x %s ms + %s ms) x "+of, f.MemoryMB, number(m.Reads), number(m.ReadMS), number(m.RenderMS), number(n)),
		l.line("compute of the others", compute(registry), n*m.Reads*m.ReadMS/1000*gigabytes(registry), "", "%s x %d MB x %s ms x "+of, number(m.Reads), registry.MemoryMB, number(m.ReadMS), number(n)),
		l.line("read", ReadUnits, n*m.ReadUnits, "lines of the log about reads are summed up", "%s units x "+of, number(m.ReadUnits), number(n)),
		l.line("CloudFront requests", EdgeRequests, n, "files of the page are kept by the browser", "1 request x "+of, number(n)),
		l.line("CloudFront to the reader", EdgeTransferOut, n*m.AnswerBytes/gib, "compressed", "%s bytes x "+of+" / 2^30", number(m.AnswerBytes), number(n)),
	}
}
