// Package cloudweb implements functions/web, which serves a host's pages for browsers. It reads
// other functions of the stage like any client of the public API, and forwards no credential of a
// reader.
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
// because only an edge combines the functions at one URL.
func Handler(s onlambda.Settings, log *slog.Logger) http.Handler {
	if len(s.EdgeSecrets) == 0 {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			httpapi.Fail(w, problem.New(problem.NotFound, "a host without CloudFront has no pages"))
		})
	}
	return web.Handler(web.Config{API: newStageAPI(s, log), Log: log, Now: func() time.Time { return time.Now().Round(0) }})
}

// All reads of a page must end before the function's timeout.
const readTimeout = 8 * time.Second

type stageAPI struct {
	baseURLs map[string]string
	secret   string
	client   *http.Client
	log      *slog.Logger
}

func newStageAPI(s onlambda.Settings, log *slog.Logger) *stageAPI {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	return &stageAPI{s.FunctionURLs, s.EdgeSecrets[0], &http.Client{
		Transport: transport, Timeout: readTimeout,
		// The secret must not be sent to another URL.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, log}
}

func (s *stageAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := functions.Route(r.URL.Path).Function
	url, ok := s.baseURLs[f.Name]
	if !ok || r.Method != http.MethodGet {
		httpapi.Fail(w, problem.New(problem.NotFound, "pages do not read the path %s", httpapi.TruncatePath(r.URL.Path)))
		return
	}
	reply, err := s.fetch(r, url)
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

func (s *stageAPI) fetch(r *http.Request, url string) (*http.Response, error) {
	if r.URL.RawQuery != "" {
		url += r.URL.EscapedPath() + "?" + r.URL.RawQuery
	} else {
		url += r.URL.EscapedPath()
	}
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	for name, values := range r.Header {
		req.Header[name] = values
	}
	readerAddr, _ := netip.ParseAddr(r.RemoteAddr)
	if addrPort, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		readerAddr = addrPort.Addr()
	}
	edge.SetForwardHeaders(req.Header, s.secret, readerAddr)
	return s.client.Do(req)
}
