package tokens

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const (
	refreshAge = 10 * time.Minute
	// maxKeyAge limits the age of keys that are used while the issuer does not answer.
	maxKeyAge = time.Hour
	// fetchInterval is the minimum time between two fetches of an issuer's keys.
	fetchInterval = 30 * time.Second
	fetchTimeout  = 5 * time.Second
)

const (
	maxReplyBytes = 256 << 10
	maxKeys       = 100
	minRSABits    = 2048
)

type keySet struct {
	mu            sync.Mutex // not held during a fetch
	keys          []key
	fetchedAt     time.Time // start of the fetch of keys
	lastTry       time.Time // start of the last fetch, even if it failed
	metadataError string
	fetchDone     chan struct{}
}

type key struct {
	id     string
	alg    string
	public any // *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
}

func (k *key) canVerify(alg jose.SignatureAlgorithm) bool {
	if k.alg != "" && k.alg != string(alg) {
		return false
	}
	switch k.public.(type) {
	case *rsa.PublicKey:
		return alg == jose.RS256 || alg == jose.PS256
	case *ecdsa.PublicKey:
		return alg == jose.ES256
	}
	return alg == jose.EdDSA
}

// verify refreshes the cached keys if they do not verify the token, because an issuer's new key may
// have no kid or the kid of the old key.
func (c *Checker) verify(ctx context.Context, token string, issuer *billing.Issuer, h header) error {
	sig, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return rejectToken("the token is not a signed JWT")
	}
	var rejectedKeysFetchedAt time.Time
	for range 2 {
		keys, fetchedAt, err := c.loadKeys(ctx, issuer, h, rejectedKeysFetchedAt)
		if err != nil {
			return err
		}
		if fetchedAt.Equal(rejectedKeysFetchedAt) {
			break
		}
		for _, k := range keys {
			if _, err := sig.Verify(k.public); err == nil {
				return nil
			}
		}
		rejectedKeysFetchedAt = fetchedAt
	}
	return rejectToken("the signature of the token does not verify with the key of %s", issuer.URL)
}

// loadKeys returns the keys that may have signed a token with header h, and the time of their
// fetch. If the cached keys were rejected, it fetches the keys again, at most once per
// fetchInterval.
func (c *Checker) loadKeys(ctx context.Context, issuer *billing.Issuer, h header, rejectedKeysFetchedAt time.Time) ([]key, time.Time, error) {
	c.mu.Lock()
	s := c.sets[issuer.URL]
	if s == nil {
		s = &keySet{}
		c.sets[issuer.URL] = s
	}
	c.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for {
		// Round removes the monotonic time, because AWS Lambda may stop the monotonic clock between
		// two requests.
		now := c.Now().Round(0)
		if s.lastTry.After(now) { // the clock was set back, so the keys stay usable but are refreshed
			s.lastTry = time.Time{}
			if s.fetchedAt.After(now.Add(-refreshAge)) {
				s.fetchedAt = now.Add(-refreshAge)
			}
		}
		matching, age := s.findKeys(h), now.Sub(s.fetchedAt)
		hasValidKeys := len(matching) > 0 && age < maxKeyAge
		hasUntriedKeys := hasValidKeys && (rejectedKeysFetchedAt.IsZero() || !s.fetchedAt.Equal(rejectedKeysFetchedAt))
		switch {
		case hasUntriedKeys && (age < refreshAge || s.fetchDone != nil):
			return matching, s.fetchedAt, nil
		case s.fetchDone != nil:
			done := s.fetchDone
			s.mu.Unlock()
			select {
			case <-done:
			case <-ctx.Done():
			}
			s.mu.Lock()
			if s.fetchDone == done {
				return nil, s.fetchedAt, problem.New(problem.Unavailable, "the keys of the issuer %s are being fetched; try again in a second", issuer.URL)
			}
		case err == nil && !now.Before(s.lastTry.Add(fetchInterval)):
			err = c.refresh(ctx, issuer, s, now)
		case hasUntriedKeys, hasValidKeys && err == nil:
			return matching, s.fetchedAt, nil
		case err != nil:
			return nil, s.fetchedAt, err
		case s.metadataError != "":
			return nil, s.fetchedAt, rejectToken("the host cannot use the issuer: %s", s.metadataError)
		// The issuer may have published a newer key.
		case age >= maxKeyAge, s.lastTry.After(s.fetchedAt):
			return nil, s.fetchedAt, unreachableError(issuer.URL, nil)
		case h.kid == "":
			return nil, s.fetchedAt, rejectToken("the token's header has no key id (kid), and the issuer %s does not have exactly one key for %s", issuer.URL, h.alg)
		default:
			return nil, s.fetchedAt, rejectToken("the issuer %s has no key %.80q for %s", issuer.URL, h.kid, h.alg)
		}
	}
}

func unreachableError(issuer string, err error) error {
	return problem.Wrap(problem.Unavailable, err, "the keys of the issuer %s cannot be fetched now; the token may be good, so try again in half a minute", issuer)
}

func (s *keySet) findKeys(h header) (found []key) {
	for _, k := range s.keys {
		if k.canVerify(h.alg) && (h.kid == "" || h.kid == k.id) {
			found = append(found, k)
		}
	}
	if h.kid == "" && len(found) != 1 {
		return nil
	}
	return found
}

// refresh fetches the keys of an issuer for all requests. The caller must hold s.mu, which refresh
// releases during the fetch.
func (c *Checker) refresh(ctx context.Context, issuer *billing.Issuer, s *keySet, now time.Time) error {
	s.lastTry, s.fetchDone = now, make(chan struct{})
	defer func() {
		close(s.fetchDone)
		s.fetchDone = nil
	}()
	keys, err := func() ([]key, error) {
		s.mu.Unlock()
		defer s.mu.Lock()
		// If the sender of this request hangs up, other requests still need the keys.
		end := time.Now().Add(fetchTimeout)
		if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
			end = deadline
		}
		ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), end)
		defer cancel()
		return c.fetchKeys(ctx, issuer)
	}()
	switch {
	case problem.Is(err, problem.Malformed):
		s.metadataError = problem.AsError(err).Text()
		return nil
	case err != nil:
		return unreachableError(issuer.URL, err)
	}
	s.keys, s.fetchedAt, s.metadataError = keys, now, ""
	return nil
}

func (c *Checker) fetchKeys(ctx context.Context, issuer *billing.Issuer) (keys []key, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	keysURL, err := c.fetchKeysURL(ctx, issuer)
	if err != nil {
		return nil, err
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := c.fetchJSON(ctx, actorFor(issuer, keysURL), keysURL, &set); err != nil {
		return nil, err
	}
	if len(set.Keys) > maxKeys {
		return nil, problem.New(problem.TooLarge, "%s: expected at most %d keys, got %d", keysURL, maxKeys, len(set.Keys))
	}
	for _, raw := range set.Keys {
		if k, err := parseKey(raw); err == nil {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, problem.New(problem.Unavailable, "%s has no key for %v", keysURL, algorithms)
	}
	return keys, nil
}

func (c *Checker) CountKeys(ctx context.Context, issuer *billing.Issuer) (int, error) {
	keys, err := c.fetchKeys(ctx, issuer)
	return len(keys), err
}

func (c *Checker) fetchKeysURL(ctx context.Context, issuer *billing.Issuer) (string, error) {
	var errs []error
	for _, location := range billing.IssuerMetadataURLs(issuer.URL) {
		var metadata struct {
			Issuer string `json:"issuer"`
			Keys   string `json:"jwks_uri"`
		}
		err := c.fetchJSON(ctx, actorFor(issuer, location), location, &metadata)
		switch {
		case err == nil && metadata.Issuer != issuer.URL:
			err = problem.Invalid("issuer", fmt.Sprintf("%.200q, the issuer in %s", metadata.Issuer, location), fmt.Sprintf("%q", issuer.URL))
		case err == nil && !strings.HasPrefix(metadata.Keys, "https://") && !isSameOrigin(issuer.URL, metadata.Keys):
			err = problem.Invalid("issuer", "an https URL as jwks_uri in "+location, fmt.Sprintf("%.200q", metadata.Keys))
		case err == nil:
			return metadata.Keys, nil
		}
		errs = append(errs, err)
	}
	// The error of an unsuitable document is more helpful than the error of a missing document.
	if location := slices.IndexFunc(errs, func(err error) bool { return problem.Is(err, problem.Malformed) }); location >= 0 {
		return "", errs[location]
	}
	return "", errors.Join(errs...)
}

func isSameOrigin(a, b string) bool {
	x, errA := url.Parse(a)
	y, errB := url.Parse(b)
	return errA == nil && errB == nil && x.Scheme == y.Scheme && x.Host == y.Host
}

// actorFor returns the operator as the actor only for the origin that the operator added. Other
// URLs were chosen by the issuer, which is a stranger.
func actorFor(issuer *billing.Issuer, rawURL string) outbound.Actor {
	if !isSameOrigin(issuer.URL, rawURL) {
		return outbound.HostActor(outbound.Stranger)
	}
	actor := outbound.HostActor(outbound.Operator)
	if issuer.AllowPrivateAddress {
		actor = actor.WithPrivateAddresses()
	}
	return actor
}

func (c *Checker) fetchJSON(ctx context.Context, actor outbound.Actor, rawURL string, into any) error {
	r, err := c.Client.Do(ctx, actor, outbound.Request{Method: http.MethodGet, URL: rawURL, Header: http.Header{"Accept": {"application/json"}}, MaxReply: maxReplyBytes})
	switch {
	case err != nil:
		return err
	case r.Status != http.StatusOK:
		return problem.New(problem.Unavailable, "%s answered %d", rawURL, r.Status)
	}
	if err := json.Unmarshal(r.Body, into); err != nil {
		return problem.Wrap(problem.Unavailable, err, "%s: expected a JSON document", rawURL)
	}
	return nil
}

func parseKey(raw []byte) (k key, err error) {
	var usage struct {
		Ops []string `json:"key_ops"`
	}
	if err := json.Unmarshal(raw, &usage); err != nil {
		return k, err
	}
	// Certificates are not used, and a key may contain a certificate that cannot be parsed.
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return k, err
	}
	for _, member := range []string{"x5c", "x5u", "x5t", "x5t#S256"} {
		delete(members, member)
	}
	if raw, err = json.Marshal(members); err != nil {
		return k, err
	}
	var j jose.JSONWebKey
	if err := j.UnmarshalJSON(raw); err != nil {
		return k, err
	}
	k = key{id: j.KeyID, alg: j.Algorithm, public: j.Key}
	if j.Use != "" && j.Use != "sig" || len(usage.Ops) > 0 && !slices.Contains(usage.Ops, "verify") {
		return k, errors.New("it is not for signatures")
	}
	switch public := j.Key.(type) {
	case *rsa.PublicKey:
		if public.N.BitLen() < minRSABits {
			return k, fmt.Errorf("it has %d bits", public.N.BitLen())
		}
	case *ecdsa.PublicKey:
		if public.Curve != elliptic.P256() {
			return k, errors.New("it is of another curve")
		}
	case ed25519.PublicKey:
	default:
		return k, fmt.Errorf("it is a %T", j.Key)
	}
	return k, nil
}
