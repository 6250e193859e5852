package outbound

import (
	"io"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// MaxStream limits a reply's body that an HTTPClient reads, in bytes.
const MaxStream = 4 << 20

// HTTPClient returns an http.Client for one actor, for libraries that send requests themselves. It
// makes the same checks as Do and returns the same errors, but a redirect is an error of kind
// Forbidden. Only the request's context limits the time.
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
	reply.Body = &limited{ReadCloser: reply.Body, left: MaxStream, fail: func(err error) error { return failure(ctx, req.URL.Host, err) },
		over: func() error {
			return problem.New(problem.TooLarge, "reply of %s: expected at most %d bytes", req.URL.Host, MaxStream)
		}}
	return reply, nil
}

func (t transport) send(req *http.Request, target string) (*http.Response, error) {
	if _, err := ParseURL(target); err != nil {
		return nil, err
	}
	if err := t.client.Permit(req.Context(), t.as, target); err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Header.Set("User-Agent", userAgent)
	if trace := obs.UsageOf(req.Context()).Trace(); trace != "" {
		req.Header.Set(obs.TraceHeader, "Root="+trace)
	}
	reply, err := t.client.sender(t.as).Transport.RoundTrip(req)
	if err != nil {
		return nil, failure(req.Context(), req.URL.Host, err)
	}
	return reply, nil
}

// limited is a reply body that returns an error after left bytes.
type limited struct {
	io.ReadCloser
	left int
	fail func(error) error // converts an error of the connection
	over func() error      // returns the error for a body that is too long
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p[:min(len(p), l.left+1)])
	if l.left -= n; l.left < 0 {
		return 0, l.over()
	}
	if err != nil && err != io.EOF {
		err = l.fail(err)
	}
	return n, err
}
