// Package certificate implements a host's signed statement that lets another key sign receipts and
// bookings for the host. Handlers therefore never hold the host's own key. All other statements of a
// host, such as checkpoints, verify only under the host's id.
package certificate

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// domainTag separates certificates from other signed bytes.
const domainTag = "vacancy:hostkey:v1\x1f"

// Certificate names the key that signs for a host at or after ValidFrom and before ValidUntil. Both
// times have the form of canon.FormatTime.
type Certificate struct {
	Host       identity.ID `json:"host_id" canon:"required"`
	Key        identity.ID `json:"key_id" canon:"required"`
	ValidFrom  string      `json:"from" canon:"required"`
	ValidUntil string      `json:"until" canon:"required"`
	Signature  string      `json:"signature" canon:"required"` // hex
}

type Signer struct {
	identity.Signer
	Certificate Certificate
}

func New(ctx context.Context, host identity.Signer, key identity.ID, from, until time.Time) (Certificate, error) {
	c := Certificate{Host: host.ID(), Key: key, ValidFrom: canon.FormatTime(from), ValidUntil: canon.FormatTime(until)}
	signature, err := host.Sign(ctx, c.signedBytes())
	c.Signature = hex.EncodeToString(signature)
	return c, err
}

func (c *Certificate) Validity() (from, until time.Time, err error) {
	if from, err = canon.ParseTime(c.ValidFrom); err != nil {
		return from, until, problem.WithPlace(problem.Malformed, "from", err)
	}
	if until, err = canon.ParseTime(c.ValidUntil); err != nil {
		return from, until, problem.WithPlace(problem.Malformed, "until", err)
	}
	return from, until, nil
}

func (c *Certificate) Covers(signedAt time.Time) bool {
	from, until, err := c.Validity()
	return err == nil && !signedAt.Before(from) && signedAt.Before(until)
}

// Verify returns an error unless host certified the key for the time signedAt.
func (c *Certificate) Verify(host identity.ID, signedAt time.Time) error {
	signature, err := hex.DecodeString(c.Signature)
	switch {
	case c.Host != host:
		return problem.New(problem.BadSignature, "certificate: expected a certificate of host %s, got a certificate of host %s", host.Short(), c.Host.Short())
	case err != nil || !identity.Verify(host, c.signedBytes(), signature):
		return problem.New(problem.BadSignature, "certificate: signature did not verify for host %s", host.Short())
	case !c.Covers(signedAt):
		return problem.New(problem.BadSignature, "certificate: expected a time from %.40q, before %.40q, got %s", c.ValidFrom, c.ValidUntil, canon.FormatTime(signedAt))
	}
	return nil
}

func (c *Certificate) signedBytes() []byte {
	stringMember := func(key, value string) canon.Member { return canon.Member{Key: key, Value: canon.NewString(value)} }
	return canon.NewObject(stringMember("host_id", c.Host.String()), stringMember("key_id", c.Key.String()), stringMember("from", c.ValidFrom), stringMember("until", c.ValidUntil)).AppendCJ([]byte(domainTag))
}
