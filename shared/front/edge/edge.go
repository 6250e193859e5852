// Package edge guards a public handler. Before a request costs anything, the package refuses
// requests that bypass the host's CloudFront distribution, requests of addresses that send too many
// requests or bytes, and requests that arrive while the read budget is exhausted.
//
// A refused request causes no signature check, read or write. Headers that a caller sets do not
// change the address by which it is limited. Memory is bounded, and an address never gets more
// tokens than its buckets hold.
package edge

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/netip"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// SecretHeader is the header with the secret that CloudFront adds to every request.
const SecretHeader = "X-Vacancy-Edge"

// viewerHeader is the header with the caller's address and port as seen by CloudFront.
const viewerHeader = "CloudFront-Viewer-Address"

// Guard accepts requests that have one of the secrets: the current one, or the previous one during
// a rotation. It refuses all other requests with 403. Empty secrets are ignored. If all secrets are
// empty, Guard accepts all requests.
//
// A request with a valid secret came through CloudFront, so Guard sets RemoteAddr to the viewer's
// address. Guard removes SecretHeader and viewerHeader before it calls next.
func Guard(secrets []string, next http.Handler) http.Handler {
	var hashes [][sha256.Size]byte
	for _, s := range secrets {
		if s != "" {
			hashes = append(hashes, sha256.Sum256([]byte(s)))
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secretHeaders, viewerHeaders := r.Header[SecretHeader], r.Header[http.CanonicalHeaderKey(viewerHeader)]
		r.Header.Del(SecretHeader)
		r.Header.Del(viewerHeader)
		if hashes != nil {
			if !matchesSecret(hashes, secretHeaders) {
				httpapi.Fail(w, problem.New(problem.Forbidden, "this host accepts requests only at its public address"))
				return
			}
			if len(viewerHeaders) == 1 {
				if addr, ok := parseViewerAddr(viewerHeaders[0]); ok {
					r.RemoteAddr = addr.String()
				}
			}
		}
		next.ServeHTTP(w, r)
	})
}

// SetForwardHeaders sets the headers that CloudFront sets, so that Guard accepts the request and
// uses viewer as its sender. An invalid viewer is omitted.
func SetForwardHeaders(h http.Header, secret string, viewer netip.Addr) {
	h.Set(SecretHeader, secret)
	if h.Del(viewerHeader); viewer.IsValid() {
		h.Set(viewerHeader, netip.AddrPortFrom(viewer, 0).String())
	}
}

// matchesSecret compares the hash of the given secret with all known hashes in constant time, so that
// timing reveals neither the length nor a prefix of a secret.
func matchesSecret(hashes [][sha256.Size]byte, given []string) bool {
	if len(given) != 1 {
		return false
	}
	sum, found := sha256.Sum256([]byte(given[0])), 0
	for i := range hashes {
		found |= subtle.ConstantTimeCompare(hashes[i][:], sum[:])
	}
	return found == 1
}

func parseViewerAddr(s string) (netip.Addr, bool) {
	if addrPort, err := netip.ParseAddrPort(s); err == nil {
		return addrPort.Addr(), true
	}
	// CloudFront writes IPv6 addresses without brackets, so the port follows the last colon.
	colon := strings.LastIndexByte(s, ':')
	if colon < 0 {
		return netip.Addr{}, false
	}
	addr, err := netip.ParseAddr(s[:colon])
	return addr, err == nil
}
