// Package serve assembles the handlers of one host: the public listener, and
// the admin socket that only the user of the machine can open.
//
// The invariants: no admin route is served on the public listener of a machine,
// except the one where a parent requests children by its own signature. Neither
// another user of the machine nor a page in a browser reaches the admin socket.
// A host with an operator key serves the admin routes to holders of that key
// only, with the same exception.
package serve

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/front/registryapi"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Limits of a host's HTTP servers. A client gets little time for what it
// sends, so that slow ones hold connections and nothing else; the write limit
// leaves room for the slowest call (call.DefaultWork and what follows it).
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 30 * time.Second
	writeTimeout  = 60 * time.Second
	idleTimeout   = 120 * time.Second
	maxHeader     = 16 << 10
)

// Handlers are the public handlers of a host. Message is needed; where another is nil
// its routes are not there.
type Handlers struct {
	Message, Registry, Search http.Handler
	Gate                      http.Handler // of graduations
	// Children is where parents ask for children by their own signatures: the one
	// route of the admin socket that is here too.
	Children http.Handler
}

// Public is the handler of the public listener of a host with calls alone.
func Public(message http.Handler) http.Handler { return Handlers{Message: message}.Public() }

// Public is the handler of the public listener. What begins like a control
// route is not found there, whatever message would make of its ending.
func (d Handlers) Public() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.route(r.URL.Path).ServeHTTP(w, r)
	})
}

// route returns the handler of a path. Endings of signed calls come before the
// registry's routes, because callers append them to any base URL.
func (d Handlers) route(path string) http.Handler {
	switch {
	case d.Children != nil && admin.ChildrenPath(path):
		return d.Children
	case adminRoute(path):
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			httpapi.Fail(w, problem.New(problem.NotFound, "no such path"))
		})
	case !strings.HasPrefix(path, "/v1/"), strings.HasSuffix(path, message.SendPath),
		strings.HasSuffix(path, message.AskPath), strings.HasSuffix(path, message.ResetPath):
		return d.Message
	case d.Gate != nil && (path == admin.GraduationsPath || strings.HasPrefix(path, admin.GraduationsPath+"/")):
		return d.Gate
	case registryapi.IsSearchPath(path) && d.Search != nil:
		return d.Search
	case d.Registry != nil:
		return d.Registry
	}
	return d.Message
}

// adminRoute reports whether path is the operator's, whatever follows the prefix.
func adminRoute(path string) bool {
	return path+"/" == admin.Prefix || strings.HasPrefix(path, admin.Prefix)
}

// AdminHandler is the handler of an open admin socket over the account routes.
func AdminHandler(d *AdminListener, routes http.Handler) http.Handler {
	if d.token == "" {
		return routes
	}
	return authorized(d.token, routes)
}

// Endpoint is a listener and what it serves.
type Endpoint struct {
	Listener net.Listener
	Handler  http.Handler
	// Streams lets answers take as long as they need, for the admin socket.
	Streams bool
}

// Run serves handlers until ctx ends or one of them fails, then gives what is
// under way the grace and closes. Connections that are still open after it are
// cut: an accepted call loses its answer on the way, not its row. The error is
// nil after an orderly end.
func Run(ctx context.Context, log *slog.Logger, grace time.Duration, handlers ...Endpoint) error {
	g, failed := errgroup.WithContext(ctx)
	for _, d := range handlers {
		s := httpServer(d, log)
		g.Go(func() error {
			if err := s.Serve(d.Listener); !errors.Is(err, http.ErrServerClosed) {
				return problem.Wrap(problem.Unavailable, err, "listener %s failed", d.Listener.Addr())
			}
			return nil
		})
		g.Go(func() error {
			<-failed.Done()
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
			defer cancel()
			if s.Shutdown(end) != nil {
				s.Close()
			}
			return nil
		})
	}
	return g.Wait()
}

func httpServer(d Endpoint, log *slog.Logger) *http.Server {
	s := &http.Server{
		Handler:           d.Handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	if d.Streams {
		s.WriteTimeout = 0
	}
	return s
}
