package admin

import (
	"encoding/json"
	"fmt"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// maxCreationBytes limits the body of a creation, which may contain a logbook and chains.
const maxCreationBytes = 16 << 20

func bodyLimits() canon.Limits { return httpapi.Limits(maxCreationBytes) }

const defaultSubstrate = "echo"

// importedVacant is the output of `vacancy export`. Its name and card are ignored.
type importedVacant struct {
	Seed     seed            `json:"seed_hex"`
	ID       string          `json:"id"`
	Logbook  logEntries      `json:"logbook"`
	Chains   chains          `json:"chains"`
	Manifest json.RawMessage `json:"manifest" canon:"null"`
	Agent    json.RawMessage `json:"agent" canon:"null"`
	Format   json.RawMessage `json:"format" canon:"null"`
	Exported json.RawMessage `json:"exported" canon:"null"`
	Name     json.RawMessage `json:"name" canon:"null"`
	Card     json.RawMessage `json:"card" canon:"null"`
}

func (n *Creation) createSpec() (s vacants.CreateSpec, err error) {
	s = vacants.CreateSpec{Name: n.Name, Capability: n.Capability, Substrate: n.Substrate, Tenant: n.Tenant}
	if s.CallTimeout, err = vacants.ParseCallTimeout(n.CallTimeout); err != nil {
		return s, err
	}
	if s.Agent, err = parseAgent(n.Agent); err != nil {
		return s, problem.AtPath("agent", err)
	}
	if len(n.Import) > 0 {
		agent, err := n.addImport(&s)
		if err != nil {
			return s, problem.AtPath("import", err)
		}
		if s.Substrate == "" && s.Agent == nil {
			s.Agent = agent
		}
	}
	if s.Substrate == "" && s.Agent == nil {
		s.Substrate = defaultSubstrate
	}
	return s, nil
}

func (n *Creation) addImport(s *vacants.CreateSpec) (agent *definition.Agent, err error) {
	var bundle importedVacant
	if err := canon.NewDecoder(n.Import, bodyLimits()).Decode(&bundle); err != nil {
		return nil, err
	}
	s.Key, s.Logbook, s.Chains = bundle.Seed.key, bundle.Logbook, bundle.Chains
	switch {
	case s.Key == nil:
		return nil, problem.Invalid("seed_hex", "64 hex digits", "nothing")
	case bundle.ID != "" && bundle.ID != s.Key.ID().String():
		return nil, problem.Invalid("id", "the id of the seed", quoteTruncated(bundle.ID))
	}
	if len(bundle.Manifest) > 0 {
		m, err := composite.ParseManifest(bundle.Manifest)
		if err != nil {
			return nil, problem.AtPath("manifest", err)
		}
		s.Manifest = &m
	}
	if agent, err = parseAgent(bundle.Agent); err != nil {
		return nil, problem.AtPath("agent", err)
	}
	return agent, nil
}

func parseAgent(raw json.RawMessage) (*definition.Agent, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	if k := canon.NewDecoder(raw, bodyLimits()).Kind(); k != canon.Object {
		return nil, problem.Invalid("body", canon.Object.String(), k.String())
	}
	a, err := definition.Parse(raw)
	return &a, err
}

// seed parses the seed of a key. Its errors do not quote the input, because a malformed input may
// contain most of a seed.
type seed struct{ key *identity.Key }

func (s *seed) UnmarshalCanon(d *canon.Decoder) error {
	formatErr := &problem.Error{Kind: problem.Malformed, Field: "body", Want: "64 hex digits"}
	text, err := d.String()
	if err != nil {
		return formatErr
	}
	b, err := identity.ParseHex(text)
	if err != nil {
		return formatErr
	}
	defer clear(b)
	if s.key, err = identity.KeyFromSeed(b); err != nil {
		return formatErr
	}
	return nil
}

type logEntries []logbook.Entry

func (l *logEntries) UnmarshalCanon(d *canon.Decoder) error {
	return d.Array(func(i int) error {
		if i >= vacants.MaxLogbookEntries {
			return problem.Invalid("body", fmt.Sprintf("at most %d entries", vacants.MaxLogbookEntries), "more")
		}
		line, err := d.Raw()
		if err != nil {
			return err
		}
		e, err := logbook.ParseLine(line)
		if err != nil {
			return problem.New(problem.Malformed, "entry %d: %s", i, problem.AsError(err).Text())
		}
		*l = append(*l, e)
		return nil
	})
}

// chains contains a document for each vacant that the imported vacant has called.
type chains map[identity.ID][]byte

func (c *chains) UnmarshalCanon(d *canon.Decoder) error {
	*c = chains{}
	return d.Object(func(key string) error {
		target, err := identity.ParseID(key)
		if _, isDuplicate := (*c)[target]; err != nil || isDuplicate {
			return problem.Invalid("body", "ids of 64 hex digits, each once", quoteTruncated(key))
		}
		if d.Kind() != canon.Object {
			return problem.Invalid(target.Short(), canon.Object.String(), d.Kind().String())
		}
		raw, err := d.Raw()
		(*c)[target] = append([]byte(nil), raw...)
		return err
	})
}

func quoteTruncated(s string) string { return fmt.Sprintf("%.80q", s) }
