package dispatch

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// HTTP is the Transport and Getter of a person's own machine. It connects to loopback and private
// addresses, so targets that a stranger chose need a GuardedTransport. HTTP is safe for concurrent
// use.
type HTTP struct {
	client *http.Client
}

type HTTPOptions struct {
	// Timeout limits one exchange (default 60 s).
	Timeout      time.Duration
	MaxIdleConns int
	Roots        *x509.CertPool
}

func NewHTTP(o HTTPOptions) *HTTP { return &HTTP{client: NewClient(o)} }

func NewClient(o HTTPOptions) *http.Client {
	o.Timeout = cmp.Or(o.Timeout, time.Minute)
	o.MaxIdleConns = cmp.Or(o.MaxIdleConns, 2)
	return &http.Client{
		Timeout: o.Timeout,
		Transport: &http.Transport{
			Proxy:                  ProxyURL,
			DialContext:            Dial,
			TLSClientConfig:        &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    dialTimeout,
			MaxIdleConnsPerHost:    o.MaxIdleConns,
			IdleConnTimeout:        90 * time.Second,
			ForceAttemptHTTP2:      true,
			MaxResponseHeaderBytes: 64 << 10,
		},
		// A redirect could send the signed bytes to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (h *HTTP) Post(ctx context.Context, url string, body []byte) (int, []byte, error) {
	r, err := h.Do(ctx, outbound.Request{Method: http.MethodPost, URL: url, Body: body, Header: http.Header{"Content-Type": {"application/json"}}})
	return r.Status, r.Body, err
}

func (h *HTTP) Get(ctx context.Context, url string) (int, []byte, error) {
	r, err := h.Do(ctx, outbound.Request{Method: http.MethodGet, URL: url})
	return r.Status, r.Body, err
}

func (h *HTTP) Do(ctx context.Context, r outbound.Request) (outbound.Reply, error) {
	res, err := doRequest(ctx, h.client, r)
	if err != nil {
		return outbound.Reply{}, err
	}
	defer res.Body.Close()
	limit := r.MaxReply
	if limit <= 0 {
		limit = int64(canon.AnswerLimits().Bytes)
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	if err != nil {
		return outbound.Reply{}, exchangeError(res.Request, err)
	}
	if int64(len(b)) > limit {
		return outbound.Reply{}, &problem.Error{Kind: problem.TooLarge, Field: "answer", Want: fmt.Sprintf("at most %d bytes", limit), Got: "more"}
	}
	return outbound.Reply{Status: res.StatusCode, Header: res.Header, Body: b}, nil
}

// Open sends a request without a timeout. The caller must limit the size of the body and close it.
func (h *HTTP) Open(ctx context.Context, r outbound.Request) (*http.Response, error) {
	clientWithoutTimeout := *h.client
	clientWithoutTimeout.Timeout = 0
	return doRequest(ctx, &clientWithoutTimeout, r)
}

func doRequest(ctx context.Context, client *http.Client, r outbound.Request) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return nil, problem.Wrap(problem.Usage, err, "%.80q cannot be requested", r.URL)
	}
	if r.Header != nil {
		req.Header = r.Header.Clone()
	}
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "application/json")
	}
	req.Header.Set("User-Agent", "vacancy")
	res, err := client.Do(req)
	if err != nil {
		return nil, exchangeError(req, err)
	}
	if res.StatusCode >= 300 && res.StatusCode < 400 && res.StatusCode != http.StatusNotModified {
		res.Body.Close()
		return nil, problem.New(problem.Usage, "%s redirects to %.200q; redirects are not followed: call that address if you mean it", req.URL.Host, res.Header.Get("Location"))
	}
	return res, nil
}

func exchangeError(req *http.Request, err error) error {
	var opErr *net.OpError
	if errors.As(err, &opErr) && opErr.Op == "dial" { // the request has not left this machine
		return problem.Wrap(problem.Unavailable, err, "%s cannot be reached", req.URL.Host)
	}
	var certErr *tls.CertificateVerificationError
	if errors.As(err, &certErr) { // the certificate is checked before the request
		return problem.Wrap(problem.Unavailable, err, "the TLS certificate of %s is not trusted", req.URL.Host)
	}
	return problem.Wrap(problem.DeadlineExceeded, err, "no answer from %s", req.URL.Host)
}
