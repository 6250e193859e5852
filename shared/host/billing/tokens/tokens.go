// Package tokens checks tokens of issuers that the operator added, such as company logins and other
// providers of OpenID Connect or OAuth 2.
//
// A token is accepted if a key in the issuer's key set verifies its signature, its audience is the
// called URL or one that the operator set, and its times are valid. It must match exactly one of
// the accounts that accept tokens from the issuer. The keys in its header are ignored, and the host
// sends no requests to other issuers.
//
// Other tokens are rejected with Unauthorized. If the issuer's keys cannot be read, the error is
// Unavailable, because the token may be valid. Errors never contain a token.
package tokens

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

const (
	maxTokenBytes   = 8 << 10
	maxSubjectBytes = 255
	leeway          = time.Minute
)

var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.PS256, jose.ES256, jose.EdDSA}

// tokenTypes lists the accepted values of typ. A token of another type has a different purpose, for
// example a logout.
var tokenTypes = []string{"", "jwt", "at+jwt", "application/at+jwt"}

// Checker checks tokens. It is safe for concurrent use.
type Checker struct {
	billing.TokenCheckerConfig

	mu   sync.Mutex
	sets map[string]*keySet
}

func New(c billing.TokenCheckerConfig) *Checker {
	return &Checker{TokenCheckerConfig: c, sets: map[string]*keySet{}}
}

func NewForBilling(c billing.TokenCheckerConfig) billing.TokenChecker { return New(c) }

func (c *Checker) LooksLikeToken(secret string) bool { return strings.Count(secret, ".") == 2 }

func (c *Checker) Check(ctx context.Context, token string, r *http.Request) (billing.Subject, error) {
	return c.check(ctx, token, func() ([]string, error) { return c.Resources(r) })
}

func (c *Checker) CheckForResources(ctx context.Context, token string, resources []string) (billing.Subject, error) {
	return c.check(ctx, token, func() ([]string, error) { return resources, nil })
}

func (c *Checker) check(ctx context.Context, token string, resources func() ([]string, error)) (s billing.Subject, err error) {
	if len(token) > maxTokenBytes {
		return s, rejectToken("expected a token of at most %d bytes", maxTokenBytes)
	}
	h, claims, err := parseUnverified(token)
	if err != nil {
		return s, err
	}
	issuers, err := c.Issuers(ctx)
	if err != nil {
		return s, err
	}
	issuers = slices.DeleteFunc(slices.Clone(issuers), func(i billing.Issuer) bool { return i.URL != claims.issuer })
	if len(issuers) == 0 {
		return s, rejectToken("this host does not accept tokens from the issuer %.200q", claims.issuer)
	}
	i := issuers[0] // all have the same URL and therefore the same keys
	i.AllowPrivateAddress = slices.ContainsFunc(issuers, func(i billing.Issuer) bool { return i.AllowPrivateAddress })
	if err := c.verify(ctx, token, &i, h); err != nil {
		return s, err
	}
	if err := claims.checkTimes(c.Now()); err != nil {
		return s, err
	}
	calledURLs, err := resources()
	if err != nil {
		return s, err
	}
	var matching []billing.Issuer
	var mismatch error
	for _, i := range issuers {
		if reason := claims.checkMatch(&i, calledURLs); reason != nil {
			mismatch = reason
		} else {
			matching = append(matching, i)
		}
	}
	switch {
	case len(matching) > 1:
		return s, rejectToken("the token matches %d accounts, expected one: the operator can distinguish the accounts by required claims or audiences", len(matching))
	case len(matching) == 0 && len(issuers) > 1:
		return s, rejectToken("the token matches none of the %d accounts that accept tokens from %s", len(issuers), claims.issuer)
	case len(matching) == 0:
		return s, mismatch
	}
	name, ok := claims.singleValue(matching[0].SubjectClaim)
	if !ok || name == "" || len(name) > maxSubjectBytes {
		return s, rejectToken("the claim %s: expected a text of 1 to %d bytes", matching[0].SubjectClaim, maxSubjectBytes)
	}
	return billing.Subject{Issuer: matching[0], ID: SubjectID(claims.issuer, name), Name: name, Scopes: claims.grantedScopes(matching[0].Scopes)}, nil
}

func (c *claims) grantedScopes(issuerScopes []billing.Scope) (granted []billing.Scope) {
	scope, hasScope := c.values["scope"]
	scp, hasSCP := c.values["scp"]
	if !hasScope && !hasSCP {
		return issuerScopes
	}
	for _, s := range issuerScopes {
		if slices.Contains(scope, string(s)) || slices.Contains(scp, string(s)) {
			granted = append(granted, s)
		}
	}
	return granted
}

func SubjectID(issuer, subject string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "vacancy subject v1\x1f%d\x1f%s\x1f%s", len(issuer), issuer, subject))
	return hex.EncodeToString(sum[:call.SubjectSize])
}

func rejectToken(format string, args ...any) error {
	return problem.New(problem.Unauthorized, "Authorization: "+format, args...)
}

type header struct {
	alg jose.SignatureAlgorithm
	kid string
}

type claims struct {
	issuer string
	times  map[string]float64  // exp, nbf and iat in seconds since 1970
	values map[string][]string // strings, string lists and booleans
}

func parseUnverified(token string) (h header, c claims, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return h, c, rejectToken("expected a token in three parts")
	}
	var decoded [2][]byte
	for i := range decoded {
		if decoded[i], err = base64.RawURLEncoding.Strict().DecodeString(parts[i]); err != nil {
			return h, c, rejectToken("part %d of the token is not base64url", i+1)
		}
	}
	typ := ""
	d := canon.NewDecoder(decoded[0], canon.DefaultLimits())
	err = d.Document(func(key string) (err error) {
		switch key {
		case "alg":
			var alg string
			alg, err = d.String()
			h.alg = jose.SignatureAlgorithm(alg)
		case "kid":
			h.kid, err = d.String()
		case "typ":
			typ, err = d.String()
		case "crit":
			return problem.Invalid("crit", "none, because this host knows no extensions", "some")
		default: // including jku, jwk, x5u and x5c, because only the issuer's keys are used
			err = d.Skip()
		}
		return err
	})
	switch {
	case err != nil:
	case !slices.Contains(algorithms, h.alg):
		err = problem.Invalid("alg", fmt.Sprintf("one of %v", algorithms), fmt.Sprintf("%.40q", string(h.alg)))
	case !slices.Contains(tokenTypes, strings.ToLower(typ)):
		err = problem.Invalid("typ", "JWT, at+jwt or none", fmt.Sprintf("%.40q", typ))
	}
	if err != nil {
		return h, c, rejectToken("the token's header: %s", problem.AsError(err).Text())
	}
	c = claims{times: map[string]float64{}, values: map[string][]string{}}
	d.Reset(decoded[1], canon.DefaultLimits())
	err = d.Document(func(key string) (err error) {
		switch key {
		case "exp", "nbf", "iat":
			c.times[key], err = d.Float64()
			return err
		}
		v, err := d.Value()
		switch v.Kind() {
		case canon.String:
			c.values[key] = []string{v.Text()}
			if key == "scope" || key == "scp" { // a list in one string (RFC 8693 §4.2)
				c.values[key] = strings.Fields(v.Text())
			}
		case canon.Array:
			c.values[key] = nil
			for _, item := range v.Items() {
				if item.Kind() == canon.String { // other items are ignored
					c.values[key] = append(c.values[key], item.Text())
				}
			}
		case canon.Bool:
			c.values[key] = []string{string(v.AppendCJ(nil))}
		}
		return err
	})
	_, hasExpiry := c.times["exp"]
	switch c.issuer, _ = c.singleValue("iss"); {
	case err != nil:
	case c.issuer == "":
		err = problem.Invalid("iss", "the URL of an issuer", "none")
	case len(c.values["aud"]) == 0:
		err = problem.Invalid("aud", "an audience", "none")
	case !hasExpiry:
		err = problem.Invalid("exp", "seconds since 1970", "none")
	}
	if err != nil {
		return h, c, rejectToken("the token's claims: %s", problem.AsError(err).Text())
	}
	return h, c, nil
}

func (c *claims) singleValue(name string) (string, bool) {
	if values := c.values[name]; len(values) == 1 {
		return values[0], true
	}
	return "", false
}

func (c *claims) checkTimes(now time.Time) error {
	seconds := float64(now.UnixMilli()) / 1000
	if exp := c.times["exp"]; math.IsNaN(exp) || exp+leeway.Seconds() <= seconds {
		return rejectToken("the token expired at %s", formatTime(exp))
	}
	for _, name := range []string{"nbf", "iat"} {
		if start, ok := c.times[name]; ok && start-leeway.Seconds() > seconds {
			return rejectToken("the token is not valid before %s (%s)", formatTime(start), name)
		}
	}
	return nil
}

func formatTime(seconds float64) string {
	if math.Abs(seconds) > 1e11 {
		return fmt.Sprintf("%.0f", seconds)
	}
	return time.Unix(int64(seconds), 0).UTC().Format(time.RFC3339)
}

// isWithinResource reports whether an audience is a resource, or a URL below a resource that ends
// with a slash.
func isWithinResource(aud, resource string) bool {
	base, allowsSubpaths := strings.CutSuffix(resource, "/")
	subpath, ok := strings.CutPrefix(strings.TrimSuffix(aud, "/"), base)
	if !ok || subpath == "" {
		return ok
	}
	return allowsSubpaths && subpath[0] == '/' && len(subpath) > 1 && path.Clean(subpath) == subpath && !strings.ContainsAny(subpath, "?#%")
}

func (c *claims) checkMatch(issuer *billing.Issuer, calledURLs []string) error {
	isAccepted := func(aud string) bool {
		return slices.Contains(issuer.Audiences, aud) || slices.ContainsFunc(calledURLs, func(resource string) bool { return isWithinResource(aud, resource) })
	}
	if !slices.ContainsFunc(c.values["aud"], isAccepted) {
		want := issuer.Audiences
		if len(calledURLs) > 0 { // the others are spellings of the same URL
			want = append([]string{strings.TrimSuffix(calledURLs[0], "/")}, want...)
		}
		return rejectToken("the token is for another audience: expected %s in aud", strings.Join(want, " or "))
	}
	for claim, want := range issuer.RequiredClaims {
		if !slices.Contains(c.values[claim], want) {
			return rejectToken("the token lacks the claim %s that this host requires", claim)
		}
	}
	return nil
}
