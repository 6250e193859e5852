// Package jws signs bytes in foreign formats with a vacant's key. A signature is a detached JSON
// Web Signature (RFC 7515) with EdDSA, and its key id is the vacant's id.
package jws

import (
	"context"
	"encoding/base64"

	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Sign signs payload. Its protected header contains extraMembers in addition to the algorithm, type
// and key id. Both results are encoded in base64url.
func Sign(ctx context.Context, s identity.Signer, payload []byte, extraMembers ...canon.Member) (protected, signature string, err error) {
	textMember := func(key, value string) canon.Member {
		return canon.Member{Key: key, Value: canon.NewString(value)}
	}
	header := append([]canon.Member{textMember("alg", "EdDSA"), textMember("typ", "JOSE"), textMember("kid", s.ID().String())}, extraMembers...)
	protected = base64.RawURLEncoding.EncodeToString(canon.NewObject(header...).AppendCJ(nil))
	sig, err := s.Sign(ctx, []byte(protected+"."+base64.RawURLEncoding.EncodeToString(payload)))
	return protected, base64.RawURLEncoding.EncodeToString(sig), err
}
