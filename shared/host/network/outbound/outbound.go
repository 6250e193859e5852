// Package outbound is the only HTTP client of a host. Other parties choose the URLs, so the client
// resolves names itself, refuses internal addresses, and dials the address that it checked. It does
// not follow redirects and does not use a proxy, because both would bypass the check. A vacant
// reaches only the URLs that the Guard permits.
package outbound

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const (
	DefaultMaxReply = 2 << 20 // bytes
	DefaultTimeout  = 30 * time.Second
	maxHeaderBytes  = 64 << 10 // bytes
	maxURLBytes     = 4 << 10  // bytes
	maxIdlePerHost  = 64
	maxIdle         = 256 // strangers can name any number of hosts
	idleTimeout     = 90 * time.Second
	userAgent       = "vacancy"
)

// Options configures a Client. The zero Options allow only public addresses.
type Options struct {
	// AllowLoopback allows loopback addresses in all URLs, for a host whose callers are all on this
	// machine.
	AllowLoopback bool
	// OperatorLoopback allows loopback addresses in URLs that the operator chose.
	OperatorLoopback bool
	Resolver         Resolver
	Dial             DialFunc
	MaxReply         int64
	Timeout          time.Duration
	Roots            *x509.CertPool
	// Guard may be nil. All requests of vacants are then refused.
	Guard EndpointGuard
}

// Client sends requests. It is safe for concurrent use.
type Client struct {
	// Clients with different permissions do not share connections. Otherwise a request to a
	// stranger's URL could reuse a connection of the operator to a private address.
	operatorClient, privateClient, defaultClient *http.Client

	guard    EndpointGuard
	maxReply int64
	timeout  time.Duration
}

func New(o Options) *Client {
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	o.MaxReply = cmp.Or(o.MaxReply, DefaultMaxReply)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	c := &Client{guard: o.Guard, maxReply: o.MaxReply, timeout: o.Timeout, defaultClient: o.newHTTPClient(o.AllowLoopback, false)}
	if c.operatorClient = c.defaultClient; o.OperatorLoopback && !o.AllowLoopback {
		c.operatorClient = o.newHTTPClient(true, false)
	}
	c.privateClient = o.newHTTPClient(o.AllowLoopback || o.OperatorLoopback, true)
	return c
}

func (o *Options) newHTTPClient(allowLoopback, allowPrivate bool) *http.Client {
	d := &dialer{resolver: o.Resolver, connect: o.Dial, allowedReasons: map[string]bool{loopbackReason: allowLoopback, privateReason: allowPrivate}}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  nil,
			DialContext:            d.dial,
			TLSClientConfig:        &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2:      true,
			DisableCompression:     true, // MaxReply limits the bytes on the network
			MaxResponseHeaderBytes: maxHeaderBytes,
			MaxIdleConns:           maxIdle,
			MaxIdleConnsPerHost:    maxIdlePerHost,
			IdleConnTimeout:        idleTimeout,
			TLSHandshakeTimeout:    10 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (c *Client) clientFor(actor Actor) *http.Client {
	switch {
	case actor.chooser == Operator && actor.allowsPrivate:
		return c.privateClient
	case actor.chooser == Operator:
		return c.operatorClient
	}
	return c.defaultClient
}

// Request is one request. MaxReply can only lower the client's limit.
type Request struct {
	Method   string
	URL      string
	Header   http.Header
	Body     []byte
	MaxReply int64
}

type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// Do sends r for an actor and reads the complete reply, whatever its status.
func (c *Client) Do(ctx context.Context, actor Actor, r Request) (Reply, error) {
	u, err := ParseURL(r.URL)
	if err != nil {
		return Reply{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if err := c.CheckPermission(ctx, actor, r.URL); err != nil {
		return Reply{}, err
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, u.String(), bytes.NewReader(r.Body))
	if err != nil {
		return Reply{}, problem.Wrap(problem.Malformed, err, "request to %s cannot be made", u.Host)
	}
	if r.Header != nil {
		req.Header = r.Header.Clone()
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", userAgent)
	}
	if trace := obs.UsageOf(ctx).TraceID(); trace != "" {
		req.Header.Set(obs.TraceHeader, "Root="+trace)
	}
	resp, err := c.clientFor(actor).Do(req)
	if err != nil {
		return Reply{}, requestError(ctx, u.Host, err)
	}
	defer resp.Body.Close()
	limit := c.maxReply
	if r.MaxReply > 0 {
		limit = min(limit, r.MaxReply)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return Reply{}, requestError(ctx, u.Host, err)
	}
	if int64(len(body)) > limit {
		return Reply{}, problem.New(problem.TooLarge, "reply of %s: expected at most %d bytes", u.Host, limit)
	}
	return Reply{Status: resp.StatusCode, Header: resp.Header, Body: body}, nil
}

func (c *Client) Post(ctx context.Context, actor Actor, url string, body []byte) (status int, reply []byte, err error) {
	r, err := c.Do(ctx, actor, Request{
		Method: http.MethodPost, URL: url, Body: body,
		Header: http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}},
	})
	return r.Status, r.Body, err
}

// ParseURL refuses a user and password, because they would be stored and shown with the URL.
func ParseURL(s string) (*url.URL, error) {
	const want = "an absolute http or https URL"
	if len(s) > maxURLBytes {
		return nil, problem.Invalid("url", "at most 4096 bytes", "more")
	}
	u, err := url.Parse(s)
	if err != nil {
		return nil, &problem.Error{Kind: problem.Malformed, Field: "url", Want: want, Err: err}
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https", u.Opaque != "", u.Hostname() == "":
		return nil, problem.Invalid("url", want, quote(s))
	case u.User != nil:
		return nil, problem.Invalid("url", "no user and password", "some")
	}
	return u, nil
}

// ReplaceSuffix removes trailing slashes and oldSuffix from the path, and appends newSuffix. Both
// suffixes must be escaped.
func ReplaceSuffix(u *url.URL, oldSuffix, newSuffix string) *url.URL {
	v := *u
	path := strings.TrimSuffix(strings.TrimRight(u.EscapedPath(), "/"), oldSuffix)
	v.RawPath = strings.TrimRight(path, "/") + newSuffix
	v.Path, _ = url.PathUnescape(v.RawPath)
	return &v
}

func requestError(ctx context.Context, host string, err error) error {
	// The cause is only logged, because it may name internal addresses. The URL is removed, because
	// the query may contain credentials.
	var urlErr *url.Error
	if errors.As(err, &urlErr) {
		err = urlErr.Err
	}
	var problemErr *problem.Error
	var netErr net.Error
	var certErr *tls.CertificateVerificationError
	switch {
	case errors.As(err, &problemErr):
		return problemErr
	case errors.Is(ctx.Err(), context.Canceled):
		return problem.Wrap(problem.Canceled, err, "request to %s was canceled", host)
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		return problem.Wrap(problem.DeadlineExceeded, err, "%s did not answer in time", host)
	case errors.As(err, &certErr):
		return problem.Wrap(problem.Untrusted, err, "the TLS certificate of %s is not trusted", host)
	}
	return problem.Wrap(problem.Unavailable, err, "%s cannot be reached", host)
}
