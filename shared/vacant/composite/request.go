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

const graduationIntent = "vacant:graduation:v1"

const (
	MaxCapabilityBytes = 16 << 10
	MaxRequestBytes    = 64 << 10
)

// GraduationRequest asks a host to make a child public (PROTOCOL §13.1). It has neither a nonce nor
// a time, so a host must record requests to detect repeated requests.
type GraduationRequest struct {
	ParentID        identity.ID `json:"parent_id" canon:"required"`
	ChildID         identity.ID `json:"child_id" canon:"required"`
	CapabilityText  string      `json:"capability_text" canon:"required"`
	SignatureParent []byte      `json:"-"`
	SignatureChild  []byte      `json:"-"`
}

func (r *GraduationRequest) Check() error {
	if err := checkParties(r.ParentID, r.ChildID); err != nil {
		return err
	}
	if len(r.CapabilityText) > MaxCapabilityBytes {
		return problem.Invalid("capability_text", fmt.Sprintf("at most %d bytes", MaxCapabilityBytes), strconv.Itoa(len(r.CapabilityText)))
	}
	return nil
}

func checkParties(parent, child identity.ID) error {
	if err := parent.Check(); err != nil {
		return withField("parent_id", err)
	}
	if err := child.Check(); err != nil {
		return withField("child_id", err)
	}
	if parent == child {
		return problem.Invalid("child_id", "an id other than parent_id", "the same id")
	}
	return nil
}

func (r *GraduationRequest) SignedBytes() []byte { return append(r.appendMembers(nil), '}') }

func (r *GraduationRequest) appendMembers(dst []byte) []byte {
	dst = canon.AppendString(append(dst, `{"capability_text":`...), r.CapabilityText)
	dst = r.ChildID.AppendHex(append(dst, `,"child_id":"`...))
	dst = append(dst, `","intent":"`+graduationIntent+`","parent_id":"`...)
	return append(r.ParentID.AppendHex(dst), '"')
}

func (r *GraduationRequest) Hash() identity.Hash { return identity.Sum(r.SignedBytes()) }

func (r *GraduationRequest) SignParent(ctx context.Context, s identity.Signer) error {
	signature, err := r.sign(ctx, s, "parent", r.ParentID)
	if err == nil {
		r.SignatureParent = signature
	}
	return err
}

func (r *GraduationRequest) SignChild(ctx context.Context, s identity.Signer) error {
	signature, err := r.sign(ctx, s, "child", r.ChildID)
	if err == nil {
		r.SignatureChild = signature
	}
	return err
}

func (r *GraduationRequest) sign(ctx context.Context, s identity.Signer, party string, id identity.ID) ([]byte, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	if err := canon.CheckSignedText("capability_text", r.CapabilityText); err != nil {
		return nil, err
	}
	if s.ID() != id {
		return nil, problem.New(problem.Untrusted, "graduation request of the %s %s: cannot be signed by %s", party, id.Short(), s.ID().Short())
	}
	return s.Sign(ctx, r.SignedBytes())
}

func (r *GraduationRequest) Verify() error {
	b := r.SignedBytes()
	if !identity.Verify(r.ParentID, b, r.SignatureParent) || !identity.Verify(r.ChildID, b, r.SignatureChild) {
		return problem.New(problem.ConsentRequired, "graduation request signatures did not verify")
	}
	return nil
}

func (r *GraduationRequest) Blob() []byte {
	dst := hex.AppendEncode(append(r.appendMembers(nil), `,"signature_child":"`...), r.SignatureChild)
	dst = hex.AppendEncode(append(dst, `","signature_parent":"`...), r.SignatureParent)
	return append(dst, `"}`...)
}

// ParseGraduationRequest does not check the signatures. Unknown members are refused, because the
// signatures do not cover them.
func ParseGraduationRequest(blob []byte) (GraduationRequest, error) {
	var doc struct {
		GraduationRequest
		Intent          string             `json:"intent" canon:"required"`
		SignatureParent identity.Signature `json:"signature_parent"`
		SignatureChild  identity.Signature `json:"signature_child"`
	}
	err := canon.UnmarshalSigned("graduation request", blob, &doc, MaxRequestBytes)
	if problem.Is(err, problem.NotJSON) {
		// NotJSON would mean that the HTTP body is not JSON, but the request is only a part of the body.
		err = problem.WithPlace(problem.Malformed, "request", err)
	}
	if err != nil {
		return GraduationRequest{}, err
	}
	r := doc.GraduationRequest
	r.SignatureParent, r.SignatureChild = doc.SignatureParent, doc.SignatureChild
	if err := checkDocument("graduation request", doc.Intent, graduationIntent, r.Check); err != nil {
		return GraduationRequest{}, err
	}
	return r, nil
}
