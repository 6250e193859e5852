// Package outbound is the only HTTP client of a host. Its requests go to URLs that other parties
// chose, so every request is checked. (The command line uses dispatch.HTTP instead, because its
// user chooses whom to call.)
//
// Every request has an actor, and a vacant reaches only the URLs that the Guard of the Options
// permits. The client never connects to an address in the host's network: loopback, private,
// link-local and metadata addresses are refused in every notation, whatever name resolves to them.
// There are two exceptions. Options can allow loopback, and Actor.WithPrivateAddresses allows
// private addresses for single URLs of the operator.
//
// The client resolves names itself, checks every address, and dials the checked address. It does
// not follow redirects and does not use a proxy, because both would bypass the check.
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
	DefaultMaxReply = 2 << 20          // bytes in a reply's body
	DefaultTimeout  = 30 * time.Second // limit for a complete request, unless its context ends earlier
	maxHeader       = 64 << 10         // bytes in a reply's header
	maxURL          = 4 << 10          // bytes in a URL
	maxIdlePerHost  = 64
	maxIdle         = 256 // limit for all hosts together, because strangers choose the hosts
	idleTimeout     = 90 * time.Second
	userAgent       = "vacancy"
)

// Options configures a Client. The zero Options allow only public addresses.
type Options struct {
	// AllowLoopback allows 127.0.0.0/8 and ::1 in all URLs, for a host whose callers are all on
	// this machine. Other internal ranges stay refused, except for private addresses under
	// Actor.WithPrivateAddresses.
	AllowLoopback bool
	// OperatorLoopback allows loopback addresses in URLs that the operator chose.
	OperatorLoopback bool
	// Resolver resolves names. If it is nil, the system's resolver is used.
	Resolver Resolver
	// Dial opens connections. If it is nil, a net.Dialer is used.
	Dial DialFunc
	// MaxReply limits a reply's body in bytes. Zero means DefaultMaxReply.
	MaxReply int64
	// Timeout limits a request in addition to its context. Zero means DefaultTimeout.
	Timeout time.Duration
	// Roots are the trusted certificate authorities. If it is nil, the system's authorities are
	// trusted.
	Roots *x509.CertPool
	// Guard decides for vacants. If it is nil, all requests of vacants are refused.
	Guard EndpointGuard
}

// Client sends requests and keeps connections open. It is safe for concurrent use.
type Client struct {
	// Each HTTP client has its own connections. Otherwise a request to a stranger's URL could reuse
	// an open connection of the operator to a loopback or private address.
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
			Proxy:                  nil, // a proxy would resolve and dial names without these checks
			DialContext:            d.dial,
			TLSClientConfig:        &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2:      true,
			DisableCompression:     true, // MaxReply limits the bytes on the network
			MaxResponseHeaderBytes: maxHeader,
			MaxIdleConns:           maxIdle,
			MaxIdleConnsPerHost:    maxIdlePerHost,
			IdleConnTimeout:        idleTimeout,
			TLSHandshakeTimeout:    10 * time.Second,
		},
		// Do returns a redirect like any other reply, and its callers refuse the status.
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

// Request is one request. Header may be nil. MaxReply lowers the client's limit for this request,
// and zero keeps it.
type Request struct {
	Method   string
	URL      string
	Header   http.Header
	Body     []byte
	MaxReply int64
}

// Reply is a reply with any status.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// Do sends r for an actor and reads the complete reply. If the URL is not an absolute http or https
// URL without user and password, the error is Malformed. If the Guard refuses the request, Do
// returns its error. For an internal address or localhost in the URL, the error is Forbidden.
//
// The kind is DeadlineExceeded after a timeout, Canceled if ctx was cancelled, Untrusted for an
// invalid certificate, TooLarge for a reply above the limit, and Unavailable for other network
// errors. Unavailable also covers names without an address and names with internal addresses: both
// have the same message, and only the cause differs.
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

// ParseURL parses a URL that a Client can send to. It must be an absolute http or https URL with a
// host and at most 4 KiB. A user and password are refused, because they would be stored and shown
// with the URL.
func ParseURL(s string) (*url.URL, error) {
	const want = "an absolute http or https URL"
	if len(s) > maxURL {
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

// ReplaceSuffix returns u with another end of its path: it removes trailing slashes, then oldSuffix
// if the path has it, and appends newSuffix. The rest of the path keeps its escaping, and the query
// is kept. Both suffixes must be escaped.
func ReplaceSuffix(u *url.URL, oldSuffix, newSuffix string) *url.URL {
	v := *u
	path := strings.TrimSuffix(strings.TrimRight(u.EscapedPath(), "/"), oldSuffix)
	v.RawPath = strings.TrimRight(path, "/") + newSuffix
	v.Path, _ = url.PathUnescape(v.RawPath) // an escaped path contains only valid escapes
	return &v
}

func requestError(ctx context.Context, host string, err error) error {
	// The cause is only logged, because it may name internal addresses. The URL is removed from it,
	// because its path and query may contain credentials.
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
