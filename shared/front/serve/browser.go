package serve

import (
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// LoopbackOnly refuses requests of web pages to a listener on loopback. A page of
// any site can send requests to this machine, and after DNS rebinding it can
// read the answers: its site's name then resolves to a loopback address. Host
// contains that name, and browsers say where other requests come from (Origin,
// Sec-Fetch-Site). Programs send neither, or name the listener itself.
func LoopbackOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
		switch {
		case !isLoopback(r.Host):
			message.Refuse(w, r, problem.New(problem.Forbidden, "Host: expected a loopback address or localhost, got %.80q; this host is for its own machine", r.Host))
		case origin != "" && origin != "http://"+r.Host, site != "" && site != "none" && site != "same-origin":
			message.Refuse(w, r, problem.New(problem.Forbidden, "requests of a page of another site are refused here"))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// isLoopback reports whether host, with or without a port, is a loopback address
// or a localhost name.
func isLoopback(host string) bool {
	if name, port, err := net.SplitHostPort(host); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return false
		}
		host = name
	}
	return outbound.IsThisMachine(strings.Trim(host, "[]"))
}
