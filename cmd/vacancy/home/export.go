package home

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/dispatch"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// ExportFormat names the form of an export: one file with everything that an
// identity is.
const ExportFormat = "vacancy-export/1"

// exportLimits are those of a file the person keeps, not of a stranger's
// message: a logbook and the chains may be long.
func exportLimits() canon.Limits { return canon.Limits{Bytes: maxFile, Depth: 32, Keys: 1 << 20} }

// Export is an export file as it was read, nothing of it believed yet.
type Export struct {
	Format   string
	Exported string
	Name     string
	ID       string
	Seed     string
	Card     []byte // the card's JSON, nil if null
	Logbook  [][]byte
	Chains   []ExportedChain
}

// ExportedChain is where the calls to one target stand.
type ExportedChain struct {
	Target string
	State  []byte
}

// AppendExport is the export of b under a name: one JSON object, a line per
// entry and chain so that a person can read it.
func (b *Bundle) AppendExport(dst []byte, name string, now time.Time) []byte {
	seed := b.Key.Seed()
	defer clear(seed)
	dst = fmt.Appendf(dst, "{\n\"format\": %q,\n\"exported\": %q,\n\"name\": %q,\n\"id\": %q,\n\"seed_hex\": %q,\n\"card\": ",
		ExportFormat, canon.FormatTime(now), name, b.Key.ID(), hex.EncodeToString(seed))
	if b.Card != nil {
		dst = b.Card.AppendBlob(dst)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, ",\n\"logbook\": ["...)
	for i := range b.Logbook {
		dst = appendItem(dst, i)
		dst = b.Logbook[i].AppendLine(dst)
	}
	dst = append(dst, "\n],\n\"chains\": {"...)
	for i := range b.Chains {
		dst = fmt.Appendf(appendItem(dst, i), "%q: ", b.Chains[i].Target)
		dst = bytes.TrimRight(b.Chains[i].AppendJSON(dst), "\n")
	}
	return append(dst, "\n}\n}\n"...)
}

func appendItem(dst []byte, i int) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	return append(dst, '\n')
}

// ParseExport reads the form of an export. What is in it is for Check.
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
	if e.Format != ExportFormat {
		return e, &problem.Error{Kind: problem.Damaged, Field: "format", Want: ExportFormat, Got: quote(e.Format)}
	}
	return e, nil
}

// state reads where the calls of owner to the chain's target stand.
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
