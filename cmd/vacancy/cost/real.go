package cost

import (
	"bytes"
	"encoding/json"
	"math"
)

// Real is the usage of real calls by their log lines.
type Real struct {
	Calls   int     `json:"calls"`   // lines of accepted calls
	Others  int     `json:"others"`  // other requests: refused, failed, reading
	Cold    int     `json:"cold"`    // calls that started an instance
	Trips   float64 `json:"trips"`   // round trips of all calls, as are the others below
	Writes  float64 `json:"wcu"`     //
	Reads   float64 `json:"rcu"`     //
	KMS     float64 `json:"kms"`     //
	MS      float64 `json:"ms"`      //
	Bytes   float64 `json:"bytes"`   // of the log lines
	Skipped int     `json:"skipped"` // lines that are not JSON objects or not of calls
}

// Add adds a log line. A line that is not of a call counts as skipped.
func (r *Real) Add(line []byte) {
	var c struct {
		Calls, Trips, WCU, RCU, KMS, MS float64
		Cold                            bool
		Failed, Refused                 float64
	}
	line = bytes.TrimSpace(line)
	if err := json.Unmarshal(line, &c); err != nil || !(c.Calls >= 1) || !sane(c.Calls, c.Trips, c.WCU, c.RCU, c.KMS, c.MS) {
		r.Skipped++
		return
	}
	// Requests that accept nothing write nothing; they must not dilute the
	// average of a call.
	if c.WCU == 0 || c.Failed > 0 || c.Refused > 0 {
		r.Others += int(c.Calls) // a line may sum up several
		return
	}
	r.Calls++
	if c.Cold {
		r.Cold++
	}
	r.Trips += c.Trips
	r.Writes += c.WCU
	r.Reads += c.RCU
	r.KMS += c.KMS
	r.MS += c.MS
	r.Bytes += float64(len(line))
}

// sane refuses impossible counts.
func sane(counts ...float64) bool {
	for _, c := range counts {
		if !(c >= 0 && c < 1e9) || math.IsInf(c, 0) {
			return false
		}
	}
	return true
}

// Compared is one unit of a call: by the model, in reality, and the difference.
type Compared struct {
	What  string  `json:"what"`
	Model float64 `json:"model"`
	Real  float64 `json:"real"`
	Diff  float64 `json:"difference"`
}

// Compare compares the averages of real calls with the model; nil without
// calls.
func (r Real) Compare(m Model) []Compared {
	if r.Calls == 0 {
		return nil
	}
	n := float64(r.Calls)
	row := func(what string, model, sum float64) Compared {
		return Compared{What: what, Model: model, Real: sum / n, Diff: sum/n - model}
	}
	return []Compared{
		row("write units", m.WriteUnits, r.Writes),
		row("read units", m.ReadUnits+m.ColdShare*m.ColdReads, r.Reads),
		row("round trips", ColdTrips, r.Trips),
		row("milliseconds", m.BilledMS, r.MS),
		row("bytes of log", m.LineBytes, r.Bytes),
		row("KMS requests", m.ColdShare*m.ColdKMS, r.KMS),
		row("cold share", m.ColdShare, float64(r.Cold)),
	}
}

// Adjusted is the model with the units of real calls.
func (r Real) Adjusted(m Model) Model {
	if r.Calls == 0 {
		return m
	}
	n := float64(r.Calls)
	m.WriteUnits, m.ReadUnits, m.BilledMS, m.LineBytes = r.Writes/n, r.Reads/n, r.MS/n, r.Bytes/n
	m.ColdShare, m.ColdReads = float64(r.Cold)/n, 0 // the reads of cold calls are included
	if r.Cold > 0 {
		m.ColdKMS = r.KMS / float64(r.Cold)
	}
	return m
}
