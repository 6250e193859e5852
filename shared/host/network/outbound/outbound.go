// Package outbound is the only HTTP client of a host: every request goes to an
// address that somebody else chose. (A person's own machine uses dispatch.HTTP,
// because the person chooses whom to call.)
//
// The invariants: every request has an actor, and a vacant reaches only what
// its Guard permits. No connection is opened to an address inside the host's
// network (loopback, private, link-local, metadata, and every other notation of
// them), whatever a name resolves to. Loopback may be reached where Options allow
// it, on a host that others call by URLs of the operator only. Private addresses may be reached at
// single URLs for which the operator allows it (Actor.InPrivate). Names are resolved here, every address is
// checked, and the checked address itself is dialled. Redirects are not
// followed and no proxy is used, because either would move the request past the
// check.
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

// Defaults of Options.
const (
	DefaultMaxReply = 2 << 20          // bytes of a reply's body
	DefaultTimeout  = 30 * time.Second // of a whole request, if its context allows more
	maxHeader       = 64 << 10         // bytes of a reply's header
	maxURL          = 4 << 10          // bytes of a URL
	maxIdlePerHost  = 64
	maxIdle         = 256 // strangers choose the hosts; this bounds all connections together
	idleTimeout     = 90 * time.Second
	userAgent       = "vacancy"
)

// Options of a Client. The zero Options allow public addresses only.
type Options struct {
	// AllowLoopback allows 127.0.0.0/8 and ::1 whoever chose the URL, for a host
	// whose callers are all on this machine. Nothing allows the other ranges, except that
	// Actor.InPrivate allows private addresses.
	AllowLoopback bool
	// OperatorLoopback allows them in URLs that the operator chose.
	OperatorLoopback bool
	// Resolver resolves names; nil means the system's.
	Resolver Resolver
	// Dial opens connections; nil means the system's.
	Dial Dial
	// MaxReply bounds a reply's body in bytes; 0 is DefaultMaxReply.
	MaxReply int64
	// Timeout bounds a request in addition to its context; 0 is DefaultTimeout.
	Timeout time.Duration
	// Roots are the authorities whose certificates are trusted; nil means the system's.
	Roots *x509.CertPool
	// Guard decides for vacants. With nil, vacants reach nothing.
	Guard Guard
}

// Client sends requests. It is safe for concurrent use and keeps connections
// open.
type Client struct {
	// Each has connections of its own: a request at a stranger's URL must not
	// find one to loopback, or to a private address, that the operator's has left open.
	operators, private, others *http.Client

	guard    Guard
	maxReply int64
	timeout  time.Duration
}

// New makes a Client.
func New(o Options) *Client {
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	o.MaxReply = cmp.Or(o.MaxReply, DefaultMaxReply)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	c := &Client{guard: o.Guard, maxReply: o.MaxReply, timeout: o.Timeout, others: o.client(o.AllowLoopback, false)}
	if c.operators = c.others; o.OperatorLoopback && !o.AllowLoopback {
		c.operators = o.client(true, false)
	}
	c.private = o.client(o.AllowLoopback || o.OperatorLoopback, true)
	return c
}

// client is an HTTP client that checks each address it connects to.
func (o *Options) client(allowLoopback, allowPrivate bool) *http.Client {
	d := &dialer{resolver: o.Resolver, connect: o.Dial, allowed: map[string]bool{loopbackReason: allowLoopback, privateReason: allowPrivate}}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  nil, // a proxy would resolve and dial
			DialContext:            d.dial,
			TLSClientConfig:        &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2:      true,
			DisableCompression:     true, // so that the limit counts bytes on the network
			MaxResponseHeaderBytes: maxHeader,
			MaxIdleConns:           maxIdle,
			MaxIdleConnsPerHost:    maxIdlePerHost,
			IdleConnTimeout:        idleTimeout,
			TLSHandshakeTimeout:    10 * time.Second,
		},
		// A redirect is an answer like any other; callers refuse its
		// status.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// sender is the HTTP client for URLs of the actor's chooser.
func (c *Client) sender(as Actor) *http.Client {
	switch {
	case as.by == Operator && as.private:
		return c.private
	case as.by == Operator:
		return c.operators
	}
	return c.others
}

// Request is one request. Header may be nil; MaxReply lowers the client's
// bound for this request.
type Request struct {
	Method   string
	URL      string
	Header   http.Header
	Body     []byte
	MaxReply int64
}

// Reply is an answer of any status.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// Do sends r for an actor and reads the whole reply. The errors are problems:
// Malformed for a URL that is not absolute http or https without user and
// password, the Guard's refusals, Forbidden for an address or localhost in the URL that
// may not be reached, Deadline for a timeout, Canceled when ctx was cancelled, Untrusted for an
// invalid certificate, TooLarge for a reply above the limit, Unavailable for a name
// without a public address, with the same text whether it has none or one that may not
// be reached (the cause says which), and for all other network errors.
func (c *Client) Do(ctx context.Context, as Actor, r Request) (Reply, error) {
	u, err := ParseURL(r.URL)
	if err != nil {
		return Reply{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if err := c.Permit(ctx, as, r.URL); err != nil {
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
	if trace := obs.UsageOf(ctx).Trace(); trace != "" {
		req.Header.Set(obs.TraceHeader, "Root="+trace)
	}
	resp, err := c.sender(as).Do(req)
	if err != nil {
		return Reply{}, failure(ctx, u.Host, err)
	}
	defer resp.Body.Close()
	limit := c.maxReply
	if r.MaxReply > 0 {
		limit = min(limit, r.MaxReply)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return Reply{}, failure(ctx, u.Host, err)
	}
	if int64(len(body)) > limit {
		return Reply{}, problem.New(problem.TooLarge, "reply of %s: expected at most %d bytes", u.Host, limit)
	}
	return Reply{Status: resp.StatusCode, Header: resp.Header, Body: body}, nil
}

// Post sends a JSON body for an actor and returns status and reply.
func (c *Client) Post(ctx context.Context, as Actor, url string, body []byte) (status int, reply []byte, err error) {
	r, err := c.Do(ctx, as, Request{
		Method: http.MethodPost, URL: url, Body: body,
		Header: http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}},
	})
	return r.Status, r.Body, err
}

// ParseURL parses a URL that a Client can send to: absolute, http or https,
// with a host, without user and password (which would be stored and shown with
// the URL), at most 4 KiB.
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

// ReplaceSuffix returns u with the last segments of its path replaced: without slashes at
// its end, without old if the path ends in old, and with new after it. The rest of the
// path stays escaped as it was given, and the query is kept. old and new are escaped.
func ReplaceSuffix(u *url.URL, old, new string) *url.URL {
	v := *u
	path := strings.TrimSuffix(strings.TrimRight(u.EscapedPath(), "/"), old)
	v.RawPath = strings.TrimRight(path, "/") + new
	v.Path, _ = url.PathUnescape(v.RawPath) // an escaped path has no bad escapes
	return &v
}

// failure gives a transport error a kind. The cause is kept for the log,
// because it may name internal addresses. It is logged without the URL, whose
// path and query may contain credentials.
func failure(ctx context.Context, host string, err error) error {
	var sent *url.Error
	if errors.As(err, &sent) {
		err = sent.Err
	}
	var known *problem.Error
	var timeout net.Error
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(ctx.Err(), context.Canceled):
		return problem.Wrap(problem.Canceled, err, "request to %s was cancelled", host)
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return problem.Wrap(problem.Deadline, err, "%s did not answer in time", host)
	case errors.As(err, &certificate):
		return problem.Wrap(problem.Untrusted, err, "there is no safe connection to %s", host)
	}
	return problem.Wrap(problem.Unavailable, err, "%s cannot be reached", host)
}
