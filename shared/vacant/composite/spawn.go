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

// spawnIntent is the intent in the signed bytes of a SpawnRequest.
const spawnIntent = "vacancy:spawn:v1"

// SpawnRequest asks a host to create a child. Only the parent signs it, because the host creates
// the child's key. The nonce and the time let the host refuse repeated and old requests.
type SpawnRequest struct {
	ParentID    identity.ID  `json:"parent_id" canon:"required"`
	Path        BirthPath    `json:"path" canon:"required"`
	Name        string       `json:"name" canon:"required"`  // the host appends the start of the parent's id
	Capability  string       `json:"capability"`             // the parent's capability if empty
	Substrate   string       `json:"substrate"`              // the parent's substrate if empty
	Tools       []string     `json:"tools"`                  // tools of the parent that the child keeps (D2)
	Rule        string       `json:"rule"`                   // rule added to the child's policy (D1)
	SecondaryID *identity.ID `json:"-"`                      // second parent (D4)
	Reach       Reachability `json:"reach"`                  // the path's default if empty
	Outbound    Outbound     `json:"outbound"`               // the path's default if empty
	Nonce       string       `json:"nonce" canon:"required"` // NonceSize bytes in lowercase hex
	Time        time.Time    `json:"-"`                      // UTC, whole microseconds
	Signature   []byte       `json:"-"`
}

// Check returns an error that names the wrong field unless the members of r are well-formed. The host
// must check which members the birth path allows, and which substrates are allowed.
func (r *SpawnRequest) Check() error {
	if err := r.ParentID.Check(); err != nil {
		return withField("parent_id", err)
	}
	if !slices.Contains(BirthPaths(), r.Path) {
		return problem.Invalid("path", "D1 to D5", fmt.Sprintf("%.40q", string(r.Path)))
	}
	if r.SecondaryID != nil {
		if err := r.SecondaryID.Check(); err != nil {
			return withField("with", err)
		}
	}
	for _, text := range []struct{ field, text string }{
		{"name", r.Name}, {"capability", r.Capability}, {"substrate", r.Substrate}, {"rule", r.Rule},
		{"reach", string(r.Reach)}, {"outbound", string(r.Outbound)},
	} {
		if len(text.text) > MaxCapability {
			return problem.Invalid(text.field, fmt.Sprintf("at most %d bytes", MaxCapability), strconv.Itoa(len(text.text)))
		}
		if err := canon.CheckSignedText(text.field, text.text); err != nil {
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
	if y := r.Time.Year(); y < 1 || y > 9999 {
		return problem.Invalid("ts", "a time in the years 1 to 9999", "another year")
	}
	return checkNonce(r.Nonce)
}

func (r *SpawnRequest) SigningBytes() []byte { return canon.NewObject(r.members()...).AppendCJ(nil) }

func (r *SpawnRequest) members() []canon.Member {
	// Empty members are also signed.
	text := func(key, s string) canon.Member { return canon.Member{Key: key, Value: canon.NewString(s)} }
	with := ""
	if r.SecondaryID != nil {
		with = r.SecondaryID.String()
	}
	tools := make([]canon.Value, len(r.Tools))
	for i, tool := range r.Tools {
		tools[i] = canon.NewString(tool)
	}
	return []canon.Member{
		text("capability", r.Capability), text("intent", spawnIntent), text("name", r.Name), text("nonce", r.Nonce),
		text("outbound", string(r.Outbound)), text("parent_id", r.ParentID.String()), text("path", string(r.Path)),
		text("reach", string(r.Reach)), text("rule", r.Rule), text("substrate", r.Substrate),
		{Key: "tools", Value: canon.NewArray(tools...)}, text("ts", canon.FormatTime(r.Time)), text("with", with),
	}
}

func (r *SpawnRequest) Hash() identity.Hash { return identity.Sum(r.SigningBytes()) }

func (r *SpawnRequest) Sign(ctx context.Context, s identity.Signer) error {
	signed := *r
	signed.Time = r.Time.UTC().Truncate(time.Microsecond)
	if err := signed.Check(); err != nil {
		return err
	}
	if s.ID() != r.ParentID {
		return problem.New(problem.Untrusted, "spawn request of the parent %s: cannot be signed by %s", r.ParentID.Short(), s.ID().Short())
	}
	signature, err := s.Sign(ctx, signed.SigningBytes())
	if err != nil {
		return err
	}
	signed.Signature = signature
	if n := len(signed.Blob()); n > MaxRequest {
		return &problem.Error{Kind: problem.TooLarge, Field: "spawn request", Want: fmt.Sprintf("at most %d bytes", MaxRequest), Got: strconv.Itoa(n)}
	}
	*r = signed
	return nil
}

// Verify returns an error of kind BadSignature unless the parent has signed r. The host must check
// the time.
func (r *SpawnRequest) Verify() error {
	if !identity.Verify(r.ParentID, r.SigningBytes(), r.Signature) {
		return problem.New(problem.BadSignature, "spawn request of %s: signature did not verify", r.ParentID.Short())
	}
	return nil
}

func (r *SpawnRequest) Blob() []byte {
	members := append(r.members(), canon.Member{Key: "signature", Value: canon.NewString(hex.EncodeToString(r.Signature))})
	return canon.NewObject(members...).AppendCJ(nil)
}

// ParseSpawnRequest parses a serialised request and checks its form, but not its signature. A
// missing optional member is empty. Unknown members are refused, because the signature does not
// cover them. Errors have kind Malformed, NotJSON or TooLarge and name the field.
func ParseSpawnRequest(blob []byte) (SpawnRequest, error) {
	var shape struct {
		SpawnRequest
		With      optionalID         `json:"with"`
		Time      signedTime         `json:"ts" canon:"required"`
		Intent    string             `json:"intent" canon:"required"`
		Signature identity.Signature `json:"signature"`
	}
	if err := canon.UnmarshalSigned("spawn request", blob, &shape, MaxRequest); err != nil {
		return SpawnRequest{}, err
	}
	r := shape.SpawnRequest
	r.SecondaryID, r.Time, r.Signature = shape.With.ID, shape.Time.Time, shape.Signature
	r.Tools = nilIfEmpty(r.Tools)
	if err := checkSigned("spawn request", shape.Intent, spawnIntent, r.Check); err != nil {
		return SpawnRequest{}, err
	}
	return r, nil
}

// optionalID is an id that may be nil. The text form of nil is "".
type optionalID struct{ *identity.ID }

func (o *optionalID) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	o.ID = new(identity.ID)
	return o.ID.UnmarshalText(b)
}

// signedTime is a time that canon.ParseTime parses.
type signedTime struct{ time.Time }

func (t *signedTime) UnmarshalText(b []byte) (err error) {
	t.Time, err = canon.ParseTime(string(b))
	return err
}
