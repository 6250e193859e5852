// Package receipt is what a host signs of an answered call that had a price.
//
// The invariant: the signed bytes begin with a tag of their own and are rebuilt from the
// members, so a receipt says what its host has signed, and anybody can check it with
// nothing but the receipt and the host's id.
package receipt

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// domain separates these signed bytes from all others of a host.
const domain = "vacancy:receipt:v1\x1f"

// Receipt is what an answered call cost. Amounts are in micro-dollars.
type Receipt struct {
	Host     identity.ID   `json:"host_id"`
	Caller   identity.ID   `json:"caller_id"`
	Vacant   identity.ID   `json:"vacant_id"`
	Position int64         `json:"position"` // of the request in the pair's chain of rows
	Request  identity.Hash `json:"request_hash"`
	Reply    identity.Hash `json:"reply_hash"`
	Time     string        `json:"time"` // of the answer, in wire form
	Version  int64         `json:"price_version"`
	Price    string        `json:"price"` // in words
	Hold     int64         `json:"hold"`
	Charge   int64         `json:"charge"`
	In       int64         `json:"tokens_in"`
	Out      int64         `json:"tokens_out"`
	Payment  string        `json:"payment"` // account, free or voucher
	// Cut is why the answer ends before its end, such as canceled; "" for a whole answer, whose
	// receipt has no such member.
	Cut string `json:"cut,omitempty"`

	Signature string `json:"signature"` // hex
}

// Sign signs r as a host.
func (r *Receipt) Sign(ctx context.Context, s identity.Signer) error {
	r.Host = s.ID()
	signature, err := s.Sign(ctx, r.signed())
	r.Signature = hex.EncodeToString(signature)
	return err
}

// Verify reports whether r is signed by its host.
func (r *Receipt) Verify() bool {
	signature, err := hex.DecodeString(r.Signature)
	return err == nil && identity.Verify(r.Host, r.signed(), signature)
}

func (r *Receipt) signed() []byte {
	text := func(key, value string) canon.Member { return canon.Member{Key: key, Value: canon.NewString(value)} }
	number := func(key string, value int64) canon.Member { return canon.Member{Key: key, Value: canon.NewInt(value)} }
	members := []canon.Member{
		text("host_id", r.Host.String()), text("caller_id", r.Caller.String()), text("vacant_id", r.Vacant.String()),
		number("position", r.Position), text("request_hash", r.Request.String()), text("reply_hash", r.Reply.String()), text("time", r.Time),
		number("price_version", r.Version), text("price", r.Price), number("hold", r.Hold), number("charge", r.Charge),
		number("tokens_in", r.In), number("tokens_out", r.Out), text("payment", r.Payment),
	}
	if r.Cut != "" {
		members = append(members, text("cut", r.Cut))
	}
	return canon.NewObject(members...).AppendCJ([]byte(domain))
}

// maxReceipt bounds a receipt in bytes.
const maxReceipt = 8 << 10

// Parse parses a receipt's JSON without verifying it.
func Parse(b []byte) (r Receipt, err error) {
	wrong := func(err error) (Receipt, error) {
		return Receipt{}, problem.Wrap(problem.Malformed, err, "receipt: expected the JSON of a receipt, got something else")
	}
	if len(b) > maxReceipt {
		return wrong(nil)
	}
	v, err := canon.Parse(b, canon.DefaultLimits()) // no member twice
	if err != nil || v.Kind() != canon.Object {
		return wrong(err)
	}
	known := map[string]bool{}
	shape, err := json.Marshal(Receipt{Cut: "any"})
	if err != nil {
		return wrong(err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(shape, &members); err != nil {
		return wrong(err)
	}
	for name := range members {
		known[name] = true
	}
	for _, m := range v.Members() {
		if !known[m.Key] {
			return Receipt{}, problem.New(problem.Malformed, "receipt: %.80q is no member of a receipt", m.Key)
		}
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return wrong(err)
	}
	if _, err := canon.ParseTime(r.Time); err != nil {
		return wrong(err)
	}
	return r, nil
}

// At is the time of the answer.
func (r *Receipt) At() time.Time {
	at, _ := canon.ParseTime(r.Time) // Parse has checked it
	return at
}
