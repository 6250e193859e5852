// Package receipt implements a host's signed statement about an answered call that had a price. A
// receipt contains the certificate of its key, so anyone who knows the host's id can verify the
// receipt.
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

// domainTag separates receipts from other signed bytes.
const domainTag = "vacancy:receipt:v2\x1f"

// Receipt states the cost of an answered call in micro-dollars.
type Receipt struct {
	Host         identity.ID   `json:"host_id" canon:"required"`
	Caller       identity.ID   `json:"caller_id" canon:"required"`
	Vacant       identity.ID   `json:"vacant_id" canon:"required"`
	Position     int64         `json:"position" canon:"required"`
	RequestHash  identity.Hash `json:"request_hash" canon:"required"`
	ReplyHash    identity.Hash `json:"reply_hash" canon:"required"`
	Time         string        `json:"time" canon:"required"` // answer time
	PriceVersion int64         `json:"price_version" canon:"required"`
	Price        string        `json:"price" canon:"required"` // in words
	Hold         int64         `json:"hold" canon:"required"`
	Charge       int64         `json:"charge" canon:"required"`
	TokensIn     int64         `json:"tokens_in" canon:"required"`
	TokensOut    int64         `json:"tokens_out" canon:"required"`
	Payment      string        `json:"payment" canon:"required"` // account, free or voucher
	CutReason    string        `json:"cut,omitempty"`            // reason for an incomplete answer

	// The certificate must cover SignedAt, because an old call's receipt can be signed long after
	// Time.
	SignedAt    string                  `json:"signed_at" canon:"required"`
	Certificate certificate.Certificate `json:"certificate" canon:"required"`
	Signature   string                  `json:"signature" canon:"required"` // hex
}

func (r *Receipt) Sign(ctx context.Context, s certificate.Signer, now time.Time) error {
	r.Host, r.Certificate, r.SignedAt = s.Certificate.Host, s.Certificate, canon.FormatTime(now)
	signature, err := s.Sign(ctx, r.signedBytes())
	r.Signature = hex.EncodeToString(signature)
	return err
}

// Verify returns an error unless r is signed by a key that its host certified for SignedAt.
func (r *Receipt) Verify() error {
	signedAt, err := canon.ParseTime(r.SignedAt)
	if err != nil {
		return problem.WithPlace(problem.BadSignature, "signed_at", err)
	}
	if err := r.Certificate.Verify(r.Host, signedAt); err != nil {
		return err
	}
	signature, err := hex.DecodeString(r.Signature)
	if err != nil || !identity.Verify(r.Certificate.Key, r.signedBytes(), signature) {
		return problem.New(problem.BadSignature, "signature did not verify for key %s", r.Certificate.Key.Short())
	}
	return nil
}

func (r *Receipt) signedBytes() []byte {
	stringMember := func(key, value string) canon.Member { return canon.Member{Key: key, Value: canon.NewString(value)} }
	intMember := func(key string, value int64) canon.Member { return canon.Member{Key: key, Value: canon.NewInt(value)} }
	members := []canon.Member{
		stringMember("host_id", r.Host.String()), stringMember("caller_id", r.Caller.String()), stringMember("vacant_id", r.Vacant.String()),
		intMember("position", r.Position), stringMember("request_hash", r.RequestHash.String()), stringMember("reply_hash", r.ReplyHash.String()), stringMember("time", r.Time),
		intMember("price_version", r.PriceVersion), stringMember("price", r.Price), intMember("hold", r.Hold), intMember("charge", r.Charge),
		intMember("tokens_in", r.TokensIn), intMember("tokens_out", r.TokensOut), stringMember("payment", r.Payment),
		stringMember("key_id", r.Certificate.Key.String()), stringMember("signed_at", r.SignedAt),
	}
	if r.CutReason != "" {
		members = append(members, stringMember("cut", r.CutReason))
	}
	return canon.NewObject(members...).AppendCJ([]byte(domainTag))
}

var limits = canon.Limits{Bytes: 8 << 10, Depth: 2, Keys: 32}

func Parse(b []byte) (r Receipt, err error) {
	if err := canon.Unmarshal(b, &r, limits); err != nil {
		return Receipt{}, problem.WithPlace(problem.Malformed, "receipt", err)
	}
	if _, err := canon.ParseTime(r.Time); err != nil {
		return Receipt{}, problem.WithPlace(problem.Malformed, "receipt: time", err)
	}
	return r, nil
}

func (r *Receipt) AnsweredAt() time.Time {
	answeredAt, _ := canon.ParseTime(r.Time) // Parse has checked the time
	return answeredAt
}
