package outbound

import (
	"io"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const MaxStreamBytes = 4 << 20

// HTTPClient returns an http.Client that makes the same checks as Do. A redirect is an error of
// kind Forbidden, and only the request's context limits the time.
func (a ActorClient) HTTPClient() *http.Client { return &http.Client{Transport: transport(a)} }

type transport ActorClient

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, target := req.Context(), req.URL.String()
	reply, err := t.send(req, target)
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	if reply.StatusCode >= 300 && reply.StatusCode < 400 {
		reply.Body.Close()
		return nil, problem.New(problem.Forbidden, "%s answers with a redirect, status %d, which is not followed", req.URL.Host, reply.StatusCode)
	}
	reply.Body = &limitedBody{ReadCloser: reply.Body, remaining: MaxStreamBytes, connectionError: func(err error) error { return requestError(ctx, req.URL.Host, err) },
		tooLargeError: func() error {
			return problem.New(problem.TooLarge, "reply of %s: expected at most %d bytes", req.URL.Host, MaxStreamBytes)
		}}
	return reply, nil
}

func (t transport) send(req *http.Request, target string) (*http.Response, error) {
	if _, err := ParseURL(target); err != nil {
		return nil, err
	}
	if err := t.client.CheckPermission(req.Context(), t.actor, target); err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Header.Set("User-Agent", userAgent)
	if trace := obs.UsageOf(req.Context()).TraceID(); trace != "" {
		req.Header.Set(obs.TraceHeader, "Root="+trace)
	}
	reply, err := t.client.clientFor(t.actor).Transport.RoundTrip(req)
	if err != nil {
		return nil, requestError(req.Context(), req.URL.Host, err)
	}
	return reply, nil
}

type limitedBody struct {
	io.ReadCloser
	remaining       int
	connectionError func(error) error
	tooLargeError   func() error
}

func (l *limitedBody) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p[:min(len(p), l.remaining+1)])
	if l.remaining -= n; l.remaining < 0 {
		return 0, l.tooLargeError()
	}
	if err != nil && err != io.EOF {
		err = l.connectionError(err)
	}
	return n, err
}
