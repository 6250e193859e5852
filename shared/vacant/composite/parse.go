package composite

import (
	"encoding/hex"

	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Blob is the serialised manifest: canonical JSON of the signed members, the
// schema version and both signatures. The reference never serialises one.
func (m *Manifest) Blob() []byte {
	dst := canon.AppendString(append(m.appendToParent(nil), `,"schema_version":`...), string(m.Schema))
	dst = hex.AppendEncode(append(dst, `,"signature_child":"`...), m.SignatureChild)
	dst = hex.AppendEncode(append(dst, `","signature_parent":"`...), m.SignatureParent)
	return m.appendTools(append(dst, '"'))
}

// Parse parses a serialised manifest and checks its form, not its signatures.
// Missing members have the defaults of PROTOCOL §12; both ids and the birth
// path are required. Unknown members are refused, because nobody signed them. A
// manifest of version 1 gets the default reachability and outbound policy
// whatever it contains, because version 1 does not sign them (PROTOCOL §23 D7).
// Errors have kind Malformed, NotJSON or TooLarge and name the field.
func Parse(blob []byte) (Manifest, error) {
	m := Manifest{ClosedByDefault: true, Reachability: ParentOnly, Outbound: NoExternal, Schema: V2}
	if err := parseDocument("manifest", blob, MaxBlob, []string{"parent_id", "child_id", "birth_path"}, m.read); err != nil {
		return Manifest{}, err
	}
	if err := m.Check(); err != nil {
		return Manifest{}, within("manifest", err)
	}
	if m.Schema == V1 {
		m.Reachability, m.Outbound = ParentOnly, NoExternal
	}
	return m, nil
}

// ManifestShape is the JSON of a manifest, for descriptions: Parse reads it, and Blob writes it. Signatures
// are hexadecimal.
type ManifestShape struct {
	Parent          identity.ID  `json:"parent_id" canon:"required"`
	Child           identity.ID  `json:"child_id" canon:"required"`
	BirthPath       BirthPath    `json:"birth_path" canon:"required"`
	Closed          bool         `json:"closed_by_default"`
	Inherited       []string     `json:"tool_whitelist_inherited"`
	Added           []string     `json:"tool_whitelist_added"`
	Removed         []string     `json:"tool_whitelist_removed"`
	Reachability    Reachability `json:"endpoint_reachability"`
	Outbound        Outbound     `json:"outbound_policy"`
	Schema          Schema       `json:"schema_version"`
	SignatureParent string       `json:"signature_parent"`
	SignatureChild  string       `json:"signature_child"`
}

func (m *Manifest) read(d *canon.Decoder, key string) (err error) {
	switch key {
	case "parent_id":
		m.ParentID, err = readID(d)
	case "child_id":
		m.ChildID, err = readID(d)
	case "birth_path":
		m.BirthPath, err = readWord[BirthPath](d)
	case "closed_by_default":
		m.ClosedByDefault, err = d.Bool()
	case "tool_whitelist_inherited":
		m.Inherited, err = readList(d)
	case "tool_whitelist_added":
		m.Added, err = readList(d)
	case "tool_whitelist_removed":
		m.Removed, err = readList(d)
	case "endpoint_reachability":
		m.Reachability, err = readWord[Reachability](d)
	case "outbound_policy":
		m.Outbound, err = readWord[Outbound](d)
	case "schema_version":
		m.Schema, err = readWord[Schema](d)
	case "signature_parent":
		m.SignatureParent, err = readHex(d)
	case "signature_child":
		m.SignatureChild, err = readHex(d)
	default:
		return unknownMember(key, "a manifest")
	}
	return err
}

func readID(d *canon.Decoder) (identity.ID, error) {
	s, err := d.String()
	if err != nil {
		return identity.ID{}, err
	}
	return identity.ParseID(s)
}

func readWord[T ~string](d *canon.Decoder) (T, error) {
	s, err := d.String()
	return T(s), err
}

func readHex(d *canon.Decoder) ([]byte, error) {
	s, err := d.String()
	if err != nil || s == "" {
		return nil, err
	}
	return identity.ParseHex(s)
}

func readList(d *canon.Decoder) ([]string, error) {
	var list []string
	err := d.Array(func(int) error {
		s, err := d.String()
		list = append(list, s)
		return err
	})
	return list, err
}
