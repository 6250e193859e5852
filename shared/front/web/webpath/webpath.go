// Package webpath defines the addresses of the pages for browsers. It does not contain the pages,
// so that functions that only redirect stay small.
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

const Path = "/web/"

// VacantPath returns the address of a vacant's page. It normalizes ids, because a page has only one
// address.
func VacantPath(vacant string) string {
	if id, err := identity.ParseID(vacant); err == nil {
		vacant = id.String()
	}
	return Path + "vacants/" + url.PathEscape(vacant)
}

func IsPath(p string) bool { return p+"/" == Path || strings.HasPrefix(p, Path) }

const (
	FaviconPath = "/favicon.ico"
	IconPath    = Path + "favicon.ico"
)

// Redirect redirects the root of a host to its first page, and an unknown path to an error page.
var Redirect http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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

func IsReadRequest(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead
}

func prefersPage(r *http.Request) bool {
	if !IsReadRequest(r) {
		return false
	}
	ranks := map[string]float64{}
	for mediaRange := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		media, params, err := mime.ParseMediaType(mediaRange)
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
	jsonRank, ok := 0.0, false
	for _, media := range []string{"application/json", "application/*", "*/*"} {
		if jsonRank, ok = ranks[media]; ok {
			break
		}
	}
	// Clients that accept any type get JSON.
	return ranks["text/html"] > jsonRank
}

// ServePages redirects browsers from a vacant's card to its page, and replaces 404 answers of next
// with pages.
func ServePages(next, pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, rest, isVacantPath := message.SplitPath(r.URL.Path)
		isVacant := isVacantPath && name != "" && (rest == "" || rest == "/")
		next.ServeHTTP(&pageWriter{ResponseWriter: w, request: r, pages: pages, isVacant: isVacant, prefersPages: prefersPage(r)}, r)
	})
}

// pageWriter replaces responses with status 404, and cards of vacants.
type pageWriter struct {
	http.ResponseWriter
	request                                         *http.Request
	pages                                           http.Handler
	isVacant, prefersPages, wroteHeader, isReplaced bool
}

func (p *pageWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p *pageWriter) WriteHeader(status int) {
	if p.wroteHeader {
		return
	}
	p.wroteHeader = true
	h := p.Header()
	if status == http.StatusNotFound || p.isVacant && status < http.StatusBadRequest {
		h.Add("Vary", "Accept")
	}
	if p.isReplaced = p.prefersPages && (status == http.StatusNotFound || p.isVacant && status == http.StatusOK); !p.isReplaced {
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
	name, _, _ := message.SplitPath(p.request.URL.Path)
	h.Set("Location", VacantPath(name))
	h.Set("Cache-Control", "public, max-age=60")
	p.ResponseWriter.WriteHeader(http.StatusSeeOther)
}

func (p *pageWriter) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	if p.isReplaced {
		return len(b), nil
	}
	return p.ResponseWriter.Write(b)
}
