package caller

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// CheckSite refuses a request that a browser sends for a page of another site. It is for requests
// that a page may send without a preflight, such as a POST of text.
func (c *Verifier) CheckSite(r *http.Request) error {
	foreign := problem.New(problem.Forbidden, "requests of a page of another site are refused here")
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "same-origin" && site != "none" {
			return foreign
		}
	}
	for _, origin := range r.Header.Values("Origin") {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" {
			return foreign // also "null", the origin of a sandboxed page
		}
		if c.own(r.Host) && strings.EqualFold(u.Host, r.Host) {
			continue
		}
		public, err := c.public(r.Context())
		if err != nil {
			return err
		}
		if !strings.EqualFold(u.Host, public) {
			return foreign
		}
	}
	return nil
}
