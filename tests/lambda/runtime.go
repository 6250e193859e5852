//go:build unix

package lambda

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"time"
)

type invocation struct {
	id    string
	event []byte
	trace string // X-Ray's header, with the lineage
	limit time.Time
}

type answer struct {
	id     string
	body   []byte
	failed bool
}

// routes serves the part of the Runtime API that a function needs.
func (f *Function) routes() http.Handler {
	mux := http.NewServeMux()
	const root = "/2018-06-01/runtime/"
	mux.HandleFunc("GET "+root+"invocation/next", f.serveNext)
	mux.HandleFunc("POST "+root+"invocation/{id}/response", f.serveAnswer(false))
	mux.HandleFunc("POST "+root+"invocation/{id}/error", f.serveAnswer(true))
	return mux
}

func (f *Function) serveNext(w http.ResponseWriter, r *http.Request) {
	f.polled.CompareAndSwap(0, int64(time.Since(f.started)))
	select {
	case f.waiting <- struct{}{}:
	default:
	}
	select {
	case inv := <-f.next:
		<-f.waiting
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Lambda-Runtime-Aws-Request-Id", inv.id)
		h.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(inv.limit.UnixMilli(), 10))
		h.Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:us-east-1:000000000000:function:test")
		h.Set("Lambda-Runtime-Trace-Id", inv.trace)
		_, _ = w.Write(inv.event) // if the process has died, callers get ErrDied
	case <-r.Context().Done():
	}
}

func (f *Function) serveAnswer(failed bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f.handing.Lock()
		defer f.handing.Unlock()
		if f.opts.Answering != nil {
			f.opts.Answering(f, false)
		}
		if f.dead() {
			return // the body may be incomplete: Lambda would have read none of it
		}
		body, err := f.read(r.Body)
		if err != nil {
			return // the process died while writing
		}
		// A streamed answer reports its failure in a trailer.
		broken := failed || r.Trailer.Get("Lambda-Runtime-Function-Error-Type") != ""
		if f.opts.Answering != nil {
			f.opts.Answering(f, true)
		}
		select {
		case f.answers <- answer{r.PathValue("id"), body, broken}:
		default: // full of unclaimed answers
		}
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write([]byte(`{"status":"OK"}`))
	}
}

// read reads an answer in the pieces in which it comes.
func (f *Function) read(r io.Reader) (all []byte, err error) {
	piece := make([]byte, 64<<10)
	for {
		n, err := r.Read(piece)
		if n > 0 && f.opts.Piece != nil {
			f.opts.Piece(bytes.Clone(piece[:n]))
		}
		all = append(all, piece[:n]...)
		switch {
		case err == io.EOF:
			return all, nil
		case err != nil:
			return nil, err
		}
	}
}
