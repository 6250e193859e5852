// Package web serves the HTML pages of a host, which show the public API to people.
//
// The pages use only answers that the public API gives to anonymous clients. The page of a hidden
// vacant equals the page of an unknown vacant byte for byte. Pages work without JavaScript, load no
// resources from other hosts, and set no cookies.
package web

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/web/webpath"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const Path = webpath.Path

type Config struct {
	API http.Handler
	Log *slog.Logger
	Now func() time.Time
}

// Handler serves the pages and the paths accepted by webpath.IsPath. Other paths get an HTML error
// page.
func Handler(c Config) http.Handler {
	hits, err := lru.New[identity.Hash, hit](maxCachedHits)
	if err != nil {
		panic(err) // cannot happen, because the size is positive
	}
	s := &site{c, hits}
	mux := http.NewServeMux()
	for pattern, f := range map[string]func(*http.Request, *reader) (*page, error){
		Path + "{$}": s.homePage, Path + "search": s.searchPage, Path + "vacants/{vacant}": s.vacantPage,
		Path + "log": s.logPage, Path + "log/{seq}": s.eventPage, "/": notFoundPage,
		Path + "keys": staticPage("keys", "Your keys"), Path + "chains": staticPage("chains", "Check a chain"),
	} {
		mux.HandleFunc(pattern, s.pageHandler(f))
	}
	mux.HandleFunc(Path+"assets/{hash}/{name}", s.serveAsset)
	mux.Handle(webpath.IconPath, http.RedirectHandler(assetPath+"icon.svg", http.StatusSeeOther))
	mux.Handle("/{$}", webpath.Redirect)
	mux.Handle(webpath.FaviconPath, webpath.Redirect)
	mux.Handle(strings.TrimSuffix(Path, "/"), webpath.Redirect)
	notFound := s.pageHandler(notFoundPage)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A ServeMux would redirect to the cleaned path.
		if clean := path.Clean(r.URL.Path); r.URL.Path != clean && r.URL.Path != clean+"/" {
			notFound(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// errPageNotFound is the error for all hidden and unknown vacants, so that clients cannot tell them
// apart.
var errPageNotFound = problem.New(problem.NotFound, "this host has no such page or vacant")

func notFoundPage(*http.Request, *reader) (*page, error) { return nil, errPageNotFound }

func staticPage(name, title string) func(*http.Request, *reader) (*page, error) {
	return func(*http.Request, *reader) (*page, error) {
		return &page{file: name + ".html", Title: title, Script: name + ".js", CacheSeconds: 10}, nil
	}
}

type site struct {
	Config
	hits *lru.Cache[identity.Hash, hit] // keyed by the hash of their signed parts
}

type page struct {
	file         string
	Title        string
	Script       string
	CacheSeconds int
	Hidden       bool // asks search engines not to index the page
	Status       int
	RetryAfter   string
	Data         any
}

func (s *site) pageHandler(f func(*http.Request, *reader) (*page, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		start := s.Now()
		setSecurityHeaders(w.Header())
		var p *page
		err := error(problem.New(problem.MethodNotAllowed, "pages are read with GET"))
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			p, err = f(r, s.newReader(r))
		}
		if err == nil {
			p.Status = http.StatusOK
		} else {
			pageErr := problem.AsError(err)
			forms, text := pageErr.Kind.Forms(), pageErr.Text()
			var statusErr *registryclient.StatusError
			if errors.As(err, &statusErr) || forms.HTTPStatus >= http.StatusInternalServerError {
				text = forms.DefaultMessage // the details are meant for programs
			}
			p = &page{file: "error.html", Title: forms.DefaultMessage, Status: forms.HTTPStatus, Hidden: true, Data: struct{ Code, Text string }{pageErr.Kind.String(), text}}
			if statusErr != nil {
				p.RetryAfter = statusErr.RetryAfter
			}
		}
		status, failure := s.sendPage(w, r, p)
		level := slog.LevelDebug
		attrs := []slog.Attr{slog.Int(obs.AttrStatus, status), slog.String("path", httpapi.TruncatePath(r.URL.Path)), obs.DurationAttr(s.Now().Sub(start))}
		if status >= http.StatusInternalServerError {
			level = slog.LevelError
			attrs = append(attrs, slog.String("cause", fmt.Sprint(cmp.Or(failure, err))))
		}
		s.Log.LogAttrs(context.WithoutCancel(r.Context()), level, "page", attrs...)
	}
}

func (s *site) sendPage(w http.ResponseWriter, r *http.Request, p *page) (status int, err error) {
	var body bytes.Buffer
	err = templates.ExecuteTemplate(&body, p.file, struct {
		*page
		Assets string
	}{p, assetPath})
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return http.StatusInternalServerError, err
	}
	if p.Hidden {
		h.Set("X-Robots-Tag", "noindex")
	}
	if p.Status == http.StatusOK {
		sum := identity.Sum(body.Bytes())
		tag := `"` + hex.EncodeToString(sum[:16]) + `"`
		h.Set("ETag", tag)
		h.Set("Cache-Control", "public, max-age="+strconv.Itoa(p.CacheSeconds))
		if strings.Contains(strings.Join(r.Header.Values("If-None-Match"), ","), tag) {
			w.WriteHeader(http.StatusNotModified)
			return http.StatusNotModified, nil
		}
	}
	if p.RetryAfter != "" {
		h.Set("Retry-After", p.RetryAfter)
	}
	if p.Status == http.StatusMethodNotAllowed {
		h.Set("Allow", "GET, HEAD")
	}
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body.Bytes())
	}
	return p.Status, nil
}

// contentSecurityPolicy allows a page to load only files of its own host, and prevents scripts from
// executing strings as code.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

func setSecurityHeaders(h http.Header) {
	for name, value := range map[string]string{
		"Content-Security-Policy": contentSecurityPolicy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		h.Set(name, value)
	}
}

//go:embed assets/*.js assets/*.css assets/*.svg
var assetFiles embed.FS

//go:embed pages/*.html
var pageFiles embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"show": showInvisible, "short": identity.ID.Short, "moment": formatMillis, "since": formatWireTime, "counted": formatCount, "vacantPath": webpath.VacantPath,
	"has": func(asset string) bool {
		_, err := fs.Stat(assetFiles, "assets/"+asset)
		return err == nil
	},
}).ParseFS(pageFiles, "pages/*.html"))

// assetPath contains the hash of all assets, so that a changed asset gets a new address.
var (
	assetsHash = hashAssets()
	assetPath  = Path + "assets/" + assetsHash + "/"
)

func hashAssets() string {
	var content bytes.Buffer
	err := fs.WalkDir(assetFiles, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := assetFiles.ReadFile(name)
		fmt.Fprintf(&content, "%s %d\n%s", name, len(b), b)
		return err
	})
	if err != nil {
		panic(err) // the files are embedded in the program
	}
	sum := identity.Sum(content.Bytes())
	return hex.EncodeToString(sum[:8])
}

// mediaTypes does not use the operating system, which may classify scripts as plain text.
var mediaTypes = map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}

// serveAsset serves an embedded file. Pages of an earlier program contain an outdated hash, which
// clients may cache only for a minute.
func (s *site) serveAsset(w http.ResponseWriter, r *http.Request) {
	setSecurityHeaders(w.Header())
	name := r.PathValue("name")
	b, err := assetFiles.ReadFile("assets/" + name)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid):
		httpapi.Fail(w, errPageNotFound)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		httpapi.Fail(w, problem.New(problem.MethodNotAllowed, "files are read with GET"))
		return
	}
	if ext := path.Ext(name); ext == ".js" || ext == ".css" {
		b = []byte(compact(string(b)))
	}
	h := w.Header()
	h.Set("Content-Type", mediaTypes[path.Ext(name)])
	h.Set("Cache-Control", "public, max-age=60")
	if r.PathValue("hash") == assetsHash {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	h.Set("Content-Length", strconv.Itoa(len(b)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(b)
	}
}
