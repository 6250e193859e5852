package serve

import (
	"io"
	"net/http"
)

// InProcess returns a client of h and its base URL, for a command that opened the data file itself
// because no host runs. Answers are streams: the handler writes only as fast as the body is read,
// and its writes fail after the body is closed.
func InProcess(h http.Handler) (*http.Client, string) {
	return adminClient(direct{h}), adminURL
}

// direct is a transport that calls a handler.
type direct struct{ handler http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	body, pipe := io.Pipe()
	w := &piped{header: http.Header{}, body: pipe, ready: make(chan *http.Response, 1), request: r, reader: body}
	in := r.Clone(r.Context())
	in.Host, in.RequestURI, in.RemoteAddr = r.URL.Host, r.URL.RequestURI(), "in process"
	if in.Body == nil {
		in.Body = http.NoBody
	}
	go func() {
		defer func() {
			// As in net/http's server, a panic fails only one request.
			if p := recover(); p != nil {
				w.WriteHeader(http.StatusInternalServerError)
				pipe.CloseWithError(io.ErrUnexpectedEOF)
				return
			}
			w.WriteHeader(http.StatusOK)
			pipe.Close()
		}()
		d.handler.ServeHTTP(w, in)
	}()
	select {
	case resp := <-w.ready:
		return resp, nil
	case <-r.Context().Done():
		body.CloseWithError(r.Context().Err())
		return nil, r.Context().Err()
	}
}

// piped is the response writer of one request. Every write is visible immediately.
type piped struct {
	header  http.Header
	body    *io.PipeWriter
	reader  *io.PipeReader
	ready   chan *http.Response
	request *http.Request
	sent    bool
}

func (w *piped) Header() http.Header { return w.header }

func (w *piped) WriteHeader(status int) {
	if w.sent {
		return
	}
	w.sent = true
	w.ready <- &http.Response{
		Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header.Clone(), Body: w.reader, ContentLength: -1, Request: w.request,
	}
}

func (w *piped) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

func (w *piped) Flush() { w.WriteHeader(http.StatusOK) }
