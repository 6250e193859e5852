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

const (
	sendPath  = "/a2a/message/send"
	askPath   = "/a2a/message/ask"
	resetPath = "/a2a/chain/reset"
)

type Target struct {
	ID identity.ID
	// URL is posted to verbatim (default: the card's endpoint).
	URL string
	// Card, if not nil, must verify and belong to ID.
	Card *card.Card
	Name string
	// HasMemory is the host's unsigned statement that the agent remembers the calls of a thread.
	HasMemory bool
	// Address is the URL at which the target was found, if it may lead to another vacant later.
	Address string
}

func TargetOfCard(c *card.Card) Target { return Target{ID: c.VacantID, Card: c} }

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

// SendURL returns the URL to post to for a URL that a person typed (PROTOCOL §23 C4).
func SendURL(typedURL string) (string, error) {
	u, err := ParseURL(typedURL)
	if err != nil {
		return "", err
	}
	return outbound.ReplaceSuffix(u, sendPath, sendPath).String(), nil
}

// EndpointURLs returns the URLs at which a card's endpoint may accept calls, the likeliest first
// (PROTOCOL §23 C4).
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

// ParseURL parses an http or https URL without user, password and fragment.
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

// Getter fetches a URL. It is safe for concurrent use.
type Getter interface {
	Get(ctx context.Context, url string) (status int, body []byte, err error)
}

// FetchTarget fetches and verifies the card at a URL that a person typed, and returns the target at
// that URL.
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
