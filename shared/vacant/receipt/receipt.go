// Package receipt implements a host's signed statement about an answered call that had a
// price.
//
// The invariants: the signed bytes begin with a tag of their own and are rebuilt from the
// members, so no member of a receipt can differ from the signed bytes. It carries the
// certificate of the key that signed it, so anybody can check it with nothing but the
// receipt and the host's id.
package receipt

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/certificate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// domain separates these signed bytes from all others of a host.
const domain = "vacancy:receipt:v2\x1f"

// Receipt states the cost of an answered call. Amounts are in micro-dollars.
type Receipt struct {
	Host     identity.ID   `json:"host_id" canon:"required"`
	Caller   identity.ID   `json:"caller_id" canon:"required"`
	Vacant   identity.ID   `json:"vacant_id" canon:"required"`
	Position int64         `json:"position" canon:"required"` // of the request in the pair's chain of rows
	Request  identity.Hash `json:"request_hash" canon:"required"`
	Reply    identity.Hash `json:"reply_hash" canon:"required"`
	Time     string        `json:"time" canon:"required"` // of the answer, in wire form
	Version  int64         `json:"price_version" canon:"required"`
	Price    string        `json:"price" canon:"required"` // in words
	Hold     int64         `json:"hold" canon:"required"`
	Charge   int64         `json:"charge" canon:"required"`
	In       int64         `json:"tokens_in" canon:"required"`
	Out      int64         `json:"tokens_out" canon:"required"`
	Payment  string        `json:"payment" canon:"required"` // account, free or voucher
	// Cut is the reason that the answer ends early, such as canceled. A whole answer's receipt
	// has no such member.
	Cut string `json:"cut,omitempty"`

	// Signed is the time at which the receipt was signed, in wire form. The certificate
	// must cover it and not Time, because the receipt of an old call is signed long
	// after Time.
	Signed      string                  `json:"signed_at" canon:"required"`
	Certificate certificate.Certificate `json:"certificate" canon:"required"`
	Signature   string                  `json:"signature" canon:"required"` // of the certified key, hex
}

// Sign signs r for the host of a certified key.
func (r *Receipt) Sign(ctx context.Context, s certificate.Signer, now time.Time) error {
	r.Host, r.Certificate, r.Signed = s.Certificate.Host, s.Certificate, canon.FormatTime(now)
	signature, err := s.Sign(ctx, r.signed())
	r.Signature = hex.EncodeToString(signature)
	return err
}

// Verify returns nil if r is signed by a key that its host certified for the time of signing;
// otherwise an error of kind BadSignature.
func (r *Receipt) Verify() error {
	at, err := canon.ParseTime(r.Signed)
	if err != nil {
		return problem.Within(problem.BadSignature, "signed_at", err)
	}
	if err := r.Certificate.Verify(r.Host, at); err != nil {
		return err
	}
	signature, err := hex.DecodeString(r.Signature)
	if err != nil || !identity.Verify(r.Certificate.Key, r.signed(), signature) {
		return problem.New(problem.BadSignature, "signature did not verify for key %s", r.Certificate.Key.Short())
	}
	return nil
}

func (r *Receipt) signed() []byte {
	text := func(key, value string) canon.Member { return canon.Member{Key: key, Value: canon.NewString(value)} }
	number := func(key string, value int64) canon.Member { return canon.Member{Key: key, Value: canon.NewInt(value)} }
	members := []canon.Member{
		text("host_id", r.Host.String()), text("caller_id", r.Caller.String()), text("vacant_id", r.Vacant.String()),
		number("position", r.Position), text("request_hash", r.Request.String()), text("reply_hash", r.Reply.String()), text("time", r.Time),
		number("price_version", r.Version), text("price", r.Price), number("hold", r.Hold), number("charge", r.Charge),
		number("tokens_in", r.In), number("tokens_out", r.Out), text("payment", r.Payment),
		text("key_id", r.Certificate.Key.String()), text("signed_at", r.Signed),
	}
	if r.Cut != "" {
		members = append(members, text("cut", r.Cut))
	}
	return canon.NewObject(members...).AppendCJ([]byte(domain))
}

// limits bound a receipt's JSON.
var limits = canon.Limits{Bytes: 8 << 10, Depth: 2, Keys: 32}

// Parse parses a receipt's JSON without verifying it.
func Parse(b []byte) (r Receipt, err error) {
	if err := canon.Unmarshal(b, &r, limits); err != nil {
		return Receipt{}, problem.Within(problem.Malformed, "receipt", err)
	}
	if _, err := canon.ParseTime(r.Time); err != nil {
		return Receipt{}, problem.Within(problem.Malformed, "receipt: time", err)
	}
	return r, nil
}

// At is the time of the answer.
func (r *Receipt) At() time.Time {
	at, _ := canon.ParseTime(r.Time) // Parse has checked it
	return at
}
