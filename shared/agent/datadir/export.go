package datadir

import (
	"encoding/json"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/vacants/bundle"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Export is a parsed export file that has not been verified.
type Export struct {
	Format   string            `json:"format"`
	Exported string            `json:"exported"`
	Name     string            `json:"name"`
	ID       string            `json:"id"`
	Seed     string            `json:"seed_hex" canon:"secret"`
	Card     json.RawMessage   `json:"card" canon:"null"`
	Manifest json.RawMessage   `json:"manifest" canon:"null"`
	Agent    json.RawMessage   `json:"agent" canon:"null"`
	Logbook  []json.RawMessage `json:"logbook"`
	Chains   exportedChains    `json:"chains"`
}

// ExportedChain is the state of the calls to the vacant with the id Target.
type ExportedChain struct {
	Target string
	State  []byte
}

type exportedChains []ExportedChain

func (c *exportedChains) UnmarshalCanon(d *canon.Decoder) error {
	return d.Object(func(target string) error {
		state, err := d.Raw()
		*c = append(*c, ExportedChain{target, state})
		return err
	})
}

func (b *Bundle) AppendExport(dst []byte, name string, now time.Time) []byte {
	out := bundle.Bundle{Name: name, Key: b.Key, Agent: b.Agent, Logbook: b.Logbook}
	if b.Card != nil {
		out.Card = b.Card.Blob()
	}
	if b.Manifest != nil {
		out.Manifest = b.Manifest.Blob()
	}
	for i := range b.Chains {
		out.Chains = append(out.Chains, bundle.Chain{Target: b.Chains[i].Target, State: b.Chains[i].AppendJSON(nil)})
	}
	return out.AppendJSON(dst, now)
}

// ParseExport parses an export file. Check verifies its content.
func ParseExport(b []byte) (Export, error) {
	var e Export
	// The limits are high, because the file is the user's own.
	err := canon.Unmarshal(b, &e, canon.Limits{Bytes: maxFileBytes, Depth: 32, Keys: 1 << 20, SkipUnknown: true})
	if err != nil {
		return e, problem.Wrap(problem.Damaged, err, "not an export of vacancy")
	}
	if e.Format != bundle.FormatVersion {
		return e, &problem.Error{Kind: problem.Damaged, Field: "format", Want: bundle.FormatVersion, Got: quoteTruncated(e.Format)}
	}
	return e, nil
}

func (c *ExportedChain) decodeState(owner identity.ID) (dispatch.State, error) {
	target, err := identity.ParseID(c.Target)
	if err != nil {
		return dispatch.State{}, err
	}
	s, err := dispatch.DecodeState(c.State)
	switch {
	case err != nil:
		return s, err
	case s.Self != owner:
		return s, problem.New(problem.Damaged, "it is a chain of %s", s.Self.Short())
	case s.Target != target:
		return s, problem.New(problem.Damaged, "it is a chain to %s", s.Target.Short())
	}
	return s, nil
}
