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
	"github.com/vacancy-host/vacancy/shared/store"
)

// Times of key sets.
const (
	// fresh is the time for which a set of keys is used without a look at the issuer.
	fresh = 10 * time.Minute
	// good is the time for which a set counts if the issuer is away.
	good = time.Hour
	// between is the least time between two fetches of an issuer, by all processes together.
	between = 30 * time.Second
	// fetchTime bounds a fetch, which is of two documents, and refreshTime a fetch with what is read
	// and stored besides.
	fetchTime   = 5 * time.Second
	refreshTime = 10 * time.Second
)

// Limits of what an issuer sends.
const (
	maxReply = 256 << 10
	maxKeys  = 100
	minRSA   = 2048 // bits
)

// keySet caches the keys of an issuer in this process.
type keySet struct {
	mu      sync.Mutex // never held while something is read or fetched
	keys    []key
	fetched time.Time
	tried   time.Time // as stored; the zero time before the first read
	read    time.Time // of the document
	unfit   string    // IssuerKeys.Unfit, as stored
	// busy is closed at the end of the refresh that runs; nil if none runs. Many requests make one
	// refresh.
	busy chan struct{}
}

// key is a key that verifies signatures.
type key struct {
	id     string
	alg    string // the only algorithm that it is for; "" for each that fits
	public any    // *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
}

// fits reports whether a key may have signed with an algorithm.
func (k *key) fits(alg jose.SignatureAlgorithm) bool {
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

// verify checks the signature of a token. If the keys of this process do not verify it, verify
// refreshes them, because an issuer may give its new key no kid, or the kid of the old key.
func (c *Checker) verify(ctx context.Context, token string, i *billing.Issuer, h header) error {
	sig, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return refuse("the token is not a signed JWT")
	}
	var failed time.Time // when the keys that do not verify the token were fetched
	for range 2 {
		keys, fetched, err := c.keys(ctx, i, h, failed)
		if err != nil {
			return err
		}
		if fetched.Equal(failed) {
			break // the refresh found no newer keys
		}
		for _, k := range keys {
			if _, err := sig.Verify(k.public); err == nil {
				return nil
			}
		}
		failed = fetched
	}
	return refuse("the signature of the token does not verify with the key of %s", i.Issuer)
}

// keys returns the keys of an issuer that may have signed with a header, and when they were fetched.
// A header without kid takes the only key that fits. Keys that were fetched at the time failed are
// refreshed.
func (c *Checker) keys(ctx context.Context, i *billing.Issuer, h header, failed time.Time) (found []key, fetched time.Time, err error) {
	s := c.set(i.Issuer)
	found, fetched, mine, err := c.known(ctx, i.Issuer, s, h, failed)
	if !mine {
		return found, fetched, err
	}
	err = c.refresh(ctx, i, s)
	s.mu.Lock()
	defer s.mu.Unlock()
	found, fetched = s.find(h), s.fetched
	isGood := c.Now().Before(fetched.Add(good))
	switch {
	case len(found) > 0 && isGood && (err == nil || !fetched.Equal(failed)):
		return found, fetched, nil
	case err != nil:
	case s.unfit != "":
		err = refuse("the host cannot use the issuer: %s", s.unfit)
	case !isGood:
		err = problem.New(problem.Unavailable, "the keys of the issuer %s cannot be fetched now; the token may be good, so try again in half a minute", i.Issuer)
	case h.kid == "":
		err = refuse("the token's header names no key (kid), and the issuer %s has not exactly one for %s", i.Issuer, h.alg)
	default:
		err = refuse("the issuer %s has no key %.80q for %s", i.Issuer, h.kid, h.alg)
	}
	return nil, fetched, err
}

// known returns keys without a refresh, or mine if this request has to refresh the set. While
// another request does, a key that is still good is used, and the lack of one is waited for.
func (c *Checker) known(ctx context.Context, issuer string, s *keySet, h header, failed time.Time) (found []key, fetched time.Time, mine bool, err error) {
	for {
		s.mu.Lock()
		now := c.Now()
		found, age, busy := s.find(h), now.Sub(s.fetched), s.busy
		hasFailed := !failed.IsZero() && s.fetched.Equal(failed)
		if busy == nil && (len(found) == 0 || hasFailed || age >= fresh || isAhead(s.fetched, now)) {
			s.busy, mine = make(chan struct{}), true
		}
		fetched = s.fetched
		s.mu.Unlock()
		switch {
		case mine:
			return nil, fetched, true, nil
		case len(found) > 0 && !hasFailed && age < good:
			return found, fetched, false, nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, fetched, false, fetching(issuer)
		}
	}
}

// fetching is an error for a request that does not wait for keys.
func fetching(issuer string) error {
	return problem.New(problem.Unavailable, "the keys of the issuer %s are being fetched; try again in a second", issuer)
}

// set returns the set of an issuer, which the operator added.
func (c *Checker) set(issuer string) *keySet {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sets[issuer]
	if s == nil {
		s = &keySet{}
		c.sets[issuer] = s
	}
	return s
}

func (s *keySet) find(h header) (found []key) {
	for _, k := range s.keys {
		if k.fits(h.alg) && (h.kid == "" || h.kid == k.id) {
			found = append(found, k)
		}
	}
	if h.kid == "" && len(found) != 1 {
		return nil
	}
	return found
}

// refresh reads the stored keys, and fetches the issuer's unless somebody did so lately. It is the
// only one of s, and ends s.busy.
func (c *Checker) refresh(ctx context.Context, i *billing.Issuer, s *keySet) error {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.busy)
		s.busy = nil
	}()
	ctx, cancel := outlasting(ctx)
	defer cancel()
	now := c.Now()
	s.mu.Lock()
	tried, read := s.tried, s.read
	s.mu.Unlock()
	// Whoever comes with unknown keys again and again costs a read a second.
	if now.Before(tried.Add(between)) && now.Before(read.Add(time.Second)) && !isAhead(tried, now) {
		return nil
	}
	stored, err := c.claim(ctx, i.Issuer, now)
	if err != nil {
		return err
	}
	s.take(&stored, now)
	if !stored.Tried.Equal(stamp(now)) {
		if stored.Unfit == "" && stored.Fetched.Before(stored.Tried) && now.Before(stored.Tried.Add(fetchTime)) {
			return fetching(i.Issuer)
		}
		return nil
	}
	raw, err := c.fetch(ctx, i)
	switch {
	case problem.Is(err, problem.Malformed):
		stored.Unfit = problem.Of(err).Text()
	case err != nil:
		return problem.Wrap(problem.Unavailable, err, "the keys of the issuer %s cannot be fetched now; the token may be good, so try again in half a minute", i.Issuer)
	default:
		stored.Keys, stored.Fetched, stored.Unfit = raw, stored.Tried, ""
	}
	s.take(&stored, now)
	err = c.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		before, d, err := billing.IssuerKeyDocs.Get(ctx, tx, billing.IssuerKeyDocs.Key(billing.IssuerMark(i.Issuer)))
		if err != nil || before.Fetched.After(stored.Fetched) {
			return err
		}
		billing.IssuerKeyDocs.Put(tx, store.Doc{Key: d.Key}, stored)
		return nil
	})
	return store.Problem(err)
}

// outlasting is a context for what a request does for all others, too: it outlasts the request's
// sender, because whoever hangs up would keep the keys away from everybody.
func outlasting(ctx context.Context) (context.Context, context.CancelFunc) {
	end := time.Now().Add(refreshTime)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
		end = deadline
	}
	return context.WithDeadline(context.WithoutCancel(ctx), end)
}

// take takes what is stored, or was fetched.
func (s *keySet) take(stored *billing.IssuerKeys, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read, s.tried, s.unfit = now, stored.Tried, stored.Unfit
	if stored.Fetched.After(s.fetched) || isAhead(s.fetched, now) {
		s.keys, s.fetched = parseAll(stored.Keys), stored.Fetched
	}
}

// isAhead reports whether a time was taken before the clock went back. The clocks of two processes
// may differ a little.
func isAhead(at, now time.Time) bool { return at.After(now.Add(between)) }

// stamp is a time in the precision in which it is stored.
func stamp(at time.Time) time.Time { return at.UTC().Truncate(time.Microsecond) }

// claim reads the stored keys of an issuer. If nobody tried to fetch them lately, the answer is
// stored with Tried set to now, and the caller fetches.
func (c *Checker) claim(ctx context.Context, issuer string, now time.Time) (s billing.IssuerKeys, err error) {
	at := billing.IssuerKeyDocs.Key(billing.IssuerMark(issuer))
	err = c.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		var d store.Doc
		if s, d, err = billing.IssuerKeyDocs.Get(ctx, tx, at); err != nil {
			return err
		}
		if d.Version > 0 && now.Before(s.Tried.Add(between)) && !isAhead(s.Tried, now) {
			return nil
		}
		s.Issuer, s.Tried = issuer, stamp(now)
		if isAhead(s.Fetched, now) { // nobody knows when: the keys are good, and not fresh
			s.Fetched = s.Tried.Add(-fresh)
		}
		billing.IssuerKeyDocs.Put(tx, store.Doc{Key: at}, s)
		return nil
	})
	return s, store.Problem(err)
}

func (c *Checker) updater() store.Updater { return store.Updater{Store: c.Store, Rand: c.Rand} }

// fetch returns the keys that an issuer publishes. The error is Malformed if the issuer does not
// describe itself as the host needs it.
func (c *Checker) fetch(ctx context.Context, i *billing.Issuer) ([]json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	at, err := c.keysURL(ctx, i)
	if err != nil {
		return nil, err
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := c.get(ctx, reader(i, at), at, &set); err != nil {
		return nil, err
	}
	switch {
	case len(set.Keys) > maxKeys:
		return nil, problem.New(problem.TooLarge, "%s: expected at most %d keys, got %d", at, maxKeys, len(set.Keys))
	case len(parseAll(set.Keys)) == 0:
		return nil, problem.New(problem.Unavailable, "%s has no key for %v", at, algorithms)
	}
	return set.Keys, nil
}

// Reach fetches the keys of an issuer, and returns how many of them verify signatures. Nothing is
// stored.
func (c *Checker) Reach(ctx context.Context, i *billing.Issuer) (int, error) {
	raw, err := c.fetch(ctx, i)
	return len(parseAll(raw)), err
}

// keysURL asks an issuer where its keys are.
func (c *Checker) keysURL(ctx context.Context, i *billing.Issuer) (string, error) {
	var failed []error
	for _, at := range billing.IssuerMetadata(i.Issuer) {
		var said struct {
			Issuer string `json:"issuer"`
			Keys   string `json:"jwks_uri"`
		}
		err := c.get(ctx, reader(i, at), at, &said)
		switch {
		case err == nil && said.Issuer != i.Issuer:
			err = problem.Invalid("issuer", fmt.Sprintf("%.200q, as %s spells it", said.Issuer, at), fmt.Sprintf("%q", i.Issuer))
		case err == nil && !strings.HasPrefix(said.Keys, "https://") && !sameOrigin(i.Issuer, said.Keys):
			err = problem.Invalid("issuer", "an https URL as jwks_uri in "+at, fmt.Sprintf("%.200q", said.Keys))
		case err == nil:
			return said.Keys, nil
		}
		failed = append(failed, err)
	}
	// A document that does not fit explains more than a document that is missing.
	if at := slices.IndexFunc(failed, func(err error) bool { return problem.Is(err, problem.Malformed) }); at >= 0 {
		return "", failed[at]
	}
	return "", errors.Join(failed...)
}

func sameOrigin(a, b string) bool {
	x, errA := url.Parse(a)
	y, errB := url.Parse(b)
	return errA == nil && errB == nil && x.Scheme == y.Scheme && x.Host == y.Host
}

// reader returns the actor of a request for a document of an issuer. The operator chose the URLs at
// the issuer's own origin, the issuer all others.
func reader(i *billing.Issuer, at string) outbound.Actor {
	if !sameOrigin(i.Issuer, at) {
		return outbound.Itself(outbound.Stranger)
	}
	as := outbound.Itself(outbound.Operator)
	if i.Private {
		as = as.InPrivate()
	}
	return as
}

// get fetches a document of JSON.
func (c *Checker) get(ctx context.Context, as outbound.Actor, at string, into any) error {
	r, err := c.Client.Do(ctx, as, outbound.Request{Method: http.MethodGet, URL: at, Header: http.Header{"Accept": {"application/json"}}, MaxReply: maxReply})
	switch {
	case err != nil:
		return err
	case r.Status != http.StatusOK:
		return problem.New(problem.Unavailable, "%s answered %d", at, r.Status)
	}
	if err := json.Unmarshal(r.Body, into); err != nil {
		return problem.Wrap(problem.Unavailable, err, "%s is not the document of JSON that it should be", at)
	}
	return nil
}

// parseAll parses the keys that verify signatures. Others decide nothing: keys for encryption,
// of other kinds, or that do not parse.
func parseAll(raw []json.RawMessage) (all []key) {
	for _, one := range raw {
		if k, err := parse(one); err == nil {
			all = append(all, k)
		}
	}
	return all
}

func parse(raw []byte) (k key, err error) {
	var about struct {
		Use string   `json:"use"`
		Ops []string `json:"key_ops"`
	}
	if err := json.Unmarshal(raw, &about); err != nil {
		return k, err
	}
	// Certificates decide nothing here, and a key may have one that does not parse.
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return k, err
	}
	for _, of := range []string{"x5c", "x5u", "x5t", "x5t#S256"} {
		delete(members, of)
	}
	if raw, err = json.Marshal(members); err != nil {
		return k, err
	}
	var j jose.JSONWebKey
	if err := j.UnmarshalJSON(raw); err != nil {
		return k, err
	}
	k = key{id: j.KeyID, alg: j.Algorithm, public: j.Key}
	if about.Use != "" && about.Use != "sig" || len(about.Ops) > 0 && !slices.Contains(about.Ops, "verify") {
		return k, errors.New("it is not for signatures")
	}
	switch public := j.Key.(type) {
	case *rsa.PublicKey:
		if public.N.BitLen() < minRSA {
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
