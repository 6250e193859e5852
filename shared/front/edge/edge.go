// Package edge guards a public handler: it refuses requests that bypass the
// host's CloudFront, addresses that send too many requests, and all reads while
// too much was read, before the request costs anything.
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

// SecretHeader holds the secret that CloudFront adds to a request, and that
// nobody else knows.
const SecretHeader = "X-Vacancy-Edge"

// viewerHeader is the caller's address and port as CloudFront saw them.
const viewerHeader = "CloudFront-Viewer-Address"

// Guard lets through what carries one of the secrets: the edge's own, and the
// one before it while a rotation is under way. All else is 403. Empty secrets
// count as none; without any, everything passes as it is.
//
// What passes by a secret came from CloudFront: RemoteAddr becomes the address
// that it saw. Neither that header nor the secret goes further.
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

// opens compares hashes, all of them and to their ends, so that neither the
// length nor the beginning of a secret shows in the time it takes.
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

// viewerAddr reads an address and port. CloudFront writes those of IPv6
// without brackets: the port is what follows the last colon.
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
