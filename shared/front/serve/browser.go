package serve

import (
	"net/http"

	"github.com/vacancy-host/vacancy/shared/front/origin"
	"github.com/vacancy-host/vacancy/shared/front/protocol"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// LoopbackOnly protects a listener on loopback against web pages, because a page of any site can
// send requests to this machine. It also checks the Host header. Otherwise a page whose host name
// resolves to a loopback address (DNS rebinding) could read the answers.
func LoopbackOnly(judge *origin.Judge, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var err error = problem.New(problem.Forbidden, "Host: expected a loopback address or localhost, got %.80q; this host serves only its own machine", r.Host)
		if origin.IsLoopback(r.Host) {
			err = judge.Check(r)
		}
		if err != nil {
			protocol.Refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// guardPages refuses requests of web pages that judge does not accept, except GET. Browsers do not
// let pages of other origins read the answers.
func guardPages(judge *origin.Judge, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		if len(judge.Allowed) > 0 {
			h.Add("Vary", "Origin")
		}
		switch isAllowed := judge.Allows(r); {
		case isAllowed:
			h.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
			h.Set("Access-Control-Expose-Headers", "*")
			if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
				h.Set("Access-Control-Allow-Methods", "*")
				// The wildcard does not include Authorization.
				h.Set("Access-Control-Allow-Headers", "*, Authorization")
				h.Set("Access-Control-Max-Age", "600")
				w.WriteHeader(http.StatusNoContent)
				return
			}
		case r.Method == http.MethodGet, r.Method == http.MethodHead, r.Method == http.MethodOptions:
		default:
			if err := judge.Check(r); err != nil {
				protocol.Refuse(w, r, err)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
