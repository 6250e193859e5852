package plan

import (
	"fmt"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// Parse parses a plan and checks its form. Children may be names. Parse rejects unknown members.
func Parse(data []byte) (Plan, error) {
	if len(data) > MaxBlobBytes {
		return Plan{}, &problem.Error{Kind: problem.TooLarge, Field: "plan",
			Want: fmt.Sprintf("at most %d bytes", MaxBlobBytes), Got: strconv.Itoa(len(data))}
	}
	limits := canon.DefaultLimits()
	limits.Bytes, limits.Depth = MaxBlobBytes, 4
	var body Document
	body.Plan = Plan{OnFailure: Abort, Aggregate: Aggregate{Method: List}}
	err := canon.Unmarshal(data, &body, limits)
	switch {
	case err != nil && problem.Is(err, problem.TooLarge):
		return Plan{}, err
	case err == nil && body.Version != Version:
		err = problem.Invalid("version", strconv.Itoa(Version), strconv.FormatInt(body.Version, 10))
	case err == nil:
		err = body.Check()
	}
	if err != nil {
		return Plan{}, problem.WithPlace(problem.AsError(err).Kind, "plan", err)
	}
	return body.Plan, nil
}

type Document struct {
	Version int64 `json:"version"`
	Plan
}

func (d *Delegation) UnmarshalCanon(dec *canon.Decoder) error {
	type members Delegation // type without UnmarshalCanon
	*d = Delegation{Task: "{input}"}
	return dec.Decode((*members)(d))
}

func (a *Aggregate) UnmarshalCanon(d *canon.Decoder) error {
	raw := struct {
		How       Method  `json:"how"`
		Separator *string `json:"separator"`
		Substrate string  `json:"substrate"`
	}{How: a.Method}
	if err := d.Decode(&raw); err != nil {
		return err
	}
	a.Method, a.Substrate, a.Separator = raw.How, raw.Substrate, ""
	switch {
	case raw.Separator != nil:
		a.Separator = *raw.Separator
	case a.Method == Join:
		a.Separator = DefaultSeparator
	}
	return nil
}
