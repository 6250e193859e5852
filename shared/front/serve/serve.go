// Package serve assembles the handlers of a host: the public listener, and the admin socket that
// only the user of the machine can open.
//
// The public listener serves only two kinds of admin routes: the request of a parent for children,
// which the parent signs, and the routes of a tenant's own vacants. A host with an operator key
// also serves the other admin routes to holders of that key.
package serve

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/agp"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/front/origin"
	"github.com/vacancy-host/vacancy/shared/front/plain"
	"github.com/vacancy-host/vacancy/shared/front/registryapi"
	"github.com/vacancy-host/vacancy/shared/front/resource"
	"github.com/vacancy-host/vacancy/shared/front/teamapi"
	"github.com/vacancy-host/vacancy/shared/front/web/webpath"
	"github.com/vacancy-host/vacancy/shared/front/workapi"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// The read limits prevent slow clients from occupying connections for long.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 30 * time.Second
	writeTimeout  = 60 * time.Second // call.DefaultCallTimeout and time to send the answer
	idleTimeout   = 120 * time.Second
	maxHeader     = 16 << 10
)

// Handlers contains the public handlers of a host. Message is required. A nil handler has no
// routes.
type Handlers struct {
	Message, Registry, Search http.Handler
	// Plain serves Protocols. If several protocols have the same path, the first one serves it.
	Protocols   []plain.Protocol
	Plain       *plain.Service
	Gate        http.Handler
	Account     http.Handler
	Team        http.Handler
	Work        http.Handler
	AGP         http.Handler
	Web         http.Handler
	Metrics     bool
	Children    http.Handler
	Tenants     http.Handler
	Resource    http.Handler
	MetadataURL func(*http.Request) string
	// PageJudge decides which web pages may send requests. If PageJudge is nil, a host without
	// Protocols accepts requests of all pages, and a host with Protocols accepts only requests of
	// its own pages.
	PageJudge *origin.Judge
}

var NotFound http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	httpapi.Fail(w, problem.New(problem.NotFound, "no such path"))
})

func Public(message http.Handler) http.Handler { return Handlers{Message: message}.Public() }

// Public returns the handler of the public listener. It answers 404 for all admin paths except the
// paths of Children and Tenants.
func (d Handlers) Public() http.Handler {
	var public http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.route(r).ServeHTTP(w, r)
	})
	if d.PageJudge == nil && d.Protocols != nil {
		d.PageJudge = &origin.Judge{}
	}
	if d.PageJudge != nil {
		public = guardPages(d.PageJudge, public)
	}
	if d.MetadataURL == nil {
		return public
	}
	return httpapi.WithLoginMetadata(public, d.MetadataURL)
}

// The suffixes of signed calls come before the registry's routes, because callers append them to
// any base URL.
func (d Handlers) route(r *http.Request) http.Handler {
	path := r.URL.Path
	switch {
	case d.Tenants != nil && isAdminPath(path) && r.Header["Authorization"] != nil:
		return d.Tenants
	case d.Children != nil && admin.IsChildrenPath(path):
		return d.Children
	case isAdminPath(path):
		return NotFound
	case message.IsPath(path):
		return d.Message
	case d.Registry != nil && registryapi.IsReviewPath(path):
		return d.Registry
	case d.Web != nil && (webpath.IsPath(path) || (path == "/" || path == webpath.FaviconPath) && webpath.IsReadRequest(r)):
		return d.Web
	case d.AGP != nil && agp.IsPath(path, d.Metrics):
		return d.AGP
	case d.Resource != nil && resource.IsPath(path):
		return d.Resource
	}
	for _, p := range d.Protocols {
		switch {
		case !p.Matches(r):
			continue
		case p.AnswersBrowsers:
			return d.Plain.Handler(p)
		}
		return d.withWebPages(r, d.Plain.Handler(p))
	}
	switch {
	case !strings.HasPrefix(path, "/v1/"):
		return d.withWebPages(r, d.Message)
	case d.Account != nil && account.IsTenantPath(path):
		return d.Account
	case d.Team != nil && teamapi.IsPath(path):
		return d.Team
	case d.Work != nil && workapi.IsPath(path):
		return d.Work
	case d.Gate != nil && (path == admin.GraduationsPath || strings.HasPrefix(path, admin.GraduationsPath+"/")):
		return d.Gate
	case registryapi.IsSearchPath(path) && d.Search != nil:
		return d.Search
	case d.Registry != nil:
		return d.Registry
	}
	return d.Message
}

func (d Handlers) withWebPages(r *http.Request, next http.Handler) http.Handler {
	if d.Web == nil || !webpath.IsReadRequest(r) {
		return next
	}
	return webpath.ServePages(next, d.Web)
}

func isAdminPath(path string) bool {
	return path+"/" == admin.Prefix || strings.HasPrefix(path, admin.Prefix)
}

func AdminHandler(d *AdminListener, routes http.Handler) http.Handler {
	if d.token == "" {
		return routes
	}
	// The tokens are hashed, so that the duration of the comparison reveals neither a common prefix
	// nor the length.
	want := sha256.Sum256([]byte("Bearer " + d.token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		if subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
			httpapi.Fail(w, problem.New(problem.Unauthorized, "the admin socket needs the token of %s", tokenName))
			return
		}
		routes.ServeHTTP(w, r)
	})
}

type Endpoint struct {
	Listener     net.Listener
	Handler      http.Handler
	NoWriteLimit bool
	CallTimeout  time.Duration
}

// Run serves endpoints until ctx ends or one of them fails. It then waits up to grace for running
// requests and closes the other connections. The error is nil after an orderly shutdown.
func Run(ctx context.Context, log *slog.Logger, grace time.Duration, endpoints ...Endpoint) error {
	g, groupCtx := errgroup.WithContext(ctx)
	for _, endpoint := range endpoints {
		s := httpServer(endpoint, log)
		g.Go(func() error {
			if err := s.Serve(endpoint.Listener); !errors.Is(err, http.ErrServerClosed) {
				return problem.Wrap(problem.Unavailable, err, "listener %s failed", endpoint.Listener.Addr())
			}
			return nil
		})
		g.Go(func() error {
			<-groupCtx.Done()
			shutdownCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
			defer cancel()
			if s.Shutdown(shutdownCtx) != nil {
				s.Close()
			}
			return nil
		})
	}
	return g.Wait()
}

func httpServer(endpoint Endpoint, log *slog.Logger) *http.Server {
	s := &http.Server{
		Handler:           endpoint.Handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	if endpoint.CallTimeout > call.DefaultCallTimeout {
		s.WriteTimeout += endpoint.CallTimeout - call.DefaultCallTimeout
	}
	if endpoint.NoWriteLimit {
		s.WriteTimeout = 0
	}
	return s
}
