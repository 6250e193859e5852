// Package jws signs bytes of others' formats as a vacant does: a JSON Web Signature
// (RFC 7515) by EdDSA, without its payload, whose key id is the vacant's id.
package jws

import (
	"context"
	"encoding/base64"

	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Sign signs a payload with more members in the protected header. Both results are in
// base64url.
func Sign(ctx context.Context, s identity.Signer, payload []byte, more ...canon.Member) (protected, signature string, err error) {
	text := func(key, value string) canon.Member {
		return canon.Member{Key: key, Value: canon.NewString(value)}
	}
	header := append([]canon.Member{text("alg", "EdDSA"), text("typ", "JOSE"), text("kid", s.ID().String())}, more...)
	protected = base64.RawURLEncoding.EncodeToString(canon.NewObject(header...).AppendCJ(nil))
	sig, err := s.Sign(ctx, []byte(protected+"."+base64.RawURLEncoding.EncodeToString(payload)))
	return protected, base64.RawURLEncoding.EncodeToString(sig), err
}
