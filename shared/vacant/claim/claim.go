// Package claim implements a vacant's signed statement that an account of a host pays for the
// vacant's calls. A claim is valid only at one host and for a few minutes.
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

// MaxSkew limits the difference between a claim's time and the host's clock.
const MaxSkew = 300 * time.Second

// domainTag separates claims from other signed bytes.
const domainTag = "vacancy:claim:v1"

type PaymentClaim struct {
	Vacant    identity.ID
	Host      identity.ID
	Account   string // id in hex, or "" to unlink the vacant
	DailyCap  int64  // micro-dollars per UTC day, or 0 for no cap
	Time      time.Time
	Signature []byte
}

func (c *PaymentClaim) Sign(ctx context.Context, s identity.Signer, now time.Time) error {
	c.Vacant, c.Time = s.ID(), now.UTC().Truncate(time.Microsecond)
	signature, err := s.Sign(ctx, c.signedBytes())
	c.Signature = signature
	return err
}

func (c *PaymentClaim) Verify(host identity.ID, now time.Time) error {
	if skew := c.Time.Sub(now); skew > MaxSkew || skew < -MaxSkew {
		return problem.New(problem.ClockSkew, "claim: expected a time within %d s of the host's, which is %s, got %s", int(MaxSkew.Seconds()), canon.FormatTime(now), canon.FormatTime(c.Time))
	}
	if c.Host != host {
		return problem.Invalid("claim", "a claim for this host, "+host.Short(), "a claim for host "+c.Host.Short())
	}
	if !identity.Verify(c.Vacant, c.signedBytes(), c.Signature) {
		return problem.New(problem.BadSignature, "claim: signature did not verify for %s", c.Vacant.Short())
	}
	return nil
}

func (c *PaymentClaim) signedBytes() []byte {
	return []byte(strings.Join([]string{domainTag, c.Host.String(), c.Vacant.String(), c.Account, strconv.FormatInt(c.DailyCap, 10), strconv.FormatInt(c.Time.UnixMicro(), 10)}, "\x1f"))
}

func (c *PaymentClaim) String() string {
	return strings.Join([]string{
		c.Vacant.String(), c.Host.String(), c.Account, strconv.FormatInt(c.DailyCap, 10), strconv.FormatInt(c.Time.UnixMicro(), 10),
		base64.RawURLEncoding.EncodeToString(c.Signature),
	}, ".")
}

func Parse(text string) (c PaymentClaim, err error) {
	formatErr := problem.Invalid("claim", "VACANT.HOST.ACCOUNT.CAP.TIME.SIGNATURE, as vacancy account claim prints it", "another text")
	parts := strings.Split(text, ".")
	if len(text) > 512 || len(parts) != 6 {
		return c, formatErr
	}
	if c.Vacant, err = identity.ParseID(parts[0]); err != nil {
		return c, formatErr
	}
	if c.Host, err = identity.ParseID(parts[1]); err != nil {
		return c, formatErr
	}
	c.Account = parts[2]
	if c.Account != "" {
		if b, err := identity.ParseHex(c.Account); err != nil || len(b) != 32 {
			return c, formatErr
		}
	}
	if c.DailyCap, err = strconv.ParseInt(parts[3], 10, 64); err != nil || c.DailyCap < 0 {
		return c, formatErr
	}
	micros, err := strconv.ParseInt(parts[4], 10, 64)
	if err != nil {
		return c, formatErr
	}
	c.Time = time.UnixMicro(micros).UTC()
	if c.Signature, err = base64.RawURLEncoding.Strict().DecodeString(parts[5]); err != nil || len(c.Signature) != identity.SignatureSize {
		return c, formatErr
	}
	if c.String() != text { // refuses other spellings
		return c, formatErr
	}
	return c, nil
}
