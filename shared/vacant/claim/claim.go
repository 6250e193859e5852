// Package claim is the signed statement of a vacant that an account of a host pays for
// its calls.
//
// The invariant: the signed bytes begin with a tag of their own and name the host, the
// account, the day's cap and the time, so that a claim counts at one host, for one
// account, and for a few minutes.
package claim

import (
	"context"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Skew is the largest difference between a claim's time and the host's clock.
const Skew = 300 * time.Second

// domain separates these signed bytes from all others of a vacant.
const domain = "vacancy:claim:v1"

// Claim is a vacant's signed statement. Account is the id of the account that pays for
// its calls, in hex; "" ends the vacant's link, even if another account pays now. Cap is
// in micro-dollars a UTC day; 0 means no cap.
type Claim struct {
	Vacant    identity.ID
	Host      identity.ID
	Account   string
	Cap       int64
	Time      time.Time // whole microseconds
	Signature []byte
}

// Sign signs c at a time.
func (c *Claim) Sign(ctx context.Context, s identity.Signer, now time.Time) error {
	c.Vacant, c.Time = s.ID(), now.UTC().Truncate(time.Microsecond)
	signature, err := s.Sign(ctx, c.signed())
	c.Signature = signature
	return err
}

// Verify returns nil if c was signed by its vacant for a host within Skew of now.
func (c *Claim) Verify(host identity.ID, now time.Time) error {
	if off := c.Time.Sub(now); off > Skew || off < -Skew {
		return problem.New(problem.Clock, "claim: expected a time within %d s of the host's, which is %s, got %s", int(Skew.Seconds()), canon.FormatTime(now), canon.FormatTime(c.Time))
	}
	if c.Host != host {
		return problem.Invalid("claim", "one for this host, "+host.Short(), "one for "+c.Host.Short())
	}
	if !identity.Verify(c.Vacant, c.signed(), c.Signature) {
		return problem.New(problem.BadSignature, "claim: signature did not verify for %s", c.Vacant.Short())
	}
	return nil
}

func (c *Claim) signed() []byte {
	return []byte(strings.Join([]string{domain, c.Host.String(), c.Vacant.String(), c.Account, strconv.FormatInt(c.Cap, 10), strconv.FormatInt(c.Time.UnixMicro(), 10)}, "\x1f"))
}

// String is the one text form: fields and signature, separated by dots.
func (c *Claim) String() string {
	return strings.Join([]string{
		c.Vacant.String(), c.Host.String(), c.Account, strconv.FormatInt(c.Cap, 10), strconv.FormatInt(c.Time.UnixMicro(), 10),
		base64.RawURLEncoding.EncodeToString(c.Signature),
	}, ".")
}

// Parse parses the text form without verifying it.
func Parse(text string) (c Claim, err error) {
	wrong := problem.Invalid("claim", "VACANT.HOST.ACCOUNT.CAP.TIME.SIGNATURE, as vacancy account claim prints it", "another text")
	parts := strings.Split(text, ".")
	if len(text) > 512 || len(parts) != 6 {
		return c, wrong
	}
	if c.Vacant, err = identity.ParseID(parts[0]); err != nil {
		return c, wrong
	}
	if c.Host, err = identity.ParseID(parts[1]); err != nil {
		return c, wrong
	}
	c.Account = parts[2]
	if c.Account != "" {
		if b, err := identity.ParseHex(c.Account); err != nil || len(b) != 32 {
			return c, wrong
		}
	}
	if c.Cap, err = strconv.ParseInt(parts[3], 10, 64); err != nil || c.Cap < 0 {
		return c, wrong
	}
	at, err := strconv.ParseInt(parts[4], 10, 64)
	if err != nil {
		return c, wrong
	}
	c.Time = time.UnixMicro(at).UTC()
	if c.Signature, err = base64.RawURLEncoding.Strict().DecodeString(parts[5]); err != nil || len(c.Signature) != identity.SignatureSize {
		return c, wrong
	}
	if c.String() != text { // refuses upper case, signs and leading zeros
		return c, wrong
	}
	return c, nil
}
