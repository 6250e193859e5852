// Package edge guards a public handler. It refuses requests that bypass the host's CloudFront
// distribution, exceed the limits of their address, or arrive while the read budget is exhausted.
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

const SecretHeader = "X-Vacancy-Edge"

const viewerHeader = "CloudFront-Viewer-Address"

// Guard accepts only requests with one of the secrets. If all secrets are empty, it accepts all
// requests. A request with a secret came through CloudFront, so Guard sets its RemoteAddr to the
// viewer's address.
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

func SetForwardHeaders(h http.Header, secret string, viewer netip.Addr) {
	h.Set(SecretHeader, secret)
	if h.Del(viewerHeader); viewer.IsValid() {
		h.Set(viewerHeader, netip.AddrPortFrom(viewer, 0).String())
	}
}

// matchesSecret compares in constant time, so that timing reveals no part of a secret.
func matchesSecret(hashes [][sha256.Size]byte, given []string) bool {
	if len(given) != 1 {
		return false
	}
	sum, matches := sha256.Sum256([]byte(given[0])), 0
	for i := range hashes {
		matches |= subtle.ConstantTimeCompare(hashes[i][:], sum[:])
	}
	return matches == 1
}

func parseViewerAddr(s string) (netip.Addr, bool) {
	if addrPort, err := netip.ParseAddrPort(s); err == nil {
		return addrPort.Addr(), true
	}
	// CloudFront writes IPv6 addresses without brackets.
	colon := strings.LastIndexByte(s, ':')
	if colon < 0 {
		return netip.Addr{}, false
	}
	addr, err := netip.ParseAddr(s[:colon])
	return addr, err == nil
}
