// Package composite implements the signed relations between a parent and a child (PROTOCOL §12 to
// §15): the spawn request, the consent of a second parent, the manifest, the calls that a manifest
// allows, and the graduation request.
//
// Parent and child sign the same bytes of a manifest. The schema version determines the signed
// members. Members that a version does not sign have no effect.
package composite

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type BirthPath string

func BirthPaths() []BirthPath { return []BirthPath{"D1", "D2", "D3", "D4", "D5"} }

type Reachability string

// The Python reference implementation writes public_a2a with an underscore.
const (
	ParentOnly    Reachability = "parent-only"
	ParentBridged Reachability = "parent-bridged"
	PublicA2A     Reachability = "public_a2a"
)

type OutboundPolicy string

const (
	NoExternal      OutboundPolicy = "no-external"
	ParentPermitted OutboundPolicy = "parent-permitted"
	Unrestricted    OutboundPolicy = "unrestricted"
)

type SchemaVersion string

// The signatures of a V1 manifest do not cover reachability and outbound policy.
const (
	SchemaV1 SchemaVersion = "v1"
	SchemaV2 SchemaVersion = "v2"
)

const (
	MaxTools     = 256 // in each list
	MaxToolBytes = 256
	MaxBlob      = 64 << 10
)

type Manifest struct {
	ParentID        identity.ID    `json:"parent_id" canon:"required"`
	ChildID         identity.ID    `json:"child_id" canon:"required"`
	BirthPath       BirthPath      `json:"birth_path" canon:"required"`
	ClosedByDefault bool           `json:"closed_by_default"`
	InheritedTools  []string       `json:"tool_whitelist_inherited"` // the order of tools is not signed
	AddedTools      []string       `json:"tool_whitelist_added"`
	RemovedTools    []string       `json:"tool_whitelist_removed"`
	Reachability    Reachability   `json:"endpoint_reachability"`
	OutboundPolicy  OutboundPolicy `json:"outbound_policy"`
	SchemaVersion   SchemaVersion  `json:"schema_version"`
	SignatureParent []byte         `json:"-"`
	SignatureChild  []byte         `json:"-"`
}

func (m *Manifest) Check() error {
	if err := m.ParentID.Check(); err != nil {
		return problem.New(problem.Malformed, "parent_id: %s", problem.AsError(err).Text())
	}
	if err := m.ChildID.Check(); err != nil {
		return problem.New(problem.Malformed, "child_id: %s", problem.AsError(err).Text())
	}
	if m.ParentID == m.ChildID {
		return problem.Invalid("child_id", "an id other than parent_id", "the same id")
	}
	if !slices.Contains(BirthPaths(), m.BirthPath) {
		return problem.Invalid("birth_path", "D1 to D5", fmt.Sprintf("%.40q", string(m.BirthPath)))
	}
	if m.SchemaVersion != SchemaV1 && m.SchemaVersion != SchemaV2 {
		return problem.Invalid("schema_version", "v1 or v2", fmt.Sprintf("%.40q", string(m.SchemaVersion)))
	}
	switch m.Reachability {
	case ParentOnly, ParentBridged, PublicA2A:
	default:
		return problem.Invalid("endpoint_reachability", "parent-only, parent-bridged or public_a2a", fmt.Sprintf("%.40q", string(m.Reachability)))
	}
	switch m.OutboundPolicy {
	case NoExternal, ParentPermitted, Unrestricted:
	default:
		return problem.Invalid("outbound_policy", "no-external, parent-permitted or unrestricted", fmt.Sprintf("%.40q", string(m.OutboundPolicy)))
	}
	for _, list := range m.toolLists() {
		if len(list.tools) > MaxTools {
			return problem.Invalid(list.key, fmt.Sprintf("at most %d", MaxTools), strconv.Itoa(len(list.tools)))
		}
		for i, tool := range list.tools {
			if len(tool) > MaxToolBytes {
				return problem.Invalid(fmt.Sprintf("%s[%d]", list.key, i), fmt.Sprintf("at most %d bytes", MaxToolBytes), strconv.Itoa(len(tool)))
			}
		}
	}
	return nil
}

type toolList struct {
	key   string
	tools []string
}

func (m *Manifest) toolLists() [3]toolList {
	return [3]toolList{
		{"tool_whitelist_added", m.AddedTools},
		{"tool_whitelist_inherited", m.InheritedTools},
		{"tool_whitelist_removed", m.RemovedTools},
	}
}

// SignedBytes returns the canonical JSON of the fields that m's schema version signs.
func (m *Manifest) SignedBytes() []byte {
	return append(m.appendBeforeTools(nil), m.appendTools(nil)...)
}

func (m *Manifest) appendBeforeTools(dst []byte) []byte {
	dst = canon.AppendString(append(dst, `{"birth_path":`...), string(m.BirthPath))
	dst = m.ChildID.AppendHex(append(dst, `,"child_id":"`...))
	dst = strconv.AppendBool(append(dst, `","closed_by_default":`...), m.ClosedByDefault)
	if m.SchemaVersion != SchemaV1 {
		dst = canon.AppendString(append(dst, `,"endpoint_reachability":`...), string(m.Reachability))
		dst = canon.AppendString(append(dst, `,"outbound_policy":`...), string(m.OutboundPolicy))
	}
	return append(m.ParentID.AppendHex(append(dst, `,"parent_id":"`...)), '"')
}

func (m *Manifest) appendTools(dst []byte) []byte {
	for _, list := range m.toolLists() {
		dst = append(canon.AppendString(append(dst, ','), list.key), ":["...)
		for i, tool := range slices.Sorted(slices.Values(list.tools)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = canon.AppendString(dst, tool)
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

func (m *Manifest) Hash() identity.Hash { return identity.Sum(m.SignedBytes()) }

// SignParent sets the parent's signature. The parties may sign in either order.
func (m *Manifest) SignParent(ctx context.Context, s identity.Signer) error {
	signature, err := m.sign(ctx, s, "parent", m.ParentID)
	if err == nil {
		m.SignatureParent = signature
	}
	return err
}

func (m *Manifest) SignChild(ctx context.Context, s identity.Signer) error {
	signature, err := m.sign(ctx, s, "child", m.ChildID)
	if err == nil {
		m.SignatureChild = signature
	}
	return err
}

func (m *Manifest) sign(ctx context.Context, s identity.Signer, party string, id identity.ID) ([]byte, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	for _, list := range m.toolLists() {
		for i, tool := range list.tools {
			if err := canon.CheckSignedText(fmt.Sprintf("%s[%d]", list.key, i), tool); err != nil {
				return nil, err
			}
		}
	}
	if s.ID() != id {
		return nil, problem.New(problem.Untrusted, "manifest of the %s %s: cannot be signed by %s", party, id.Short(), s.ID().Short())
	}
	return s.Sign(ctx, m.SignedBytes())
}

// Verify returns an error of kind BadSignature unless both parties have signed m. PROTOCOL §12
// fixes the messages and their order.
func (m *Manifest) Verify() error {
	switch {
	case len(m.SignatureParent) == 0:
		return problem.New(problem.BadSignature, "manifest missing parent signature")
	case len(m.SignatureChild) == 0:
		return problem.New(problem.BadSignature, "manifest missing child signature")
	}
	b := m.SignedBytes()
	if !identity.Verify(m.ParentID, b, m.SignatureParent) {
		return problem.New(problem.BadSignature, "manifest parent signature invalid for %s", m.ParentID.Short())
	}
	if !identity.Verify(m.ChildID, b, m.SignatureChild) {
		return problem.New(problem.BadSignature, "manifest child signature invalid for %s", m.ChildID.Short())
	}
	return nil
}
