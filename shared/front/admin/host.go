package admin

import (
	"context"
	"encoding/hex"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const (
	KeyStorageKMS      = "kms"      // a key service stores the key and never reveals it
	KeyStorageSoftware = "software" // the store contains the sealed key
)

// Host is the identity of a host. URL is "" until it is set. Only SetHost returns SignedCards, the
// number of cards that were signed again.
type Host struct {
	ID          identity.ID `json:"host_id"`
	KeyStorage  string      `json:"key"`
	URL         string      `json:"url"`
	Version     string      `json:"version"`
	Stage       string      `json:"stage"`
	Signature   string      `json:"signature,omitempty"`
	SignedCards *int        `json:"cards_signed,omitempty"`
}

const maxChallengeBytes = 128

const challengeChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=_-"

// ProofBytes returns the bytes that the host signs for a challenge. The prefix is unique, so a
// proof is not a valid signature of any other text. The id and URL bind the proof to one host.
func (h *Host) ProofBytes(challenge string) []byte {
	return []byte(strings.Join([]string{"vacancy-host-proof/1", h.ID.String(), h.URL, challenge}, "\x1f"))
}

func (h *Host) HasValidProof(challenge string) bool {
	sig, err := hex.DecodeString(h.Signature)
	return err == nil && identity.Verify(h.ID, h.ProofBytes(challenge), sig)
}

func (d *api) showHost(ctx context.Context, in HostRequest) (Host, error) {
	challenge := ""
	if challenges := in.Challenge; len(challenges) > 0 {
		challenge = challenges[0]
		if len(challenges) > 1 || challenge == "" || len(challenge) > maxChallengeBytes || strings.Trim(challenge, challengeChars) != "" {
			return Host{}, problem.Invalid("challenge", "one value of 1 to 128 hex or base64 characters", quoteTruncated(challenge))
		}
	}
	h, err := d.describeHost(ctx)
	if err != nil || challenge == "" {
		return h, err
	}
	signer, err := d.Vacants.HostSigner(ctx)
	if err != nil {
		return h, err
	}
	sig, err := signer.Sign(ctx, h.ProofBytes(challenge))
	h.Signature = hex.EncodeToString(sig)
	return h, err
}

func (d *api) describeHost(ctx context.Context) (Host, error) {
	h := Host{KeyStorage: KeyStorageSoftware, Version: d.Version, Stage: d.Stage}
	if d.HasKeyService {
		h.KeyStorage = KeyStorageKMS
	}
	var err error
	if h.ID, err = d.Vacants.HostID(ctx); err != nil {
		return h, err
	}
	h.URL, err = d.Vacants.BaseURL(ctx)
	return h, err
}

type HostURL struct {
	URL string `json:"url"`
}

func (d *api) setHost(ctx context.Context, in op.Body[HostURL]) (Host, error) {
	signedCards, err := d.Vacants.SetURL(ctx, in.Body.URL)
	if err != nil {
		return Host{}, err
	}
	// Each deployment ends with this operation, so a new stage has the key before its first
	// receipt.
	if d.RenewReceiptKey != nil {
		if err := d.RenewReceiptKey(ctx); err != nil {
			return Host{}, err
		}
	}
	h, err := d.describeHost(ctx)
	h.SignedCards = &signedCards
	return h, err
}
