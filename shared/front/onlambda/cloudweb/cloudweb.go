// Package cloudweb implements functions/web, which serves a host's pages for browsers. It reads
// other functions of the stage like any client of the public API.
//
// The function only reads, and it forwards no credential of a reader. The functions that it reads
// apply their rate limits to the reader's address, as if the reader had sent the request. It sends
// the edge's secret only to functions of the stage.
package cloudweb

import (
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/edge"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/web"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func Serve() { onlambda.ServeWithoutHost(functions.Web, Handler) }

// Handler returns the handler of the pages. If the stage has no edge, the handler answers 404,
// because the links of a page lead to paths of several functions, which only an edge combines at
// one URL.
func Handler(s onlambda.Settings, log *slog.Logger) http.Handler {
	if len(s.Secrets) == 0 {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			httpapi.Fail(w, problem.New(problem.NotFound, "a host without CloudFront has no pages"))
		})
	}
	return web.Handler(web.Config{API: newStage(s, log), Log: log, Now: func() time.Time { return time.Now().Round(0) }})
}

// readTime limits one read, so that all reads of a page end before the function's timeout.
const readTime = 8 * time.Second

type stage struct {
	urls   map[string]string // base URLs of functions by name
	secret string
	client *http.Client
	log    *slog.Logger
}

func newStage(s onlambda.Settings, log *slog.Logger) *stage {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	return &stage{s.Handlers, s.Secrets[0], &http.Client{
		Transport: transport, Timeout: readTime,
		// The secret must not be sent to another URL.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, log}
}

func (s *stage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The edge would route the path to the same function.
	f := functions.Route(r.URL.Path).To
	url, ok := s.urls[f.Name]
	if !ok || r.Method != http.MethodGet {
		httpapi.Fail(w, problem.New(problem.NotFound, "no page uses %s", httpapi.ClipPath(r.URL.Path)))
		return
	}
	reply, err := s.read(r, url)
	if err != nil {
		s.log.LogAttrs(r.Context(), slog.LevelWarn, "a function does not answer", slog.String("name", f.Name), slog.String("cause", err.Error()))
		httpapi.Fail(w, problem.Wrap(problem.Unavailable, err, "a part of this host does not answer"))
		return
	}
	defer reply.Body.Close()
	for name, values := range reply.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(reply.StatusCode)
	_, _ = io.Copy(w, reply.Body) // an incomplete answer cannot be parsed
}

func (s *stage) read(r *http.Request, url string) (*http.Response, error) {
	if r.URL.RawQuery != "" {
		url += r.URL.EscapedPath() + "?" + r.URL.RawQuery
	} else {
		url += r.URL.EscapedPath()
	}
	q, err := http.NewRequestWithContext(r.Context(), http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	for name, values := range r.Header {
		q.Header[name] = values
	}
	viewer, _ := netip.ParseAddr(r.RemoteAddr)
	if addrPort, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		viewer = addrPort.Addr()
	}
	edge.Forward(q.Header, s.secret, viewer)
	return s.client.Do(q)
}
