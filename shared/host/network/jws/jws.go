// Package jws signs bytes with a vacant's key, as a detached JSON Web Signature (RFC 7515).
package jws

import (
	"context"
	"encoding/base64"

	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func Sign(ctx context.Context, s identity.Signer, payload []byte, extraMembers ...canon.Member) (protected, signature string, err error) {
	textMember := func(key, value string) canon.Member {
		return canon.Member{Key: key, Value: canon.NewString(value)}
	}
	header := append([]canon.Member{textMember("alg", "EdDSA"), textMember("typ", "JOSE"), textMember("kid", s.ID().String())}, extraMembers...)
	protected = base64.RawURLEncoding.EncodeToString(canon.NewObject(header...).AppendCJ(nil))
	sig, err := s.Sign(ctx, []byte(protected+"."+base64.RawURLEncoding.EncodeToString(payload)))
	return protected, base64.RawURLEncoding.EncodeToString(sig), err
}
