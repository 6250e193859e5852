// Package edge guards a public handler: it refuses requests that bypass the
// host's CloudFront, addresses that send too many requests or bytes, and all
// reads while too much was read, before the request costs anything.
//
// The invariants: a request refused here causes no signature check, read or
// write. A caller's own headers never decide who the caller is. Memory is
// bounded, and no number of addresses gets more tokens than its buckets hold.
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

// SecretHeader carries the secret that CloudFront adds to every request.
const SecretHeader = "X-Vacancy-Edge"

// viewerHeader is the caller's address and port as CloudFront saw them.
const viewerHeader = "CloudFront-Viewer-Address"

// Guard accepts requests with one of the secrets: the current one, or the
// previous one during a rotation. It refuses others with 403. Empty secrets are
// ignored; without any secret, Guard accepts everything unchanged.
//
// A request with a secret came through CloudFront, so RemoteAddr is set to the
// viewer's address. Guard removes both headers before the next handler.
func Guard(secrets []string, next http.Handler) http.Handler {
	var known [][sha256.Size]byte
	for _, s := range secrets {
		if s != "" {
			known = append(known, sha256.Sum256([]byte(s)))
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, viewer := r.Header[SecretHeader], r.Header[http.CanonicalHeaderKey(viewerHeader)]
		r.Header.Del(SecretHeader)
		r.Header.Del(viewerHeader)
		if known != nil {
			if !opens(known, given) {
				httpapi.Fail(w, problem.New(problem.Forbidden, "this host answers at its public address only"))
				return
			}
			if len(viewer) == 1 {
				if addr, ok := viewerAddr(viewer[0]); ok {
					r.RemoteAddr = addr.String()
				}
			}
		}
		next.ServeHTTP(w, r)
	})
}

// Forward adds to the header of a request what CloudFront adds, so that Guard accepts the request and takes viewer for
// its sender. An invalid address is left out.
func Forward(h http.Header, secret string, viewer netip.Addr) {
	h.Set(SecretHeader, secret)
	if h.Del(viewerHeader); viewer.IsValid() {
		h.Set(viewerHeader, netip.AddrPortFrom(viewer, 0).String())
	}
}

// opens compares hashes of all secrets in constant time, so that the timing
// reveals neither length nor prefix of a secret.
func opens(known [][sha256.Size]byte, given []string) bool {
	if len(given) != 1 {
		return false
	}
	sum, found := sha256.Sum256([]byte(given[0])), 0
	for i := range known {
		found |= subtle.ConstantTimeCompare(known[i][:], sum[:])
	}
	return found == 1
}

// viewerAddr parses an address and port. CloudFront writes IPv6 addresses
// without brackets, so the port follows the last colon.
func viewerAddr(s string) (netip.Addr, bool) {
	if at, err := netip.ParseAddrPort(s); err == nil {
		return at.Addr(), true
	}
	colon := strings.LastIndexByte(s, ':')
	if colon < 0 {
		return netip.Addr{}, false
	}
	addr, err := netip.ParseAddr(s[:colon])
	return addr, err == nil
}
