package composite

import (
	"encoding/hex"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func (m *Manifest) Blob() []byte {
	dst := canon.AppendString(append(m.appendToParent(nil), `,"schema_version":`...), string(m.Schema))
	dst = hex.AppendEncode(append(dst, `,"signature_child":"`...), m.SignatureChild)
	dst = hex.AppendEncode(append(dst, `","signature_parent":"`...), m.SignatureParent)
	return m.appendTools(append(dst, '"'))
}

// ParseManifest parses a serialised manifest and checks its form, but not its signatures. Both ids and the
// birth path are required, and other missing members have the defaults of PROTOCOL §12. Unknown
// members are refused, because the signatures do not cover them. A V1 manifest always has the
// default reachability and outbound policy, because V1 does not sign them (PROTOCOL §23 D7). Errors
// have kind Malformed, NotJSON or TooLarge and name the field.
func ParseManifest(blob []byte) (Manifest, error) {
	shape := ManifestDocument{Manifest: Manifest{ClosedByDefault: true, Reachability: ParentOnly, Outbound: NoExternal, Schema: V2}}
	if err := canon.UnmarshalSigned("manifest", blob, &shape, MaxBlob); err != nil {
		return Manifest{}, err
	}
	m := shape.Manifest
	m.SignatureParent, m.SignatureChild = shape.SignatureParent, shape.SignatureChild
	for _, tools := range []*[]string{&m.Inherited, &m.Added, &m.Removed} {
		*tools = nilIfEmpty(*tools)
	}
	if err := m.Check(); err != nil {
		return Manifest{}, problem.WithPlace(problem.Malformed, "manifest", err)
	}
	if m.Schema == V1 {
		m.Reachability, m.Outbound = ParentOnly, NoExternal
	}
	return m, nil
}

// ManifestDocument is the JSON form of a manifest, which ParseManifest reads and Blob writes. The
// reference never serialises a manifest.
type ManifestDocument struct {
	Manifest
	SignatureParent identity.Signature `json:"signature_parent"`
	SignatureChild  identity.Signature `json:"signature_child"`
}
