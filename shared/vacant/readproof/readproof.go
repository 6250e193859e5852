// Package readproof authenticates readers: a header in which a vacant signs one
// request, so that what is for it or its parent is shown to nobody else. The
// reference uses a query parameter instead, which anybody can forge.
//
// Invariants: a proof is valid for one method, one target with its query, one
// authority (host and port, so that a host cannot pass on a proof made for it)
// and a few minutes; a header has exactly one form.
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

// Header is the name of the header: <id hex>;t=<unix seconds>;sig=<hex>.
const Header = "Vacancy-Caller"

// Skew is the largest difference between a proof's time and the host's clock.
// Within it, an observed proof can be replayed for the same page.
const Skew = 300 * time.Second

// domain separates these signed bytes from all others of a vacant.
const domain = "vacancy:read:v1"

// bodyDomain is the domain of requests with a body, whose hash follows the time.
const bodyDomain = "vacancy:request:v1"

// Request is the request that a proof is for.
type Request struct {
	Authority string // host[:port] of the requested URL, in any case
	Method    string
	Target    string // path and query as sent
	Body      []byte // nil or empty: none
}

// Proof is a parsed header.
type Proof struct {
	ID        identity.ID
	Time      time.Time // whole seconds
	Signature []byte
}

// Sign returns the header's value.
func Sign(ctx context.Context, s identity.Signer, r Request, now time.Time) (string, error) {
	if !r.plain() {
		return "", problem.Invalid("request", "a method and an address without control characters", "another")
	}
	p := Proof{ID: s.ID(), Time: time.Unix(now.Unix(), 0).UTC()}
	sig, err := s.Sign(ctx, r.signed(p.Time))
	if err != nil {
		return "", err
	}
	p.Signature = sig
	return p.String(), nil
}

// String returns the header's value.
func (p Proof) String() string {
	return p.ID.String() + ";t=" + strconv.FormatInt(p.Time.Unix(), 10) + ";sig=" + hex.EncodeToString(p.Signature)
}

// Parse parses a header's value without verifying it.
func Parse(value string) (Proof, error) {
	wrong := &problem.Error{Kind: problem.Malformed, Field: Header, Want: "<id hex>;t=<unix seconds>;sig=<128 hex digits>"}
	const room = 2*identity.Size + len(";t=") + 20 + len(";sig=") + 2*identity.SignatureSize
	if len(value) > room {
		return Proof{}, wrong
	}
	parts := strings.Split(value, ";")
	if len(parts) != 3 || !strings.HasPrefix(parts[1], "t=") || !strings.HasPrefix(parts[2], "sig=") {
		return Proof{}, wrong
	}
	id, err := identity.ParseID(parts[0])
	if err != nil {
		return Proof{}, wrong
	}
	at, err := strconv.ParseInt(parts[1][len("t="):], 10, 64)
	if err != nil {
		return Proof{}, wrong
	}
	sig, err := hex.DecodeString(parts[2][len("sig="):])
	if err != nil || len(sig) != identity.SignatureSize {
		return Proof{}, wrong
	}
	p := Proof{ID: id, Time: time.Unix(at, 0).UTC(), Signature: sig}
	if p.String() != value { // refuses upper case, a sign, leading zeros and white space
		return Proof{}, wrong
	}
	return p, nil
}

// Verify returns nil if p was made for r within Skew of now, or a problem of
// kind Clock or BadSignature.
func (p Proof) Verify(r Request, now time.Time) error {
	if off := p.Time.Sub(now); off > Skew || off < -Skew {
		return problem.New(problem.Clock, "%s: expected a time within %d s of the host's, which is %d, got %d",
			Header, int(Skew.Seconds()), now.Unix(), p.Time.Unix())
	}
	if !r.plain() || !identity.Verify(p.ID, r.signed(p.Time), p.Signature) {
		return problem.New(problem.BadSignature, "%s: signature did not verify", Header)
	}
	return nil
}

// plain reports whether no part contains the separator.
func (r Request) plain() bool {
	control := func(c rune) bool { return c < 0x20 || c == 0x7f }
	return !strings.ContainsFunc(r.Authority, control) && !strings.ContainsFunc(r.Method, control) && !strings.ContainsFunc(r.Target, control)
}

func (r Request) signed(at time.Time) []byte {
	parts := []string{domain, strings.ToLower(r.Authority), r.Method, r.Target, strconv.FormatInt(at.Unix(), 10)}
	if len(r.Body) > 0 {
		parts[0] = bodyDomain
		parts = append(parts, identity.Sum(r.Body).String())
	}
	return []byte(strings.Join(parts, "\x1f"))
}
