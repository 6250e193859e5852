package gate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

type Mode string

const (
	ModeDefault Mode = "default"
	// ModeStrict refuses more than ModeDefault: a shared tenant or owner, a family shared with a
	// sibling, and missing evidence.
	ModeStrict Mode = "strict"
	// ModeReference compares a child only with its parent, like the Python reference
	// implementation.
	ModeReference Mode = "reference"
)

const (
	DetectorObserved = "observed" // compares the host's own observations
	DetectorZeros    = "zeros"
)

const (
	PolicyVersion = "1"
	MaxDailyLimit = 1000
	maxPolicySize = 4 << 10
)

// Policy determines how a host or one of its tenants judges graduations.
type Policy struct {
	Version    string  `json:"version"`
	DailyLimit int     `json:"limit"`     // graduations per parent
	Threshold  float64 `json:"threshold"` // lowest strength of a signal that refuses
	Mode       Mode    `json:"mode"`
	Detector   string  `json:"detector"`
}

func DefaultPolicy() Policy {
	return Policy{Version: PolicyVersion, DailyLimit: 3, Threshold: 0.6, Mode: ModeDefault, Detector: DetectorObserved}
}

func (p Policy) Check() error {
	switch {
	case p.Version != PolicyVersion:
		return problem.Invalid("version", PolicyVersion, fmt.Sprintf("%.20q", p.Version))
	case p.DailyLimit < 1 || p.DailyLimit > MaxDailyLimit:
		return problem.Invalid("limit", fmt.Sprintf("1 to %d", MaxDailyLimit), strconv.Itoa(p.DailyLimit))
	case math.IsNaN(p.Threshold) || p.Threshold < 0 || p.Threshold > 1:
		return problem.Invalid("threshold", "0 to 1", fmt.Sprint(p.Threshold))
	case p.Mode != ModeDefault && p.Mode != ModeStrict && p.Mode != ModeReference:
		return problem.Invalid("mode", "default, strict or reference", fmt.Sprintf("%.20q", string(p.Mode)))
	case p.Detector != DetectorObserved && p.Detector != DetectorZeros:
		return problem.Invalid("detector", "observed or zeros", fmt.Sprintf("%.20q", p.Detector))
	}
	return nil
}

// ParsePolicy parses a policy from JSON. Omitted members have the values of DefaultPolicy. An
// unknown member is an error, because the host would not apply its rule.
func ParsePolicy(data []byte) (Policy, error) {
	if len(data) > maxPolicySize {
		return Policy{}, &problem.Error{Kind: problem.TooLarge, Field: "policy", Want: fmt.Sprintf("at most %d bytes", maxPolicySize), Got: strconv.Itoa(len(data))}
	}
	limits := canon.DefaultLimits()
	limits.Bytes = maxPolicySize
	p := DefaultPolicy()
	err := canon.Unmarshal(data, &p, limits)
	if err == nil {
		err = p.Check()
	}
	if err != nil {
		return Policy{}, problem.WithPlace(problem.Malformed, "policy", err)
	}
	return p, nil
}

func (p Policy) Marshal() ([]byte, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	return json.Marshal(p)
}

func (p *Policy) UnmarshalJSON(data []byte) (err error) {
	*p, err = ParsePolicy(data)
	return err
}

func (f *Findings) UnmarshalJSON(data []byte) (err error) {
	*f, err = ParseFindings(data)
	return err
}

func ParseFindings(data []byte) (Findings, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	type fields Findings // without UnmarshalJSON
	var decoded fields
	err := d.Decode(&decoded)
	f := Findings(decoded)
	if err == nil {
		if _, tokenErr := d.Token(); tokenErr != io.EOF {
			err = errors.New("unexpected data after the findings")
		}
	}
	if err == nil {
		err = f.Check()
	}
	if err != nil {
		return Findings{}, problem.Wrap(problem.Damaged, err, "findings: they are not the output of a detector")
	}
	return f, nil
}
