// Package card implements the capability card (halo), a vacant's signed description of itself
// (PROTOCOL §10). The signed bytes are built from the fields and never copied from a serialised
// card. Parse accepts all cards that Sign signs.
package card

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Version stays 1, because the Python reference implementation accepts only 1 (PROTOCOL §23 C6).
const Version = 1

const MaxBlob = 32 << 10

var ErrUnsupportedVersion = errors.New("unsupported halo version")

type Card struct {
	VacantID          identity.ID
	CapabilityText    string
	AllowedSubstrates []string    // in order of preference
	Policy            canon.Value // object, or the zero Value if empty
	HaloVersion       int64
	Endpoint          string // "" for null on the wire
	Signature         []byte
}

func New(id identity.ID, capability string, substrates []string, endpoint string) (Card, error) {
	c := Card{VacantID: id, CapabilityText: capability, AllowedSubstrates: substrates, HaloVersion: Version, Endpoint: endpoint}
	return c, c.Check()
}

// Check returns an error unless c may be signed. It refuses control characters, because a field
// with 0x1f would have two readings under one signature (PROTOCOL §23 D2). Parse accepts old cards
// with such fields.
func (c *Card) Check() error {
	if c.HaloVersion != Version {
		return unsupportedVersionError(strconv.FormatInt(c.HaloVersion, 10))
	}
	if err := c.VacantID.Check(); err != nil {
		return err
	}
	if err := canon.CheckSignedText("capability_text", c.CapabilityText); err != nil {
		return err
	}
	for i, name := range c.AllowedSubstrates {
		field := fmt.Sprintf("substrate_spec.allowed_substrates[%d]", i)
		if canon.IsBlank(name) {
			return problem.Invalid(field, "a name", "a blank string")
		}
		if err := canon.CheckSignedText(field, name); err != nil {
			return err
		}
	}
	return canon.CheckSignedText("endpoint", c.Endpoint)
}

// AppendSignedBytes appends the signed bytes: id, capability text, substrate specification, version
// and endpoint, joined by 0x1f.
func (c *Card) AppendSignedBytes(dst []byte) []byte {
	const separator = 0x1f
	dst = append(append(dst, c.VacantID[:]...), separator)
	dst = append(append(dst, c.CapabilityText...), separator)
	dst = append(c.appendSubstrateSpec(dst), separator)
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.HaloVersion))
	return append(append(dst, separator), c.Endpoint...)
}

func (c *Card) appendSubstrateSpec(dst []byte) []byte {
	dst = append(dst, `{"allowed_substrates":[`...)
	for i, name := range c.AllowedSubstrates {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = canon.AppendString(dst, name)
	}
	dst = append(dst, `],"policy":`...)
	if c.Policy.Kind() == canon.Object {
		dst = c.Policy.AppendCJ(dst)
	} else {
		dst = append(dst, `{}`...)
	}
	return append(dst, '}')
}

// Hash returns the card hash, which does not cover the signature.
func (c *Card) Hash() identity.Hash { return identity.Sum(c.AppendSignedBytes(nil)) }

// Sign sets c.Signature. The id of s must be c.VacantID.
func (c *Card) Sign(ctx context.Context, s identity.Signer) error {
	if err := c.Check(); err != nil {
		return err
	}
	if s.ID() != c.VacantID {
		return problem.New(problem.Untrusted, "card of %s: cannot be signed by %s", c.VacantID.Short(), s.ID().Short())
	}
	if k := c.Policy.Kind(); k != canon.Object && k != canon.Null {
		return problem.Invalid("substrate_spec.policy", "an object", k.String())
	}
	signedCard := *c
	var err error
	if signedCard.Signature, err = s.Sign(ctx, c.AppendSignedBytes(nil)); err != nil {
		return err
	}
	if _, err := Parse(signedCard.Blob()); err != nil {
		return err
	}
	c.Signature = signedCard.Signature
	return nil
}

func (c *Card) Verify() bool {
	return identity.Verify(c.VacantID, c.AppendSignedBytes(nil), c.Signature)
}

func (c *Card) Blob() []byte { return c.AppendBlob(nil) }

// AppendBlob appends the canonical JSON of c. An empty endpoint becomes null, which has the same
// signed bytes (PROTOCOL §23 D3).
func (c *Card) AppendBlob(dst []byte) []byte {
	dst = canon.AppendString(append(dst, `{"capability_text":`...), c.CapabilityText)
	dst = append(dst, `,"endpoint":`...)
	if c.Endpoint == "" {
		dst = append(dst, `null`...)
	} else {
		dst = canon.AppendString(dst, c.Endpoint)
	}
	dst = strconv.AppendInt(append(dst, `,"halo_version":`...), c.HaloVersion, 10)
	dst = hex.AppendEncode(append(dst, `,"signature":"`...), c.Signature)
	dst = c.appendSubstrateSpec(append(dst, `","substrate_spec":`...))
	dst = c.VacantID.AppendHex(append(dst, `,"vacant_id":"`...))
	return append(dst, `"}`...)
}
