package admin

import (
	"context"
	"encoding/hex"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Storage of the host's identity key.
const (
	KeyService  = "kms"      // a key service stores the key and never reveals it
	KeySoftware = "software" // the store contains the sealed key
)

// Host is the identity of a host. URL is "" until it is set. SignedCards is the number of cards
// that were signed again because the URL changed. Only the answer of SetHost contains this number.
type Host struct {
	ID      identity.ID `json:"host_id"`
	Key     string      `json:"key"`
	URL     string      `json:"url"`
	Version string      `json:"version"`
	Stage   string      `json:"stage"`
	// Signature is the signature of a challenge, in hexadecimal.
	Signature      string `json:"signature,omitempty"`
	SignedChildren *int   `json:"cards_signed,omitempty"`
}

const maxChallenge = 128

// challengeLetters are the characters of hexadecimal and of both base64 alphabets.
const challengeLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=_-"

// Proof returns the bytes that the host signs for a challenge. No other signature of this project
// has the same prefix. The bytes contain the host and its URL, so a proof is valid for only one
// host.
func (h *Host) Proof(challenge string) []byte {
	return []byte(strings.Join([]string{"vacancy-host-proof/1", h.ID.String(), h.URL, challenge}, "\x1f"))
}

// Proves reports whether h contains a valid signature of challenge by h's id.
func (h *Host) Proves(challenge string) bool {
	sig, err := hex.DecodeString(h.Signature)
	return err == nil && identity.Verify(h.ID, h.Proof(challenge), sig)
}

func (d *api) host(ctx context.Context, in Challenged) (Host, error) {
	challenge := ""
	if given := in.Challenge; len(given) > 0 {
		challenge = given[0]
		if len(given) > 1 || challenge == "" || len(challenge) > maxChallenge || strings.Trim(challenge, challengeLetters) != "" {
			return Host{}, problem.Invalid("challenge", "1 to 128 letters of hex or base64, once", clip(challenge))
		}
	}
	h, err := d.describe(ctx)
	if err != nil || challenge == "" {
		return h, err
	}
	s, err := d.Vacants.Self(ctx)
	if err != nil {
		return h, err
	}
	sig, err := s.Sign(ctx, h.Proof(challenge))
	h.Signature = hex.EncodeToString(sig)
	return h, err
}

func (d *api) describe(ctx context.Context) (Host, error) {
	h := Host{Key: KeySoftware, Version: d.Version, Stage: d.Stage}
	if d.KeyService {
		h.Key = KeyService
	}
	var err error
	if h.ID, err = d.Vacants.HostID(ctx); err != nil {
		return h, err
	}
	h.URL, err = d.Vacants.Base(ctx)
	return h, err
}

type HostURL struct {
	URL string `json:"url"`
}

// setHost sets the public URL and signs cards again that contain another URL.
func (d *api) setHost(ctx context.Context, in op.Body[HostURL]) (Host, error) {
	signed, err := d.Vacants.SetURL(ctx, in.Body.URL)
	if err != nil {
		return Host{}, err
	}
	// Each deployment ends with this operation. A new stage therefore has the key that signs
	// receipts before its first receipt.
	if d.RenewKeys != nil {
		if err := d.RenewKeys(ctx); err != nil {
			return Host{}, err
		}
	}
	h, err := d.describe(ctx)
	h.SignedChildren = &signed
	return h, err
}
