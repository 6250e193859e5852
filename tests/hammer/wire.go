package hammer

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// exchangeTime bounds one request and its answer: longer than a host takes for
// the slowest call.
const exchangeTime = 45 * time.Second

// wire is a caller's connection, kept open between calls.
type wire struct {
	target *Target
	conn   net.Conn // nil while none is open
	read   *bufio.Reader
	head   []byte // of every request, up to the length
	out    []byte
	in     bytes.Buffer
	stop   func() bool // ends the watch over ctx
}

func newWire(t *Target) *wire {
	head := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: vacancy-hammer\r\nContent-Type: application/json\r\nContent-Length: ", t.URL.RequestURI(), t.URL.Host)
	return &wire{target: t, head: head}
}

// open connects unless a connection is open. The connection is closed when ctx
// ends.
func (w *wire) open(ctx context.Context) error {
	if w.conn != nil {
		return nil
	}
	conn, err := w.target.dial(ctx)
	if err != nil {
		return err
	}
	if w.target.URL.Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{ServerName: w.target.URL.Hostname()})
	}
	w.conn, w.read = conn, bufio.NewReaderSize(conn, 8<<10)
	w.stop = context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	return nil
}

func (w *wire) close() {
	if w.conn != nil {
		w.stop()
		_ = w.conn.Close()
		w.conn = nil
	}
}

// post sends a body and returns status and answer, which is valid until the
// next call. After an error the connection is closed: later bytes could be
// taken for the answer to another request.
func (w *wire) post(ctx context.Context, body []byte) (status int, answer []byte, took time.Duration, err error) {
	if err := w.open(ctx); err != nil {
		return 0, nil, 0, err
	}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	w.out = append(w.out[:0], w.head...)
	w.out = append(strconv.AppendInt(w.out, int64(len(body)), 10), "\r\n\r\n"...)
	w.out = append(w.out, body...)
	began := time.Now()
	if ctx.Err() != nil {
		return 0, nil, 0, ctx.Err()
	}
	if err := w.conn.SetDeadline(began.Add(exchangeTime)); err != nil {
		return 0, nil, 0, err
	}
	if ctx.Err() != nil { // ctx ended before the deadline was set, which the watch cannot see
		return 0, nil, 0, ctx.Err()
	}
	if _, err := w.conn.Write(w.out); err != nil {
		return 0, nil, 0, err
	}
	resp, err := http.ReadResponse(w.read, nil)
	if err != nil {
		return 0, nil, 0, err
	}
	w.in.Reset()
	n, err := w.in.ReadFrom(io.LimitReader(resp.Body, int64(canon.AnswerLimits().Bytes)+1))
	if err == nil && n > int64(canon.AnswerLimits().Bytes) {
		err = fmt.Errorf("an answer of more than %d bytes", canon.AnswerLimits().Bytes)
	}
	took = time.Since(began)
	if resp.Close && err == nil {
		w.close()
	}
	return resp.StatusCode, w.in.Bytes(), took, err
}
