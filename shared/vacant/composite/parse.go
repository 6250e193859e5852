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

// ParseManifest checks the form of a manifest, but not its signatures. Missing optional members
// have the defaults of PROTOCOL §12. Unknown members are refused, because the signatures do not
// cover them. V1 does not sign reachability and outbound policy, so a V1 manifest always has their
// defaults (PROTOCOL §23 D7).
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

type ManifestDocument struct {
	Manifest
	SignatureParent identity.Signature `json:"signature_parent"`
	SignatureChild  identity.Signature `json:"signature_child"`
}
