// Package registryclient is the JSON of a registry's routes and a Go client for
// hosts of Vacancy and registries of the reference.
//
// The invariants: only signed data is trusted (a card is returned only if it
// verifies and has the requested id; unsigned data is marked). An answer is
// read within bounds, and an unreadable one is an error of kind Untrusted,
// never a partial result.
package registryclient

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/readproof"
)

// MaxAnswer bounds an answer of a registry in bytes.
const MaxAnswer = 8 << 20

// Transport sends one request: outbound.Acting on a host, dispatch.HTTP on a
// person's machine. Any answer is a Reply; errors are problems, of kind
// Unavailable if nothing was sent. Safe for concurrent use.
type Transport interface {
	Do(ctx context.Context, r outbound.Request) (outbound.Reply, error)
}

// Client is a client of one registry. It is safe for concurrent use.
type Client struct {
	Transport Transport
	URL       string // base URL without a trailing slash
	// Reader proves the reader's identity, for data that is not public. With
	// nil, the reader is anonymous.
	Reader identity.Signer
	Now    func() time.Time // the time of proofs; required with a Reader
}

// CheckURL checks a registry's base URL and returns it without trailing
// slashes. The error is of kind Usage.
func CheckURL(base string) (string, error) {
	u, err := outbound.ParseURL(base)
	if err == nil && (u.RawQuery != "" || u.Fragment != "") {
		err = problem.Invalid("registry", "a URL without ? and #", fmt.Sprintf("%.80q", base))
	}
	if err != nil {
		return "", problem.Wrap(problem.Usage, err, "registry: expected an http or https URL, got %.80q", base)
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// get reads a path with a query.
func (c *Client) get(ctx context.Context, path string, query url.Values, into any) error {
	b, err := c.fetch(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return err
	}
	return c.read(b, path, into)
}

func (c *Client) post(ctx context.Context, path string, query url.Values, body, into any) error {
	var sent []byte
	if body != nil {
		var err error
		if sent, err = json.Marshal(body); err != nil {
			return problem.Wrap(problem.Usage, err, "the request cannot be written")
		}
	}
	b, err := c.fetch(ctx, http.MethodPost, path, query, sent)
	if err != nil || into == nil {
		return err
	}
	return c.read(b, path, into)
}

// Raw reads a route whose answer is not JSON, such as a checkpoint.
func (c *Client) Raw(ctx context.Context, path string, query url.Values) ([]byte, error) {
	return c.fetch(ctx, http.MethodGet, path, query, nil)
}

// Get reads a route into a shape, within MaxAnswer.
func (c *Client) Get(ctx context.Context, path string, query url.Values, into any) error {
	return c.get(ctx, path, query, into)
}

// Post sends JSON to a route; with a nil into it ignores the answer.
func (c *Client) Post(ctx context.Context, path string, body, into any) error {
	return c.post(ctx, path, nil, body, into)
}

// fetch returns the body of a successful answer.
func (c *Client) fetch(ctx context.Context, method, path string, query url.Values, body []byte) ([]byte, error) {
	u, err := url.Parse(c.URL + path)
	if err != nil {
		return nil, problem.Wrap(problem.Usage, err, "registry: %.80q is not a URL", c.URL)
	}
	u.RawQuery = query.Encode()
	header := http.Header{"Accept": {"application/json"}}
	if body != nil {
		header.Set("Content-Type", "application/json")
	}
	if c.Reader != nil && method == http.MethodGet {
		proof, err := readproof.Sign(ctx, c.Reader, readproof.Request{Authority: u.Host, Method: method, Target: u.RequestURI()}, c.Now())
		if err != nil {
			return nil, err
		}
		header.Set(readproof.Header, proof)
	}
	reply, err := c.Transport.Do(ctx, outbound.Request{Method: method, URL: u.String(), Header: header, Body: body, MaxReply: MaxAnswer})
	if err != nil {
		return nil, err
	}
	if reply.Status < 200 || reply.Status > 299 {
		return nil, refusal(u.Host, &reply)
	}
	return reply.Body, nil
}

// read parses JSON strictly (no duplicate keys, bounded) and decodes it: in the same pass if the shape can.
func (c *Client) read(b []byte, path string, into any) error {
	d := canon.NewDecoder(b, canon.Limits{Bytes: MaxAnswer, Depth: 32, Keys: 1024}) // a page of matches is wide, not deep
	shape, decodes := into.(canon.Unmarshaler)
	var err error
	if decodes {
		err = shape.UnmarshalCanon(d)
	} else {
		err = d.Skip()
	}
	if err == nil {
		err = d.End()
	}
	if err == nil && !decodes {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		return problem.Wrap(problem.Untrusted, err, "%s%s: the registry's answer cannot be read", c.URL, path)
	}
	return nil
}

// StatusError is in the error chain of every refusal, with the HTTP status, for
// callers that try another route.
type StatusError struct {
	Status     int
	RetryAfter string // seconds or a date, as it came, or ""
	// Known and Sent are the card hashes of an equivocation, else zero.
	Known, Sent identity.Hash
}

func (e *StatusError) Error() string { return fmt.Sprintf("(%d)", e.Status) }

// refusal makes a problem of an unsuccessful answer. The reference sends no
// code; the status then determines the kind.
func refusal(host string, r *outbound.Reply) error {
	var body struct {
		Detail json.RawMessage `json:"detail"`
		Code   string          `json:"code"`
		Field  string          `json:"field"`
		Known  string          `json:"card_hash_known"`
		Sent   string          `json:"card_hash_sent"`
	}
	_ = json.Unmarshal(r.Body[:min(len(r.Body), 64<<10)], &body) // an unreadable body says nothing
	status := &StatusError{Status: r.Status, RetryAfter: r.Header.Get("Retry-After")}
	status.Known, _ = identity.ParseHash(body.Known)
	status.Sent, _ = identity.ParseHash(body.Sent)
	var detail string
	if json.Unmarshal(body.Detail, &detail) != nil {
		detail = "" // a framework's list of validation errors
	}
	p := problem.Wrap(kindOf(r.Status, body.Code), status, "%s %v: %s", host, status, shown(detail))
	if body.Field != "" {
		p.Field = shown(body.Field)
	}
	return p
}

// shown is one line of a detail, without terminal control characters.
func shown(detail string) string {
	detail = strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return -1
		}
		return r
	}, strings.ToValidUTF8(detail, "\uFFFD"))
	if detail == "" {
		return "the registry gives no reason"
	}
	return fmt.Sprintf("%.400s", detail)
}

func kindOf(status int, code string) problem.Kind {
	for _, k := range problem.Kinds() {
		if k.String() == code && k.Row().Status == status {
			return k
		}
	}
	switch status {
	case http.StatusBadRequest:
		return problem.Malformed
	case http.StatusUnauthorized:
		return problem.BadSignature
	case http.StatusForbidden:
		return problem.Forbidden
	case http.StatusNotFound:
		return problem.NotFound
	case http.StatusMethodNotAllowed:
		return problem.MethodNotAllowed
	case http.StatusConflict:
		return problem.Conflict
	case http.StatusGone:
		return problem.Gone
	case http.StatusRequestEntityTooLarge:
		return problem.TooLarge
	case http.StatusUnprocessableEntity:
		return problem.Schema
	case http.StatusTooManyRequests:
		return problem.TooMany
	case http.StatusNotImplemented: // the reference's answer to a revocation, which is final
		return problem.Forbidden
	}
	if status >= 500 {
		return problem.Unavailable
	}
	return problem.Untrusted
}
