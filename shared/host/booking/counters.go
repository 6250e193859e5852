package booking

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/store"
)

// CounterWrite returns a write that changes a counter of the host. labels alternates names and
// values. The caller must limit the number of different values.
func CounterWrite(name string, delta int64, labels ...string) store.Write {
	var b strings.Builder
	for i := 0; i+1 < len(labels); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s=%q", labels[i], labels[i+1])
	}
	return store.Add{Key: CounterDocs.Key(name, "{"+b.String()+"}"), Delta: delta, Max: math.MaxInt64}
}

type Metric struct{ Name, Help string }

func Metrics() []Metric {
	return []Metric{
		{"a2a_requests_total", "Envelopes that reached their intent, by tier and status (ok, error, replay)."},
		{"a2a_metered_events_total", "Usage events of bookings, each in the transaction of its booking."},
		{"a2a_rejected_total", "Envelopes of a key that did not reach their intent."},
		{"a2a_envelope_transitions_total", "Changes of the states of bookings."},
	}
}

func (s *Service) WriteMetrics(ctx context.Context) ([]byte, error) {
	var out []byte
	for _, m := range Metrics() {
		out = fmt.Appendf(out, "# HELP %s %s\n# TYPE %s counter\n", m.Name, m.Help, m.Name)
		var lines []string
		for d, err := range store.Documents(ctx, s.Store, CounterDocs.Range(m.Name)) {
			if err == nil {
				err = CounterDocs.Check(d)
			}
			if err != nil {
				return nil, store.AsProblem(err)
			}
			lines = append(lines, m.Name+d.Key.Sort+" "+strconv.FormatInt(d.Number, 10)+"\n")
		}
		slices.Sort(lines)
		for _, l := range lines {
			out = append(out, l...)
		}
	}
	return out, nil
}

func (s *Service) CommitCounters(ctx context.Context, addWrites func(context.Context, *store.Tx) error) error {
	return store.AsProblem(s.updater().Update(ctx, addWrites))
}
