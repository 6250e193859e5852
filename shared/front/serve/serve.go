// Package serve assembles the handlers of a host: the public listener, and the admin socket that
// only the user of the machine can open.
//
// The public listener of a machine serves only two kinds of admin routes: the route on which a
// parent requests children with its own signature, and the routes of a tenant's own vacants, with
// the tenant's key. Other users of the machine and pages in a browser cannot reach the admin
// socket. A host with an operator key serves the other admin routes only to holders of that key.
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

// Limits of a host's HTTP servers. The read limits prevent slow clients from occupying connections
// for long. The write limit allows call.DefaultCallTimeout and the time to send the answer.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 30 * time.Second
	writeTimeout  = 60 * time.Second
	idleTimeout   = 120 * time.Second
	maxHeader     = 16 << 10
)

// Handlers contains the public handlers of a host. Message is required. The routes of a nil handler
// do not exist.
type Handlers struct {
	Message, Registry, Search http.Handler
	// Protocols lists the protocols for callers that do not sign. Plain serves them. If several
	// protocols have a path, the first one serves it.
	Protocols []plain.Protocol
	Plain     *plain.Service
	Gate      http.Handler // graduations
	Account   http.Handler // tenants
	Team      http.Handler // tasks, agents and files of accounts
	Work      http.Handler // turns for workers
	AGP       http.Handler
	// Web serves the pages. It redirects a browser from the address of a vacant to the vacant's
	// page, and answers a browser's request for an unknown path with a 404 page.
	Web http.Handler
	// Metrics is true if AGP also serves agp.MetricsPath.
	Metrics bool
	// Children is the route on which parents request children with their own signatures. Children
	// and Tenants are the only public admin routes.
	Children http.Handler
	// Tenants serves the admin routes to requests with a key.
	Tenants http.Handler
	// Resource serves the metadata from which clients learn how to get a credential. MetadataURL
	// returns the metadata URL of the resource that a request calls.
	Resource    http.Handler
	MetadataURL func(*http.Request) string
	// PageJudge decides which web pages may send requests. If PageJudge is nil, a host without
	// Protocols accepts requests of pages of all sites, and a host with Protocols accepts only
	// requests of its own pages.
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

// route returns the handler of a request. The suffixes of signed calls are checked before the
// registry's routes, because callers append them to any base URL.
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
	// Both tokens are hashed before the comparison, so that its duration reveals neither a common
	// prefix nor the length.
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

// Endpoint is a listener with its handler.
type Endpoint struct {
	Listener net.Listener
	Handler  http.Handler
	// NoWriteLimit removes the write limit. It is for the admin socket.
	NoWriteLimit bool
	// CallTimeout is the maximum duration of an answer. A value below call.DefaultCallTimeout has no
	// effect.
	CallTimeout time.Duration
}

// Run serves endpoints until ctx ends or one of them fails. It then waits for running requests, but
// not longer than grace, and closes connections that are still open. If a call was accepted on such
// a connection, its answer is stored, but not delivered. The error is nil after an orderly
// shutdown.
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
