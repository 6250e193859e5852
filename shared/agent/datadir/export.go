package datadir

import (
	"time"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/vacants/bundle"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// exportLimits are wide, because the file is the person's own: logbook and
// chains may be long.
func exportLimits() canon.Limits { return canon.Limits{Bytes: maxFile, Depth: 32, Keys: 1 << 20} }

// Export is a parsed export file, not verified.
type Export struct {
	Format   string
	Exported string
	Name     string
	ID       string
	Seed     string
	Card     []byte // the card's JSON, nil if null
	Manifest []byte // the manifest's JSON, may be nil
	Agent    []byte // the agent's JSON, may be nil
	Logbook  [][]byte
	Chains   []ExportedChain
}

// ExportedChain is the state of the calls to one target.
type ExportedChain struct {
	Target string
	State  []byte
}

// AppendExport appends the export of b under a name.
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
	return out.Append(dst, now)
}

// ParseExport parses the form of an export. Check verifies the content.
func ParseExport(b []byte) (Export, error) {
	var e Export
	d := canon.NewDecoder(b, exportLimits())
	err := d.Object(func(name string) (err error) {
		switch name {
		case "format":
			e.Format, err = d.String()
		case "exported":
			e.Exported, err = d.String()
		case "name":
			e.Name, err = d.String()
		case "id":
			e.ID, err = d.String()
		case "seed_hex":
			e.Seed, err = d.String()
		case "card":
			if d.Kind() == canon.Null {
				return d.Null()
			}
			e.Card, err = d.Raw()
		case "manifest":
			if d.Kind() == canon.Null {
				return d.Null()
			}
			e.Manifest, err = d.Raw()
		case "agent":
			e.Agent, err = d.Raw()
		case "logbook":
			err = d.Array(func(int) error {
				line, err := d.Raw()
				e.Logbook = append(e.Logbook, line)
				return err
			})
		case "chains":
			err = d.Object(func(target string) error {
				state, err := d.Raw()
				e.Chains = append(e.Chains, ExportedChain{target, state})
				return err
			})
		default:
			err = d.Skip()
		}
		return err
	})
	if err == nil {
		err = d.End()
	}
	if err != nil {
		return e, problem.Wrap(problem.Damaged, err, "not an export of vacancy")
	}
	if e.Format != bundle.Format {
		return e, &problem.Error{Kind: problem.Damaged, Field: "format", Want: bundle.Format, Got: quote(e.Format)}
	}
	return e, nil
}

// state decodes the state of owner's calls to the chain's target.
func (c *ExportedChain) state(owner identity.ID) (dispatch.State, error) {
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
