package composite

import (
	"encoding/hex"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func (m *Manifest) Blob() []byte {
	dst := canon.AppendString(append(m.appendBeforeTools(nil), `,"schema_version":`...), string(m.SchemaVersion))
	dst = hex.AppendEncode(append(dst, `,"signature_child":"`...), m.SignatureChild)
	dst = hex.AppendEncode(append(dst, `","signature_parent":"`...), m.SignatureParent)
	return m.appendTools(append(dst, '"'))
}

// ParseManifest parses a serialised manifest and checks its form, but not its signatures. Both ids
// and the birth path are required. Other missing members have the defaults of PROTOCOL §12. Unknown
// members are refused, because the signatures do not cover them. A V1 manifest always has the
// default reachability and outbound policy, because V1 does not sign them (PROTOCOL §23 D7).
// Errors have kind Malformed, NotJSON or TooLarge and name the field.
func ParseManifest(blob []byte) (Manifest, error) {
	doc := ManifestDocument{Manifest: Manifest{ClosedByDefault: true, Reachability: ParentOnly, OutboundPolicy: NoExternal, SchemaVersion: SchemaV2}}
	if err := canon.UnmarshalSigned("manifest", blob, &doc, MaxBlob); err != nil {
		return Manifest{}, err
	}
	m := doc.Manifest
	m.SignatureParent, m.SignatureChild = doc.SignatureParent, doc.SignatureChild
	for _, tools := range []*[]string{&m.InheritedTools, &m.AddedTools, &m.RemovedTools} {
		*tools = nilIfEmpty(*tools)
	}
	if err := m.Check(); err != nil {
		return Manifest{}, problem.WithPlace(problem.Malformed, "manifest", err)
	}
	if m.SchemaVersion == SchemaV1 {
		m.Reachability, m.OutboundPolicy = ParentOnly, NoExternal
	}
	return m, nil
}

// ManifestDocument is the JSON form of a manifest, which ParseManifest reads and Blob writes.
type ManifestDocument struct {
	Manifest
	SignatureParent identity.Signature `json:"signature_parent"`
	SignatureChild  identity.Signature `json:"signature_child"`
}
