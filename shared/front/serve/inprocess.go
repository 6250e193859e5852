package serve

import (
	"io"
	"net/http"
)

// InProcessClient returns a client that calls h in this process, and its base URL. The caller must
// close response bodies.
func InProcessClient(h http.Handler) (*http.Client, string) {
	return adminClient(handlerTransport{h}), adminURL
}

type handlerTransport struct{ handler http.Handler }

func (d handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	bodyReader, bodyWriter := io.Pipe()
	w := &pipeResponseWriter{header: http.Header{}, bodyWriter: bodyWriter, response: make(chan *http.Response, 1), request: r, bodyReader: bodyReader}
	req := r.Clone(r.Context())
	req.Host, req.RequestURI, req.RemoteAddr = r.URL.Host, r.URL.RequestURI(), "in process"
	if req.Body == nil {
		req.Body = http.NoBody
	}
	go func() {
		defer func() {
			if p := recover(); p != nil {
				w.WriteHeader(http.StatusInternalServerError)
				bodyWriter.CloseWithError(io.ErrUnexpectedEOF)
				return
			}
			w.WriteHeader(http.StatusOK)
			bodyWriter.Close()
		}()
		d.handler.ServeHTTP(w, req)
	}()
	select {
	case resp := <-w.response:
		return resp, nil
	case <-r.Context().Done():
		bodyReader.CloseWithError(r.Context().Err())
		return nil, r.Context().Err()
	}
}

type pipeResponseWriter struct {
	header      http.Header
	bodyWriter  *io.PipeWriter
	bodyReader  *io.PipeReader
	response    chan *http.Response
	request     *http.Request
	wroteHeader bool
}

func (w *pipeResponseWriter) Header() http.Header { return w.header }

func (w *pipeResponseWriter) WriteHeader(status int) {
	if w.wroteHeader {
		return
	}
	w.wroteHeader = true
	w.response <- &http.Response{
		Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header.Clone(), Body: w.bodyReader, ContentLength: -1, Request: w.request,
	}
}

func (w *pipeResponseWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.bodyWriter.Write(b)
}

func (w *pipeResponseWriter) Flush() { w.WriteHeader(http.StatusOK) }
