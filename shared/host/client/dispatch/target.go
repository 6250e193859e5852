package dispatch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// The paths of the message handler (PROTOCOL §6.1).
const (
	sendPath  = "/a2a/message/send"
	askPath   = "/a2a/message/ask"
	resetPath = "/a2a/chain/reset"
)

// Target is a vacant to call and its address.
type Target struct {
	ID identity.ID
	// URL is posted to verbatim. It defaults to the card's endpoint.
	URL string
	// Card, if not nil, must verify and belong to ID. Otherwise the call is not sent.
	Card *card.Card
	// Name is the target's name in messages to the person. It defaults to the short id.
	Name string
	// HasMemory reports whether the agent remembers the calls of a thread. It is an unsigned statement
	// of the host.
	HasMemory bool
	// Address is the URL at which the target was found, for example https://agents.example/v/clerk,
	// if that URL may lead to another vacant later. It is empty if the target was found by its id
	// or card.
	Address string
}

func TargetOfCard(c *card.Card) Target { return Target{ID: c.VacantID, Card: c} }

// validate performs steps 1 and 2 of PROTOCOL §16, which need no network, and returns t with the
// values that follow from the card.
func (t Target) validate(self identity.ID) (Target, error) {
	if t.Card != nil {
		if t.ID.IsZero() {
			t.ID = t.Card.VacantID
		}
		t.URL = cmp.Or(t.URL, t.Card.Endpoint)
	}
	t.Name = cmp.Or(t.Name, t.ID.Short())
	if t.URL == "" {
		return t, problem.New(problem.NotFound, "target %s has no endpoint URL", t.ID.Short())
	}
	if t.Card != nil {
		if !t.Card.Verify() {
			return t, problem.New(problem.Untrusted, "target capability card for %s does not verify", t.Card.VacantID.Short())
		}
		if t.Card.VacantID != t.ID {
			return t, problem.New(problem.Untrusted, "the card belongs to %s, not to %s", t.Card.VacantID.Short(), t.ID.Short())
		}
	}
	if err := t.ID.Check(); err != nil {
		return t, err
	}
	if t.ID == self {
		// Request and answer would share one ordered pair (PROTOCOL §23 A13).
		return t, problem.New(problem.Usage, "%s cannot call itself", self.Short())
	}
	return t, nil
}

// callURLs are a target's URLs. stream is the vacant's URL for A2A.
type callURLs struct{ send, ask, reset, stream string }

func callURLsOf(t *Target) (callURLs, error) {
	u, err := ParseURL(t.URL)
	if err != nil {
		return callURLs{}, err
	}
	urlAt := func(path string) string { return outbound.ReplaceSuffix(u, sendPath, path).String() }
	stream := "/"
	if !strings.Contains(u.Path, "/v/") { // address of the host itself
		stream = "/v/" + t.ID.String() + "/"
	}
	return callURLs{send: t.URL, ask: urlAt(askPath), reset: urlAt(resetPath), stream: urlAt(stream)}, nil
}

// SendURL returns the URL to post to for a URL that a person typed. It appends /a2a/message/send
// unless the path ends with it (PROTOCOL §23 C4).
func SendURL(typedURL string) (string, error) {
	u, err := ParseURL(typedURL)
	if err != nil {
		return "", err
	}
	return outbound.ReplaceSuffix(u, sendPath, sendPath).String(), nil
}

// EndpointURLs returns the URLs at which a card's endpoint may accept calls, the likeliest first.
// Some parts of the reference post to the endpoint verbatim and others append the message path
// (PROTOCOL §23 C4), so a card may have either form. An endpoint without a path, or with only the
// path of a vacant, gets the message path. Any other endpoint is tried verbatim first.
func EndpointURLs(endpoint string) ([]string, error) {
	u, err := ParseURL(endpoint)
	if err != nil {
		return nil, err
	}
	withSendPath, err := SendURL(endpoint)
	if err != nil {
		return nil, err
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	_, hasVacantID := IDInPath(path)
	switch {
	case strings.HasSuffix(path, sendPath):
		return []string{endpoint}, nil
	case path == "", hasVacantID && strings.Count(path[strings.Index(path, "/v/"):], "/") == 2:
		return []string{withSendPath}, nil
	}
	return []string{endpoint, withSendPath}, nil
}

// ParseURL parses a URL that may be posted to: http or https with a host, without user, password
// and fragment.
func ParseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, &problem.Error{Kind: problem.Usage, Field: "url", Want: "an http or https URL", Got: fmt.Sprintf("%.80q", s)}
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.Opaque != "":
		return nil, &problem.Error{Kind: problem.Usage, Field: "url", Want: "an http or https URL with a host", Got: fmt.Sprintf("%.80q", s)}
	case u.User != nil:
		// Credentials in a URL would be sent unencrypted and appear in logs.
		return nil, &problem.Error{Kind: problem.Usage, Field: "url", Want: "a URL without user and password", Got: "one with them"}
	case u.Fragment != "":
		return nil, &problem.Error{Kind: problem.Usage, Field: "url", Want: "a URL without #", Got: fmt.Sprintf("%.80q", s)}
	}
	return u, nil
}

// Getter fetches a URL, for example an HTTP. It is safe for concurrent use.
type Getter interface {
	Get(ctx context.Context, url string) (status int, body []byte, err error)
}

// FetchTarget fetches the card from the host at a URL that a person typed (GET …/card), verifies
// it, and returns the target at that URL. If the card has another endpoint, the typed URL takes
// precedence: the person may reach the host by another route, and answers are signed in any case.
func FetchTarget(ctx context.Context, g Getter, typedURL string) (Target, error) {
	parsed, err := ParseURL(typedURL)
	if err != nil {
		return Target{}, err
	}
	u := outbound.ReplaceSuffix(parsed, sendPath, "/card")
	status, body, err := g.Get(ctx, u.String())
	if err != nil {
		return Target{}, err
	}
	if status != 200 {
		reply := parseReply(status, body)
		return Target{}, problem.New(kindOf(reply), "GET %s: %d %s", u, status, reply.safeDetail())
	}
	c, hasMemory, err := parseCardAnswer(body)
	if err != nil {
		return Target{}, problem.New(problem.Untrusted, "GET %s: %s", u, problem.AsError(err).Text())
	}
	if id, ok := IDInPath(u.Path); ok && id != c.VacantID {
		return Target{}, problem.New(problem.Untrusted, "GET %s: the card belongs to %s", u, c.VacantID.Short())
	}
	send := outbound.ReplaceSuffix(parsed, sendPath, sendPath).String()
	return Target{ID: c.VacantID, URL: send, Card: &c, Name: typedURL, HasMemory: hasMemory, Address: AddressOf(typedURL)}, nil
}

func AddressOf(typedURL string) string {
	u, err := ParseURL(typedURL)
	if err != nil {
		return ""
	}
	if _, ok := IDInPath(u.Path); ok {
		return ""
	}
	return outbound.ReplaceSuffix(u, sendPath, "").String()
}

func parseCardAnswer(body []byte) (c card.Card, hasMemory bool, err error) {
	var id, blobHex string
	d := canon.NewDecoder(body, canon.AnswerLimits())
	err = d.Document(func(key string) (err error) {
		switch key {
		case "memory":
			hasMemory, err = decodeOptional(d, canon.Bool, d.Bool)
		case "vacant_id":
			id, err = d.String()
		case "capability_card_blob_hex":
			blobHex, err = d.String()
		default:
			err = d.Skip()
		}
		return err
	})
	if err != nil {
		return c, false, err
	}
	blob, err := hex.DecodeString(blobHex)
	if err != nil || len(blob) == 0 {
		return c, false, problem.Invalid("capability_card_blob_hex", "a card in hexadecimal", fmt.Sprintf("%.20q", blobHex))
	}
	// Only the blob is signed, and the other members must agree with it (PROTOCOL §6.1).
	c, err = card.Parse(bytes.Clone(blob))
	switch {
	case err != nil:
		return c, false, err
	case !c.Verify():
		return c, false, problem.New(problem.Untrusted, "target capability card for %s does not verify", c.VacantID.Short())
	case id != c.VacantID.String():
		return c, false, problem.Invalid("vacant_id", c.VacantID.String(), fmt.Sprintf("%.70q", id))
	}
	return c, hasMemory, nil
}

func IDInPath(path string) (identity.ID, bool) {
	_, rest, ok := strings.Cut(path, "/v/")
	if !ok {
		return identity.ID{}, false
	}
	idText, _, _ := strings.Cut(rest, "/")
	id, err := identity.ParseID(idText)
	return id, err == nil
}
