// Package webpath has the addresses of the pages for browsers, and redirects browsers to them. It is apart from the pages
// themselves, so that AWS functions that only redirect to a page do not contain the pages.
package webpath

import (
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Path is the address of the first page.
const Path = "/web/"

// VacantPath is the address of the page of a vacant, by name or id. An id may be written in another form, of which a page
// has one address only.
func VacantPath(vacant string) string {
	if id, err := identity.ParseID(vacant); err == nil {
		vacant = id.String()
	}
	return Path + "vacants/" + url.PathEscape(vacant)
}

// IsPath reports whether a path is of a page.
func IsPath(p string) bool { return p+"/" == Path || strings.HasPrefix(p, Path) }

// Browsers request FaviconPath if a page names no icon. IconPath redirects to the icon's asset.
const (
	FaviconPath = "/favicon.ico"
	IconPath    = Path + "favicon.ico"
)

// Root redirects the root of a host to its first page, FaviconPath to IconPath, and an unknown path to a page that says
// that it is unknown.
var Root http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	to := Path
	switch path := r.URL.Path; {
	case path == FaviconPath:
		to = IconPath
		w.Header().Set("Cache-Control", "public, max-age=86400")
	case !IsPath(path):
		to += url.PathEscape(strings.TrimPrefix(path, "/"))
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
})

// IsRead reports whether a request reads.
func IsRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// prefersPage reports whether the client ranks HTML above JSON by name, as browsers do. Clients that take
// anything get JSON.
func prefersPage(r *http.Request) bool {
	if !IsRead(r) {
		return false
	}
	ranks := map[string]float64{}
	for one := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		media, params, err := mime.ParseMediaType(one)
		if err != nil {
			continue
		}
		rank := 1.0
		if q, ok := params["q"]; ok {
			if rank, err = strconv.ParseFloat(q, 64); err != nil {
				continue
			}
		}
		ranks[media] = max(ranks[media], rank)
	}
	json, ok := 0.0, false
	for _, media := range []string{"application/json", "application/*", "*/*"} {
		if json, ok = ranks[media]; ok {
			break
		}
	}
	return ranks["text/html"] > json
}

// ServePages redirects a client that prefers pages to the page of a vacant, if next serves the vacant's card. If next does
// not find a path, pages answers such a client. Otherwise ServePages answers as next does.
func ServePages(next, pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, rest, below := message.Split(r.URL.Path)
		isVacant := below && name != "" && (rest == "" || rest == "/")
		next.ServeHTTP(&pageWriter{ResponseWriter: w, request: r, pages: pages, isVacant: isVacant, prefers: prefersPage(r)}, r)
	})
}

// pageWriter is a response writer that replaces an answer of 404, and one of 200 at the address of a vacant, for clients
// that prefer pages.
type pageWriter struct {
	http.ResponseWriter
	request                            *http.Request
	pages                              http.Handler
	isVacant, prefers, begun, replaced bool
}

// Unwrap lets handlers flush their streams.
func (p *pageWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p *pageWriter) WriteHeader(status int) {
	if p.begun {
		return
	}
	p.begun = true
	h := p.Header()
	if status == http.StatusNotFound || p.isVacant && status < http.StatusBadRequest {
		h.Add("Vary", "Accept")
	}
	if p.replaced = p.prefers && (status == http.StatusNotFound || p.isVacant && status == http.StatusOK); !p.replaced {
		p.ResponseWriter.WriteHeader(status)
		return
	}
	for name := range h {
		if name != "Vary" && name != "X-Request-Id" && !strings.HasPrefix(name, "Access-Control-") {
			h.Del(name)
		}
	}
	if status == http.StatusNotFound {
		p.pages.ServeHTTP(p.ResponseWriter, p.request)
		return
	}
	name, _, _ := message.Split(p.request.URL.Path)
	h.Set("Location", VacantPath(name))
	h.Set("Cache-Control", "public, max-age=60")
	p.ResponseWriter.WriteHeader(http.StatusSeeOther)
}

func (p *pageWriter) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	if p.replaced {
		return len(b), nil
	}
	return p.ResponseWriter.Write(b)
}
