package composite

import (
	"encoding/hex"

	"github.com/vacancy-host/vacancy/shared/problem"
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
// path are required. Unknown members are refused because the signatures do not
// cover them. A manifest of version 1 gets the default reachability and outbound policy
// whatever it contains, because version 1 does not sign them (PROTOCOL §23 D7).
// Errors have kind Malformed, NotJSON or TooLarge and name the field.
func Parse(blob []byte) (Manifest, error) {
	shape := ManifestShape{Manifest: Manifest{ClosedByDefault: true, Reachability: ParentOnly, Outbound: NoExternal, Schema: V2}}
	if err := canon.UnmarshalSigned("manifest", blob, &shape, MaxBlob); err != nil {
		return Manifest{}, err
	}
	m := shape.Manifest
	m.SignatureParent, m.SignatureChild = shape.SignatureParent, shape.SignatureChild
	for _, tools := range []*[]string{&m.Inherited, &m.Added, &m.Removed} {
		*tools = nilIfEmpty(*tools)
	}
	if err := m.Check(); err != nil {
		return Manifest{}, problem.Within(problem.Malformed, "manifest", err)
	}
	if m.Schema == V1 {
		m.Reachability, m.Outbound = ParentOnly, NoExternal
	}
	return m, nil
}

// ManifestShape is the JSON of a manifest: Parse reads it, and Blob writes it.
type ManifestShape struct {
	Manifest
	SignatureParent identity.Signature `json:"signature_parent"`
	SignatureChild  identity.Signature `json:"signature_child"`
}
