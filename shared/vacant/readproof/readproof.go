// Package readproof authenticates readers: a vacant proves with a signature in a header that it
// sends a request. A proof is valid for one method, one target, one authority and a few minutes.
// The authority prevents a host from replaying a proof at another host.
package readproof

import (
	"context"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Header has the value <id hex>;t=<unix seconds>;sig=<hex>.
const Header = "Vacancy-Caller"

// MaxSkew limits the difference between a proof's time and the host's clock. Within this time, an
// observer can replay the proof.
const MaxSkew = 300 * time.Second

// domainTag separates read proofs from other signed bytes.
const domainTag = "vacancy:read:v1"

// bodyDomainTag is for requests with a body. Their signed bytes end with the hash of the body.
const bodyDomainTag = "vacancy:request:v1"

type Request struct {
	Authority string
	Method    string
	Target    string // path and query, as sent
	Body      []byte
}

type Proof struct {
	ID        identity.ID
	Time      time.Time
	Signature []byte
}

func Sign(ctx context.Context, s identity.Signer, r Request, now time.Time) (string, error) {
	if !r.hasNoControlCharacters() {
		return "", problem.Invalid("request", "a method and an address without control characters", "control characters")
	}
	p := Proof{ID: s.ID(), Time: time.Unix(now.Unix(), 0).UTC()}
	sig, err := s.Sign(ctx, r.signedBytes(p.Time))
	if err != nil {
		return "", err
	}
	p.Signature = sig
	return p.String(), nil
}

func (p Proof) String() string {
	return p.ID.String() + ";t=" + strconv.FormatInt(p.Time.Unix(), 10) + ";sig=" + hex.EncodeToString(p.Signature)
}

func Parse(value string) (Proof, error) {
	formatErr := &problem.Error{Kind: problem.Malformed, Field: Header, Want: "<id hex>;t=<unix seconds>;sig=<128 hex digits>"}
	const maxLen = 2*identity.Size + len(";t=") + 20 + len(";sig=") + 2*identity.SignatureSize
	if len(value) > maxLen {
		return Proof{}, formatErr
	}
	parts := strings.Split(value, ";")
	if len(parts) != 3 || !strings.HasPrefix(parts[1], "t=") || !strings.HasPrefix(parts[2], "sig=") {
		return Proof{}, formatErr
	}
	id, err := identity.ParseID(parts[0])
	if err != nil {
		return Proof{}, formatErr
	}
	seconds, err := strconv.ParseInt(parts[1][len("t="):], 10, 64)
	if err != nil {
		return Proof{}, formatErr
	}
	sig, err := hex.DecodeString(parts[2][len("sig="):])
	if err != nil || len(sig) != identity.SignatureSize {
		return Proof{}, formatErr
	}
	p := Proof{ID: id, Time: time.Unix(seconds, 0).UTC(), Signature: sig}
	if p.String() != value { // refuses other spellings
		return Proof{}, formatErr
	}
	return p, nil
}

// Verify returns an error unless p was signed for r within MaxSkew of now.
func (p Proof) Verify(r Request, now time.Time) error {
	if skew := p.Time.Sub(now); skew > MaxSkew || skew < -MaxSkew {
		return problem.New(problem.ClockSkew, "%s: expected a time within %d s of the host's, which is %d, got %d",
			Header, int(MaxSkew.Seconds()), now.Unix(), p.Time.Unix())
	}
	if !r.hasNoControlCharacters() || !identity.Verify(p.ID, r.signedBytes(p.Time), p.Signature) {
		return problem.New(problem.BadSignature, "%s: signature did not verify", Header)
	}
	return nil
}

func (r Request) hasNoControlCharacters() bool {
	// The separator of the signed parts, 0x1f, is a control character.
	isControl := func(c rune) bool { return c < 0x20 || c == 0x7f }
	return !strings.ContainsFunc(r.Authority, isControl) && !strings.ContainsFunc(r.Method, isControl) && !strings.ContainsFunc(r.Target, isControl)
}

func (r Request) signedBytes(signedAt time.Time) []byte {
	parts := []string{domainTag, strings.ToLower(r.Authority), r.Method, r.Target, strconv.FormatInt(signedAt.Unix(), 10)}
	if len(r.Body) > 0 {
		parts[0] = bodyDomainTag
		parts = append(parts, identity.Sum(r.Body).String())
	}
	return []byte(strings.Join(parts, "\x1f"))
}
