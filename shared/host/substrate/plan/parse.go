package plan

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// Parse parses a plan and checks its form; children may be names. Defaults:
// sequential, abort, list, and the task {input}. Unknown members are refused,
// because they would be ignored silently. Errors are of kind Malformed, NotJSON
// or TooLarge, and name the field.
func Parse(data []byte) (Plan, error) {
	if len(data) > MaxBlob {
		return Plan{}, &problem.Error{Kind: problem.TooLarge, Field: "plan",
			Want: fmt.Sprintf("at most %d bytes", MaxBlob), Got: strconv.Itoa(len(data))}
	}
	limits := canon.DefaultLimits()
	limits.Bytes, limits.Depth = MaxBlob, 4
	p, version := Plan{OnFailure: Abort, Aggregate: Aggregate{How: List}}, int64(0)
	d := canon.NewDecoder(data, limits)
	err := d.Document(func(key string) (err error) {
		switch key {
		case "version":
			version, err = d.Int64()
		case "parallel":
			p.Parallel, err = d.Bool()
		case "on_failure":
			p.OnFailure, err = word[OnFailure](d)
		case "delegate":
			return p.readDelegations(d)
		case "aggregate":
			return p.Aggregate.read(d)
		default:
			return unknown("", key, "a plan")
		}
		return at(key, err)
	})
	switch {
	case err != nil && problem.Is(err, problem.TooLarge):
		return Plan{}, err
	case err == nil && version != Version:
		err = problem.Invalid("version", strconv.Itoa(Version), strconv.FormatInt(version, 10))
	case err == nil:
		err = p.Check()
	}
	if err != nil {
		return Plan{}, problem.Within(problem.Of(err).Kind, "plan", err)
	}
	return p, nil
}

func (p *Plan) readDelegations(d *canon.Decoder) error {
	return at("delegate", d.Array(func(i int) error {
		if i == MaxDelegations {
			return problem.Invalid("delegate", fmt.Sprintf("at most %d delegations", MaxDelegations), "more")
		}
		one, here := Delegation{Task: "{input}"}, fmt.Sprintf("delegate[%d]", i)
		err := d.Object(func(key string) (err error) {
			switch key {
			case "child":
				one.Child, err = d.String()
			case "kind":
				one.Kind, err = d.String()
			case "task":
				one.Task, err = d.String()
			default:
				return unknown(here+".", key, here)
			}
			return at(here+"."+key, err)
		})
		p.Delegate = append(p.Delegate, one)
		return at(here, err)
	}))
}

func (a *Aggregate) read(d *canon.Decoder) error {
	separated := false
	err := d.Object(func(key string) (err error) {
		switch key {
		case "how":
			a.How, err = word[How](d)
		case "separator":
			separated = true
			a.Separator, err = d.String()
		case "substrate":
			a.Substrate, err = d.String()
		default:
			return unknown("aggregate.", key, "aggregate")
		}
		return at("aggregate."+key, err)
	})
	if a.How == Join && !separated {
		a.Separator = DefaultSeparator
	}
	return at("aggregate", err)
}

func word[T ~string](d *canon.Decoder) (T, error) {
	s, err := d.String()
	return T(s), err
}

func unknown(before, key, of string) error {
	return &problem.Error{Kind: problem.Malformed, Field: before + fmt.Sprintf("%.40s", key), Detail: fmt.Sprintf("%.40q is not a member of %s", key, of)}
}

// at prefixes the path to the wrong value, whose last step the decoder named.
func at(path string, err error) error {
	if p := problem.Of(err); p != nil && p.Detail == "" && p.Field != "" {
		return &problem.Error{Kind: p.Kind, Field: path, Detail: path + strings.TrimPrefix(p.Text(), p.Field)}
	}
	return err
}
