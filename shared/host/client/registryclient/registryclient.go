// Package registryclient defines the JSON of a registry's routes, and a client for them. "The
// reference" is the Python reference implementation of the protocol.
//
// Only signed data is trusted: Match.VerifiedCard returns a card only if it verifies and belongs to
// the vacant, and all other fields of a Match are unverified. An unreadable answer is an error of
// kind Untrusted.
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

const MaxAnswerBytes = 8 << 20

// Transport sends one request. If the request was not sent, the error has kind Unavailable. A
// Transport is safe for concurrent use.
type Transport interface {
	Do(ctx context.Context, r outbound.Request) (outbound.Reply, error)
}

// Client is a client of one registry. It is safe for concurrent use.
type Client struct {
	Transport Transport
	URL       string
	// Reader, if not nil, proves the reader's identity for data that is not public.
	Reader identity.Signer
	Now    func() time.Time // required with a Reader
}

// NormalizeURL returns a registry's base URL without trailing slashes.
func NormalizeURL(base string) (string, error) {
	u, err := outbound.ParseURL(base)
	if err == nil && (u.RawQuery != "" || u.Fragment != "") {
		err = problem.Invalid("registry", "a URL without ? and #", fmt.Sprintf("%.80q", base))
	}
	if err != nil {
		return "", problem.Wrap(problem.Usage, err, "registry: expected an http or https URL without ? and #, got %.80q", base)
	}
	return strings.TrimRight(u.String(), "/"), nil
}

func (c *Client) getJSON(ctx context.Context, path string, query url.Values, out any) error {
	b, err := c.fetch(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return err
	}
	return c.decodeAnswer(b, path, out)
}

func (c *Client) postJSON(ctx context.Context, path string, query url.Values, body, out any) error {
	var encoded []byte
	if body != nil {
		var err error
		if encoded, err = json.Marshal(body); err != nil {
			return problem.Wrap(problem.Usage, err, "the request cannot be encoded")
		}
	}
	b, err := c.fetch(ctx, http.MethodPost, path, query, encoded)
	if err != nil || out == nil {
		return err
	}
	return c.decodeAnswer(b, path, out)
}

func (c *Client) GetRaw(ctx context.Context, path string, query url.Values) ([]byte, error) {
	return c.fetch(ctx, http.MethodGet, path, query, nil)
}

func (c *Client) Get(ctx context.Context, path string, query url.Values, out any) error {
	return c.getJSON(ctx, path, query, out)
}

// Post sends JSON to a route. If out is nil, Post ignores the answer.
func (c *Client) Post(ctx context.Context, path string, body, out any) error {
	return c.postJSON(ctx, path, nil, body, out)
}

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
	reply, err := c.Transport.Do(ctx, outbound.Request{Method: method, URL: u.String(), Header: header, Body: body, MaxReply: MaxAnswerBytes})
	if err != nil {
		return nil, err
	}
	if reply.Status < 200 || reply.Status > 299 {
		return nil, newStatusError(u.Host, &reply)
	}
	return reply.Body, nil
}

func (c *Client) decodeAnswer(b []byte, path string, out any) error {
	d := canon.NewDecoder(b, canon.Limits{Bytes: MaxAnswerBytes, Depth: 32, Keys: 1024})
	unmarshaler, isUnmarshaler := out.(canon.Unmarshaler)
	var err error
	if isUnmarshaler {
		err = unmarshaler.UnmarshalCanon(d)
	} else {
		err = d.Skip()
	}
	if err == nil {
		err = d.End()
	}
	if err == nil && !isUnmarshaler {
		err = json.Unmarshal(b, out)
	}
	if err != nil {
		return problem.Wrap(problem.Untrusted, err, "%s%s: the registry's answer cannot be read", c.URL, path)
	}
	return nil
}

// StatusError is in the error chain if the registry answers with an unsuccessful status.
type StatusError struct {
	Status     int
	RetryAfter string
	// KnownCardHash and RefusedCardHash are set if the registry already has another card with the
	// same version.
	KnownCardHash, RefusedCardHash identity.Hash
}

func (e *StatusError) Error() string { return fmt.Sprintf("(%d)", e.Status) }

func newStatusError(host string, r *outbound.Reply) error {
	var body struct {
		Detail json.RawMessage `json:"detail"`
		Error  string          `json:"error"`
		Code   string          `json:"code"`
		Field  string          `json:"field"`
		Known  string          `json:"card_hash_known"`
		Sent   string          `json:"card_hash_sent"`
	}
	_ = json.Unmarshal(r.Body[:min(len(r.Body), 64<<10)], &body)
	status := &StatusError{Status: r.Status, RetryAfter: r.Header.Get("Retry-After")}
	status.KnownCardHash, _ = identity.ParseHash(body.Known)
	status.RefusedCardHash, _ = identity.ParseHash(body.Sent)
	var detail string
	if json.Unmarshal(body.Detail, &detail) != nil {
		detail = body.Error // the detail may be a framework's list of validation errors
	}
	// The reference sends no code, so kindOf also uses the status.
	p := problem.Wrap(kindOf(r.Status, body.Code), status, "%s %v: %s", host, status, sanitizeDetail(detail))
	if body.Field != "" {
		p.Field = sanitizeDetail(body.Field)
	}
	return p
}

func sanitizeDetail(detail string) string {
	detail = strings.Map(func(r rune) rune { // remove control characters, which are unsafe for terminals
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
		if k.String() == code && k.Forms().HTTPStatus == status {
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
		return problem.InvalidMember
	case http.StatusTooManyRequests:
		return problem.TooManyRequests
	case http.StatusNotImplemented: // the reference does not support revocations
		return problem.Forbidden
	}
	if status >= 500 {
		return problem.Unavailable
	}
	return problem.Untrusted
}
