package composite

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// graduation is the intent in the signed bytes of a Request.
const graduation = "vacant:graduation:v1"

// The limits of a request. The capability text must fit into a card and a logbook entry.
const (
	MaxCapability = 16 << 10 // bytes
	MaxRequest    = 64 << 10 // bytes
)

// Request requests that a child becomes public. Parent and child both sign it, together with the
// capability text of the child's new card (PROTOCOL §13.1). It has neither a nonce nor a time, so a
// host that receives requests must record them.
type Request struct {
	ParentID        identity.ID `json:"parent_id" canon:"required"`
	ChildID         identity.ID `json:"child_id" canon:"required"`
	CapabilityText  string      `json:"capability_text" canon:"required"`
	SignatureParent []byte      `json:"-"`
	SignatureChild  []byte      `json:"-"`
}

func (r *Request) Check() error {
	if err := checkParties(r.ParentID, r.ChildID); err != nil {
		return err
	}
	if len(r.CapabilityText) > MaxCapability {
		return problem.Invalid("capability_text", fmt.Sprintf("at most %d bytes", MaxCapability), strconv.Itoa(len(r.CapabilityText)))
	}
	return nil
}

func checkParties(parent, child identity.ID) error {
	if err := parent.Check(); err != nil {
		return inMember("parent_id", err)
	}
	if err := child.Check(); err != nil {
		return inMember("child_id", err)
	}
	if parent == child {
		return problem.Invalid("child_id", "an id other than parent_id", "the same id")
	}
	return nil
}

func (r *Request) SigningBytes() []byte { return append(r.appendSigned(nil), '}') }

func (r *Request) appendSigned(dst []byte) []byte {
	dst = canon.AppendString(append(dst, `{"capability_text":`...), r.CapabilityText)
	dst = r.ChildID.AppendHex(append(dst, `,"child_id":"`...))
	dst = append(dst, `","intent":"`+graduation+`","parent_id":"`...)
	return append(r.ParentID.AppendHex(dst), '"')
}

func (r *Request) Hash() identity.Hash { return identity.Sum(r.SigningBytes()) }

func (r *Request) SignParent(ctx context.Context, s identity.Signer) error {
	signature, err := r.sign(ctx, s, "parent", r.ParentID)
	if err == nil {
		r.SignatureParent = signature
	}
	return err
}

func (r *Request) SignChild(ctx context.Context, s identity.Signer) error {
	signature, err := r.sign(ctx, s, "child", r.ChildID)
	if err == nil {
		r.SignatureChild = signature
	}
	return err
}

func (r *Request) sign(ctx context.Context, s identity.Signer, party string, id identity.ID) ([]byte, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	if err := canon.CheckText("capability_text", r.CapabilityText); err != nil {
		return nil, err
	}
	if s.ID() != id {
		return nil, problem.New(problem.Untrusted, "graduation request of the %s %s: cannot be signed by %s", party, id.Short(), s.ID().Short())
	}
	return s.Sign(ctx, r.SigningBytes())
}

func (r *Request) Verify() error {
	b := r.SigningBytes()
	if !identity.Verify(r.ParentID, b, r.SignatureParent) || !identity.Verify(r.ChildID, b, r.SignatureChild) {
		return problem.New(problem.Consent, "graduation request signatures did not verify")
	}
	return nil
}

func (r *Request) Blob() []byte {
	dst := hex.AppendEncode(append(r.appendSigned(nil), `,"signature_child":"`...), r.SignatureChild)
	dst = hex.AppendEncode(append(dst, `","signature_parent":"`...), r.SignatureParent)
	return append(dst, `"}`...)
}

// ParseRequest parses a serialised request and checks its form, but not its signatures, which may
// be missing. Unknown members are refused, because the signatures do not cover them. Errors have
// kind Malformed or TooLarge and name the field.
func ParseRequest(blob []byte) (Request, error) {
	var shape struct {
		Request
		Intent          string             `json:"intent" canon:"required"`
		SignatureParent identity.Signature `json:"signature_parent"`
		SignatureChild  identity.Signature `json:"signature_child"`
	}
	err := canon.UnmarshalSigned("graduation request", blob, &shape, MaxRequest)
	if problem.Is(err, problem.NotJSON) {
		// A request is part of another document, so its syntax errors have kind Malformed.
		err = problem.Within(problem.Malformed, "request", err)
	}
	if err != nil {
		return Request{}, err
	}
	r := shape.Request
	r.SignatureParent, r.SignatureChild = shape.SignatureParent, shape.SignatureChild
	if err := checkSigned("graduation request", shape.Intent, graduation, r.Check); err != nil {
		return Request{}, err
	}
	return r, nil
}
