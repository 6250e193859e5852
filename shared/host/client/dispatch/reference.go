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

var referenceLimits = canon.Limits{Bytes: 64 << 20, Depth: 8, Keys: 1 << 20, SkipUnknown: true}

// ParseReference parses the reference's envelope_state.json (PROTOCOL §16), which contains the ends
// of self's chains.
func ParseReference(self identity.ID, data []byte) ([]State, error) {
	var states []State
	d := canon.NewDecoder(data, referenceLimits)
	err := d.Document(func(key string) error {
		target, err := identity.ParseID(key)
		if err != nil {
			return problem.Invalid("envelope_state.json", "ids of targets as keys", fmt.Sprintf("%.70q", key))
		}
		var chains struct {
			Request  referencePoint `json:"request"`
			Response referencePoint `json:"response"`
		}
		err = d.Decode(&chains)
		states = append(states, State{Self: self, Target: target, RequestTip: Point(chains.Request), ResponseTip: Point(chains.Response)})
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

// referencePoint is a Point in the reference's form, in which "" and null mean the zero hash.
type referencePoint Point

func (p *referencePoint) UnmarshalCanon(d *canon.Decoder) error {
	var encoded struct {
		Seq  int64  `json:"last_seq"`
		Hash string `json:"last_hash_hex" canon:"null"`
	}
	if err := d.Decode(&encoded); err != nil {
		return err
	}
	p.Seq = encoded.Seq
	if p.Seq < 0 || p.Seq > envelope.MaxSeq {
		return problem.Invalid("last_seq", "a sequence number", fmt.Sprint(p.Seq))
	}
	if encoded.Hash != "" {
		var err error
		if p.Hash, err = identity.ParseHash(encoded.Hash); err != nil {
			return err
		}
	}
	if (p.Seq == 0) != p.Hash.IsZero() {
		return problem.Invalid("last_hash_hex", "the hash of the last envelope, or zeros, '' or null if last_seq is 0", p.Hash.String())
	}
	return nil
}
