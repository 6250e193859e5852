package admin

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// limits of a body: a creation may contain a logbook and chains.
func limits() canon.Limits { return canon.Limits{Bytes: 16 << 20, Depth: 32, Keys: 4096} }

// defaultSubstrate applies if a creation names none.
const defaultSubstrate = "echo"

// readSpec parses the body of a creation:
//
//	{"name", "capability", "substrate": "echo", "agent": null, "tenant": "", "import": null}
//
// agent goes with no substrate. import is the output of `vacancy export`; its
// seed_hex, manifest, logbook and chains are used, its agent if the body names
// neither another nor a substrate, and its id is checked.
func readSpec(w http.ResponseWriter, r *http.Request) (vacants.Spec, error) {
	body, err := readBody(w, r)
	if err != nil {
		return vacants.Spec{}, err
	}
	s := vacants.Spec{}
	var brought *definition.Agent
	d := canon.NewDecoder(body, limits())
	err = d.Document(func(key string) (err error) {
		switch key {
		case "name":
			s.Name, err = text(d, key)
		case "capability":
			s.Capability, err = text(d, key)
		case "substrate":
			s.Substrate, err = text(d, key)
		case "agent":
			s.Agent, err = readAgent(d, key)
		case "tenant":
			s.Tenant, err = text(d, key)
		case "import":
			if d.Kind() == canon.Null {
				return d.Null()
			}
			brought, err = readImport(d, &s)
		default:
			return unknown("", key, "name, capability, substrate, agent, tenant or import")
		}
		return err
	})
	if s.Substrate == "" && s.Agent == nil {
		s.Agent = brought
	}
	if s.Substrate == "" && s.Agent == nil {
		s.Substrate = defaultSubstrate
	}
	return s, err
}

// readImport returns the agent of an import, if it has one.
func readImport(d *canon.Decoder, s *vacants.Spec) (agent *definition.Agent, err error) {
	var id string
	err = d.Object(func(key string) (err error) {
		switch key {
		case "seed_hex":
			s.Key, err = readSeed(d)
		case "id":
			id, err = text(d, "import.id")
		case "logbook":
			s.Logbook, err = readLogbook(d)
		case "chains":
			s.Chains, err = readChains(d)
		case "manifest":
			s.Manifest, err = readManifest(d)
		case "agent":
			agent, err = readAgent(d, "import.agent")
		case "format", "exported", "name", "card":
			err = d.Skip() // the host signs its own card
		default:
			err = unknown("import.", key, "a member of an export")
		}
		return err
	})
	switch {
	case err != nil:
	case s.Key == nil:
		err = problem.Invalid("import.seed_hex", "64 hex digits", "nothing")
	case id != "" && id != s.Key.ID().String():
		err = problem.Invalid("import.id", "the id of the seed", clip(id))
	}
	return agent, err
}

func readManifest(d *canon.Decoder) (*composite.Manifest, error) {
	if d.Kind() == canon.Null {
		return nil, d.Null()
	}
	blob, err := d.Raw()
	if err != nil {
		return nil, err
	}
	m, err := composite.Parse(blob)
	if err != nil {
		p := problem.Of(err)
		field := "import.manifest"
		if p.Field != "" {
			field += "." + p.Field
		}
		return nil, &problem.Error{Kind: problem.Malformed, Field: field, Detail: "import." + p.Text()}
	}
	return &m, nil
}

// readSeed's errors quote nothing of the input, which may be most of a seed.
func readSeed(d *canon.Decoder) (*identity.Key, error) {
	wrong := &problem.Error{Kind: problem.Malformed, Field: "import.seed_hex", Want: "64 hex digits"}
	if d.Kind() != canon.String {
		return nil, wrong
	}
	s, err := d.String()
	if err != nil {
		return nil, wrong
	}
	seed, err := identity.ParseHex(s)
	if err != nil {
		return nil, wrong
	}
	defer clear(seed)
	key, err := identity.KeyFromSeed(seed)
	if err != nil {
		return nil, wrong
	}
	return key, nil
}

func readLogbook(d *canon.Decoder) (entries []logbook.Entry, err error) {
	if d.Kind() != canon.Array {
		return nil, problem.Invalid("import.logbook", canon.Array.String(), d.Kind().String())
	}
	err = d.Array(func(i int) error {
		if i >= vacants.MaxEntries {
			return problem.Invalid("import.logbook", fmt.Sprintf("at most %d entries", vacants.MaxEntries), "more")
		}
		line, err := d.Raw()
		if err != nil {
			return err
		}
		e, err := logbook.ParseLine(line)
		if err != nil {
			return problem.New(problem.Malformed, "import.logbook[%d]: %s", i, problem.Of(err).Text())
		}
		entries = append(entries, e)
		return nil
	})
	return entries, err
}

func readChains(d *canon.Decoder) (map[identity.ID][]byte, error) {
	if d.Kind() != canon.Object {
		return nil, problem.Invalid("import.chains", canon.Object.String(), d.Kind().String())
	}
	chains := map[identity.ID][]byte{}
	err := d.Object(func(key string) error {
		target, err := identity.ParseID(key)
		if _, twice := chains[target]; err != nil || twice {
			return problem.Invalid("import.chains", "ids of 64 hex digits, each once", clip(key))
		}
		if d.Kind() != canon.Object {
			return problem.Invalid("import.chains."+target.Short(), canon.Object.String(), d.Kind().String())
		}
		raw, err := d.Raw()
		chains[target] = append([]byte(nil), raw...)
		return err
	})
	return chains, err
}

func text(d *canon.Decoder, field string) (string, error) {
	if k := d.Kind(); k != canon.String {
		return "", problem.Invalid(field, canon.String.String(), k.String())
	}
	return d.String()
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	return httpapi.Body(w, r, limits().Bytes)
}

// noBody refuses a body that would be ignored.
func noBody(r *http.Request) error {
	if n, _ := io.ReadFull(r.Body, make([]byte, 1)); n > 0 {
		return problem.Invalid("body", "none", "some")
	}
	return nil
}

// number reads a positive number in the query.
func number(q url.Values, name string, missing uint64) (uint64, error) {
	s := q.Get(name)
	if s == "" {
		return missing, nil
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || n == 0 {
		return 0, problem.Invalid(name, "a positive number", clip(s))
	}
	return n, nil
}

// unknown refuses an unknown member of a body, or of the object in it named by
// before.
func unknown(before, key, want string) error {
	return &problem.Error{Kind: problem.Malformed, Field: before + fmt.Sprintf("%.80s", key), Detail: fmt.Sprintf("%s%s: expected %s, got another member", before, clip(key), want)}
}

func clip(s string) string { return fmt.Sprintf("%.80q", s) }
