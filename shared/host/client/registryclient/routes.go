package registryclient

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func (c *Client) Publish(ctx context.Context, p Publication) (r Receipt, err error) {
	return r, c.postJSON(ctx, "/v1/halo", nil, p, &r)
}

func (c *Client) Revoke(ctx context.Context, v Revocation) (r Receipt, err error) {
	return r, c.postJSON(ctx, "/v1/revoke_halo", nil, v, &r)
}

// Card returns the registration and the unverified card of a vacant.
func (c *Client) Card(ctx context.Context, id identity.ID) (m Match, err error) {
	if err := c.getJSON(ctx, "/v1/capability_card/"+id.String(), nil, &m); err != nil {
		return Match{}, err
	}
	if m.ID != id {
		return Match{}, problem.New(problem.Untrusted, "asked for %s, the registry answered with %s", id.Short(), m.ID.Short())
	}
	return m, nil
}

// Query contains the parameters of GET /v1/search.
type Query struct {
	Words         string
	ShortID       string // first 12 digits of an id
	Tag           string
	Family        string
	MaxPrice      *int64 // micro-dollars per call
	MinReputation float64
	Limit         int
	Cursor        string
}

func (q *Query) values() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{"q": q.Words, "id": q.ShortID, "tag": q.Tag, "family": q.Family, "cursor": q.Cursor} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.MaxPrice != nil {
		v.Set("max_price", strconv.FormatInt(*q.MaxPrice, 10))
	}
	if q.MinReputation != 0 {
		v.Set("min_reputation", strconv.FormatFloat(q.MinReputation, 'g', -1, 64))
	}
	if q.Limit != 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return v
}

// Search sends GET /v1/search. Registries of the reference answer it with 404 or 405.
func (c *Client) Search(ctx context.Context, q Query) (Page, error) {
	var answer rawPage
	if err := c.getJSON(ctx, "/v1/search", q.values(), &answer); err != nil {
		return Page{}, err
	}
	return answer.decode(), nil
}

func (c *Client) SearchCapability(ctx context.Context, q string, limit int) (Page, error) {
	v := url.Values{"q": {q}, "include_local": {"false"}}
	if limit != 0 {
		v.Set("limit", strconv.Itoa(limit))
	}
	var answer rawMatches
	if err := c.getJSON(ctx, "/v1/search_capability", v, &answer); err != nil {
		return Page{}, err
	}
	return (&rawPage{matches: answer}).decode(), nil
}

func (c *Client) QueryCapability(ctx context.Context, capability, family string, limit int) (Page, error) {
	v := url.Values{}
	if capability != "" {
		v.Set("capability", capability)
	}
	if family != "" {
		v.Set("family", family)
	}
	if limit != 0 {
		v.Set("limit", strconv.Itoa(limit))
	}
	var answer rawPage
	if err := c.postJSON(ctx, "/v1/query_capability", v, nil, &answer); err != nil {
		return Page{}, err
	}
	return answer.decode(), nil
}

type rawMatches []json.RawMessage

func (r *rawMatches) UnmarshalCanon(d *canon.Decoder) error {
	if d.Kind() == canon.Null {
		return d.Null()
	}
	return d.Array(func(int) error {
		raw, err := d.Raw()
		*r = append(*r, raw)
		return err
	})
}

type rawPage struct {
	matches rawMatches
	next    string
}

func (r *rawPage) UnmarshalCanon(d *canon.Decoder) error {
	return d.Object(func(key string) (err error) {
		switch {
		case key == "matches":
			return r.matches.UnmarshalCanon(d)
		case key == "next" && d.Kind() != canon.Null:
			r.next, err = d.String()
			return err
		}
		return d.Skip()
	})
}

func (r *rawPage) decode() Page {
	p := Page{Matches: make([]Match, 0, len(r.matches)), Next: r.next}
	for i, raw := range r.matches {
		var m Match
		err := json.Unmarshal(raw, &m)
		if err == nil && m.ID.IsZero() {
			err = problem.Invalid("vacant_id", "an id", "nothing")
		}
		if err != nil {
			p.MatchErrors = append(p.MatchErrors, problem.Wrap(problem.Untrusted, err, "match %d cannot be read", i+1))
			continue
		}
		p.Matches = append(p.Matches, m)
	}
	return p
}

const maxLogPage = 500

func (c *Client) EventLog(ctx context.Context, id identity.ID, afterSeq uint64, limit int) (events []Event, err error) {
	v := url.Values{"from_seq": {strconv.FormatUint(afterSeq, 10)}, "limit": {strconv.Itoa(limit)}}
	return events, c.getJSON(ctx, "/v1/event_log/"+id.String(), v, &events)
}

// maxPages limits the pages that Events reads, because a log may be endless.
const maxPages = 200

// Events calls f for each event that id signed, in order, until the log ends or f returns false.
func (c *Client) Events(ctx context.Context, id identity.ID, f func(Event) bool) error {
	afterSeq := uint64(0)
	for range maxPages {
		page, err := c.EventLog(ctx, id, afterSeq, maxLogPage)
		if err != nil {
			return err
		}
		for i := range page {
			if page[i].Seq <= afterSeq {
				return problem.New(problem.Untrusted, "%s: the event log of %s is not in order", c.URL, id.Short())
			}
			afterSeq = page[i].Seq
			// The reference also lists events about id that other actors signed (PROTOCOL §19).
			if page[i].Actor == id && !f(page[i]) {
				return nil
			}
		}
		if len(page) < maxLogPage {
			return nil
		}
	}
	return problem.New(problem.Untrusted, "%s: the event log of %s has no end", c.URL, id.Short())
}

func (c *Client) NextActorSeq(ctx context.Context, id identity.ID) (int64, error) {
	lastSeq := int64(0)
	err := c.Events(ctx, id, func(e Event) bool {
		lastSeq = max(lastSeq, e.ActorSeq)
		return true
	})
	return lastSeq + 1, err
}

func (c *Client) Event(ctx context.Context, seq uint64) (e Event, err error) {
	return e, c.getJSON(ctx, "/v1/event/"+strconv.FormatUint(seq, 10), nil, &e)
}

func (c *Client) Lineage(ctx context.Context, id identity.ID, direction string, depth int) (l Lineage, err error) {
	v := url.Values{"direction": {direction}, "depth": {strconv.Itoa(depth)}}
	return l, c.getJSON(ctx, "/v1/lineage/"+id.String(), v, &l)
}

func (c *Client) Revocations(ctx context.Context) (list []Revoked, err error) {
	return list, c.getJSON(ctx, "/v1/revocation_list", nil, &list)
}
