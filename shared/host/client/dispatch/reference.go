package dispatch

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// referenceLimits bound the reference's state file, which has a key for each
// target.
var referenceLimits = canon.Limits{Bytes: 64 << 20, Depth: 8, Keys: 1 << 20}

// ParseReference parses the reference's envelope_state.json (PROTOCOL §16), the
// ends of self's chains with each target, so that the next call continues them.
// The result is sorted by target.
func ParseReference(self identity.ID, data []byte) ([]State, error) {
	var states []State
	d := canon.NewDecoder(data, referenceLimits)
	err := d.Document(func(key string) error {
		target, err := identity.ParseID(key)
		if err != nil {
			return problem.Invalid("envelope_state.json", "ids of targets as keys", fmt.Sprintf("%.70q", key))
		}
		s := State{Self: self, Target: target}
		err = d.Object(func(side string) (err error) {
			switch side {
			case "request":
				s.Request, err = referencePoint(d)
			case "response":
				s.Response, err = referencePoint(d)
			default:
				err = d.Skip()
			}
			return err
		})
		states = append(states, s)
		return err
	})
	if err != nil {
		return nil, problem.Wrap(problem.Damaged, err, "envelope_state.json cannot be read")
	}
	slices.SortFunc(states, func(a, b State) int { return cmp.Compare(a.Target.String(), b.Target.String()) })
	for i := 1; i < len(states); i++ {
		if states[i].Target == states[i-1].Target { // the same id in upper and lower case
			return nil, problem.New(problem.Damaged, "envelope_state.json has target %s twice", states[i].Target.Short())
		}
	}
	return states, nil
}

func referencePoint(d *canon.Decoder) (p Point, err error) {
	err = d.Object(func(key string) (err error) {
		switch key {
		case "last_seq":
			if p.Seq, err = d.Int64(); err == nil && (p.Seq < 0 || p.Seq > envelope.MaxSeq) {
				err = problem.Invalid(key, "a sequence number", fmt.Sprint(p.Seq))
			}
		case "last_hash_hex":
			p.Hash, err = referenceHash(d)
		default:
			err = d.Skip()
		}
		return err
	})
	if err == nil && (p.Seq == 0) != p.Hash.IsZero() {
		err = problem.Invalid("last_hash_hex", "the hash of the last envelope, and zeros or nothing with last_seq 0", p.Hash.String())
	}
	return p, err
}

// referenceHash reads a hash; "" and null mean none.
func referenceHash(d *canon.Decoder) (h identity.Hash, err error) {
	if d.Kind() == canon.Null {
		return h, d.Null()
	}
	s, err := d.String()
	if err != nil || s == "" {
		return h, err
	}
	return identity.ParseHash(s)
}
