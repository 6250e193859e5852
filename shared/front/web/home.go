package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

const (
	pageSize       = 20
	logPageSize    = 10 // on AWS, each event is a request to the registry
	homeEventCount = 5
)

type hit struct {
	ID         identity.ID
	Name       string
	Capability string
	Broken     bool // the card cannot be verified
	State      string
	Price      string
	Tags       []string
	Score      float64
}

func (h hit) Link() string { return cmp.Or(h.Name, h.ID.String()) }

// The cache needs at most about 8 MB.
const (
	maxCachedHits  = 1 << 11
	maxCachedBytes = 4 << 10
)

// verifyMatches verifies the cards of a page of matches. Verification is expensive, so the results
// are cached by the hash of the signed input.
func (s *site) verifyMatches(p *registryclient.Page) (hits []hit) {
	for i := range p.Matches {
		m := &p.Matches[i]
		signed := fmt.Appendf(nil, "%s %s %s %s", m.ID, m.CardBlob, m.CapabilityCard, m.Listing)
		key := identity.Sum(signed)
		h, isCached := s.hits.Get(key)
		if !isCached {
			c, err := m.VerifiedCard()
			h = hit{ID: m.ID, Broken: err != nil, Capability: c.CapabilityText}
			if l := parseListing(m); l != nil {
				h.Tags, h.Price = l.Tags, formatPrice(l.Price)
			}
			if len(signed) <= maxCachedBytes {
				s.hits.Add(key, h)
			}
		}
		h.Name, h.State, h.Score = m.Name, string(m.State), m.Score
		hits = append(hits, h)
	}
	return hits
}

func parseListing(m *registryclient.Match) *listing.Listing {
	if len(m.Listing) == 0 {
		return nil
	}
	l, err := listing.Parse(m.Listing)
	if err != nil || l.VacantID != m.ID {
		return nil
	}
	return &l
}

func formatPrice(micro int64) string {
	if micro == 0 {
		return "free"
	}
	return money.Amount(micro).String() + " a call"
}

func (s *site) homePage(_ *http.Request, r *reader) (*page, error) {
	results, err := r.Search(r.ctx, registryclient.Query{Limit: pageSize})
	if err != nil {
		return nil, err
	}
	data := struct {
		Query  query
		Hits   []hit
		Next   string
		Log    *checkpoint
		Events []event
	}{Hits: s.verifyMatches(&results), Next: nextPageURL(url.Values{}, results.Next)}
	if data.Log, err = r.readCheckpoint(); err != nil {
		return nil, err
	}
	if data.Log != nil {
		if data.Events, _, err = r.eventsUpTo(data.Log.Size, homeEventCount); err != nil {
			return nil, err
		}
	}
	return &page{file: "home.html", Title: "Agents of this host", CacheSeconds: 10, Data: data}, nil
}

type query struct{ Words, Tag, Family, Price string }

func (s *site) searchPage(req *http.Request, r *reader) (*page, error) {
	values := req.URL.Query()
	terms := query{values.Get("q"), values.Get("tag"), values.Get("family"), values.Get("max_price")}
	searchQuery := registryclient.Query{Words: terms.Words, Tag: terms.Tag, Family: terms.Family, Limit: pageSize, Cursor: values.Get("cursor")}
	if terms.Price != "" {
		m, err := money.Parse(strings.TrimPrefix(terms.Price, "$"))
		if err != nil || m < 0 {
			return nil, problem.Invalid("max_price", "dollars such as 0.05", fmt.Sprintf("%.40q", terms.Price))
		}
		priceLimit := int64(m)
		searchQuery.MaxPrice = &priceLimit
	}
	results, err := r.Search(r.ctx, searchQuery)
	if err != nil {
		return nil, err
	}
	params := url.Values{}
	for name, value := range map[string]string{"q": terms.Words, "tag": terms.Tag, "family": terms.Family, "max_price": terms.Price} {
		if value != "" {
			params.Set(name, value)
		}
	}
	data := struct {
		Query query
		Hits  []hit
		Next  string
	}{terms, s.verifyMatches(&results), nextPageURL(params, results.Next)}
	return &page{file: "search.html", Title: "Search", CacheSeconds: 2, Hidden: true, Data: data}, nil
}

func nextPageURL(params url.Values, cursor string) string {
	if cursor == "" {
		return ""
	}
	params.Set("cursor", cursor)
	return Path + "search?" + params.Encode()
}

type checkpoint struct {
	Note, Host string
	Size       uint64
	Signatures int
}

// readCheckpoint returns nil if the host has no checkpoint.
func (r *reader) readCheckpoint() (*checkpoint, error) {
	note, err := r.GetRaw(r.ctx, "/v1/checkpoint", nil)
	switch {
	case problem.Is(err, problem.NotFound):
		return nil, nil
	case err != nil || len(note) == 0:
		return nil, err
	}
	text, signatures, _ := strings.Cut(string(note), "\n\n")
	lines := strings.Split(text, "\n")
	c := &checkpoint{Note: string(note), Host: lines[0], Signatures: strings.Count(signatures, "\u2014 ")}
	if len(lines) > 1 {
		c.Size, err = strconv.ParseUint(lines[1], 10, 53)
	}
	if err != nil || len(lines) < 3 {
		return nil, problem.New(problem.Untrusted, "the host's checkpoint cannot be read")
	}
	return c, nil
}

type event struct {
	registryclient.Event
	Says string // indented payload
}

// eventsUpTo reads at most n events backwards from number seq, and omits hidden events. Hidden
// events count towards n, because anyone can create them and each costs a read. The reads are
// sequential, because a registry with a single instance refuses concurrent requests.
func (r *reader) eventsUpTo(seq, n uint64) (events []event, nextSeq uint64, err error) {
	for ; seq > 0 && n > 0; seq, n = seq-1, n-1 {
		e, err := r.Event(r.ctx, seq)
		switch {
		case err == nil:
			events = append(events, newEvent(e))
		case !problem.Is(err, problem.NotFound):
			return nil, 0, err
		}
	}
	return events, seq, nil
}

func newEvent(e registryclient.Event) event {
	entry := event{Event: e, Says: e.Payload}
	var v any
	if json.Unmarshal([]byte(e.Payload), &v) == nil {
		if b, err := json.MarshalIndent(v, "", "  "); err == nil {
			entry.Says = string(b)
		}
	}
	return entry
}
