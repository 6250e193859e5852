package composite

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const spawnIntent = "vacancy:spawn:v1"

// SpawnRequest asks a host to create a child. Only the parent signs it, because the host creates
// the child's key. Nonce and time let the host refuse repeated and old requests.
type SpawnRequest struct {
	ParentID       identity.ID    `json:"parent_id" canon:"required"`
	BirthPath      BirthPath      `json:"path" canon:"required"`
	Name           string         `json:"name" canon:"required"` // the host adds the start of the parent's id
	Capability     string         `json:"capability"`            // the parent's if empty
	Substrate      string         `json:"substrate"`             // the parent's if empty
	Tools          []string       `json:"tools"`                 // D2
	Rule           string         `json:"rule"`                  // D1
	SecondParentID *identity.ID   `json:"-"`                     // D4
	Reachability   Reachability   `json:"reach"`                 // the path's default if empty
	OutboundPolicy OutboundPolicy `json:"outbound"`
	Nonce          string         `json:"nonce" canon:"required"` // lowercase hex
	Time           time.Time      `json:"-"`
	Signature      []byte         `json:"-"`
}

// Check returns an error if a member of r is malformed.
func (r *SpawnRequest) Check() error {
	if err := r.ParentID.Check(); err != nil {
		return withField("parent_id", err)
	}
	if !slices.Contains(BirthPaths(), r.BirthPath) {
		return problem.Invalid("path", "D1 to D5", fmt.Sprintf("%.40q", string(r.BirthPath)))
	}
	if r.SecondParentID != nil {
		if err := r.SecondParentID.Check(); err != nil {
			return withField("with", err)
		}
	}
	for _, member := range []struct{ field, text string }{
		{"name", r.Name}, {"capability", r.Capability}, {"substrate", r.Substrate}, {"rule", r.Rule},
		{"reach", string(r.Reachability)}, {"outbound", string(r.OutboundPolicy)},
	} {
		if len(member.text) > MaxCapabilityBytes {
			return problem.Invalid(member.field, fmt.Sprintf("at most %d bytes", MaxCapabilityBytes), strconv.Itoa(len(member.text)))
		}
		if err := canon.CheckSignedText(member.field, member.text); err != nil {
			return err
		}
	}
	if len(r.Tools) > MaxTools {
		return problem.Invalid("tools", fmt.Sprintf("at most %d", MaxTools), strconv.Itoa(len(r.Tools)))
	}
	for i, tool := range r.Tools {
		field := fmt.Sprintf("tools[%d]", i)
		if len(tool) > MaxToolBytes {
			return problem.Invalid(field, fmt.Sprintf("at most %d bytes", MaxToolBytes), strconv.Itoa(len(tool)))
		}
		if err := canon.CheckSignedText(field, tool); err != nil {
			return err
		}
	}
	if year := r.Time.Year(); year < 1 || year > 9999 {
		return problem.Invalid("ts", "a time in the years 1 to 9999", "another year")
	}
	return checkNonce(r.Nonce)
}

func (r *SpawnRequest) SignedBytes() []byte { return canon.NewObject(r.members()...).AppendCJ(nil) }

func (r *SpawnRequest) members() []canon.Member {
	// Empty members are also signed.
	stringMember := func(key, s string) canon.Member { return canon.Member{Key: key, Value: canon.NewString(s)} }
	secondParent := ""
	if r.SecondParentID != nil {
		secondParent = r.SecondParentID.String()
	}
	tools := make([]canon.Value, len(r.Tools))
	for i, tool := range r.Tools {
		tools[i] = canon.NewString(tool)
	}
	return []canon.Member{
		stringMember("capability", r.Capability), stringMember("intent", spawnIntent), stringMember("name", r.Name), stringMember("nonce", r.Nonce),
		stringMember("outbound", string(r.OutboundPolicy)), stringMember("parent_id", r.ParentID.String()), stringMember("path", string(r.BirthPath)),
		stringMember("reach", string(r.Reachability)), stringMember("rule", r.Rule), stringMember("substrate", r.Substrate),
		{Key: "tools", Value: canon.NewArray(tools...)}, stringMember("ts", canon.FormatTime(r.Time)), stringMember("with", secondParent),
	}
}

func (r *SpawnRequest) Hash() identity.Hash { return identity.Sum(r.SignedBytes()) }

func (r *SpawnRequest) Sign(ctx context.Context, s identity.Signer) error {
	signedRequest := *r
	signedRequest.Time = r.Time.UTC().Truncate(time.Microsecond)
	if err := signedRequest.Check(); err != nil {
		return err
	}
	if s.ID() != r.ParentID {
		return problem.New(problem.Untrusted, "spawn request of the parent %s: cannot be signed by %s", r.ParentID.Short(), s.ID().Short())
	}
	signature, err := s.Sign(ctx, signedRequest.SignedBytes())
	if err != nil {
		return err
	}
	signedRequest.Signature = signature
	if n := len(signedRequest.Blob()); n > MaxRequestBytes {
		return &problem.Error{Kind: problem.TooLarge, Field: "spawn request", Want: fmt.Sprintf("at most %d bytes", MaxRequestBytes), Got: strconv.Itoa(n)}
	}
	*r = signedRequest
	return nil
}

// Verify checks the signature. The host must check the time.
func (r *SpawnRequest) Verify() error {
	if !identity.Verify(r.ParentID, r.SignedBytes(), r.Signature) {
		return problem.New(problem.BadSignature, "spawn request of %s: signature did not verify", r.ParentID.Short())
	}
	return nil
}

func (r *SpawnRequest) Blob() []byte {
	members := append(r.members(), canon.Member{Key: "signature", Value: canon.NewString(hex.EncodeToString(r.Signature))})
	return canon.NewObject(members...).AppendCJ(nil)
}

// ParseSpawnRequest does not check the signature. Unknown members are refused, because the
// signature does not cover them.
func ParseSpawnRequest(blob []byte) (SpawnRequest, error) {
	var doc struct {
		SpawnRequest
		With      optionalID         `json:"with"`
		Time      canonTime          `json:"ts" canon:"required"`
		Intent    string             `json:"intent" canon:"required"`
		Signature identity.Signature `json:"signature"`
	}
	if err := canon.UnmarshalSigned("spawn request", blob, &doc, MaxRequestBytes); err != nil {
		return SpawnRequest{}, err
	}
	r := doc.SpawnRequest
	r.SecondParentID, r.Time, r.Signature = doc.With.ID, doc.Time.Time, doc.Signature
	r.Tools = nilIfEmpty(r.Tools)
	if err := checkDocument("spawn request", doc.Intent, spawnIntent, r.Check); err != nil {
		return SpawnRequest{}, err
	}
	return r, nil
}

type optionalID struct{ *identity.ID }

func (o *optionalID) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	o.ID = new(identity.ID)
	return o.ID.UnmarshalText(b)
}

type canonTime struct{ time.Time }

func (t *canonTime) UnmarshalText(b []byte) (err error) {
	t.Time, err = canon.ParseTime(string(b))
	return err
}
