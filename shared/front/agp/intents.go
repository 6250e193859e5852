package agp

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	// Lambda functions have no time zone database.
	_ "time/tzdata"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	bookings "github.com/vacancy-host/vacancy/shared/host/booking"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/booking"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

type Ping struct {
	Status  string       `json:"status"`
	Venues  int64        `json:"venues"`
	Tier    billing.Tier `json:"tier"`
	Agent   string       `json:"agent_id"`
	Version string       `json:"network_version"`
}

func (c *call) ping(ctx context.Context) (any, error) {
	n := int64(1)
	if !c.key.Test {
		var err error
		if n, err = c.Bookings.Registry.VenueCount(ctx); err != nil {
			return nil, err
		}
	}
	return Ping{"connected", n, c.key.Tier, c.env.Agent(), NetworkVersion}, nil
}

// Venue is a venue in AGP's form. ReferralFee is a fraction, for example 0.07, whereas the FeePct
// members of answers are percentages.
type Venue struct {
	ID          string  `json:"id"`
	Name        string  `json:"name"`
	Slug        string  `json:"slug"`
	Category    string  `json:"category"`
	Location    string  `json:"location"`
	Agent       string  `json:"agent_id"`
	Live        bool    `json:"is_live"`
	ReferralFee float64 `json:"referral_fee_pct"`
	// The following members are additions to AGP.
	Vacant     string   `json:"vacant_id,omitempty"`
	Summary    string   `json:"summary,omitempty"`
	Areas      []string `json:"areas,omitempty"`
	Bookable   bool     `json:"bookable"`
	Capacity   int64    `json:"capacity,omitempty"`
	Hours      string   `json:"hours,omitempty"`
	Price      string   `json:"price_usd"` // price of a call
	Reputation float64  `json:"reputation"`
}

// feePct is the network's referral fee in percent.
const feePct = 7

func dollars(m money.Amount) string {
	s := strings.TrimPrefix(m.String(), "$")
	// Cents must have two digits.
	if whole, part, ok := strings.Cut(s, "."); !ok || len(part) == 1 {
		return whole + "." + (part + "00")[:2]
	}
	return s
}

func venueOf(v *bookings.Venue) Venue {
	out := Venue{
		Name: v.Name, Slug: v.Slug, Category: v.Category, Location: v.Location, Agent: v.AgentID(), Live: v.IsLive,
		ReferralFee: float64(v.Referral) / 10_000, Summary: v.Summary, Areas: v.Areas, Bookable: v.Bookable, Capacity: v.Capacity,
		Hours: v.Hours, Price: dollars(v.Price), Reputation: v.Reputation,
	}
	if out.ID = v.AgentID(); !v.ID.IsZero() {
		out.ID, out.Vacant = v.ID.String(), v.ID.String()
	}
	return out
}

// cachedSearch is a cached search result.
type cachedSearch struct {
	ids     []identity.ID
	venues  []Venue
	expires time.Time
}

// searchTime is the time for which a search result is cached.
const searchTime = 300 * time.Second

// Limits of searches.
const (
	defaultSearch = 10
	maxSearch     = 50
	maxList       = 100
	maxWords      = 512
)

type Search struct {
	Venues  []Venue `json:"venues"`
	FeePct  int     `json:"fee_pct"`
	Expires string  `json:"expires_at"`
	Query   string  `json:"query"`
}

func (c *call) search(ctx context.Context) (any, error) {
	f := fields{members: c.env.Payload}
	query, location := f.text("query", maxWords), f.text("location", listing.MaxLocation)
	limit := min(f.number("limit", defaultSearch, 1, math.MaxInt32), maxSearch)
	r := search.Request{Query: query, Area: location, Category: f.text("category", listing.MaxCategory)}
	if more := f.text("capability", maxWords); more != "" {
		r.Query = strings.TrimSpace(query + " " + more)
	}
	r.MaxPrice = (*int64)(f.amount("max_price_usd"))
	party := f.number("party_size", 0, 1, listing.MaxCapacity)
	f.start()
	if len(r.Query) > search.MaxQuery {
		f.fail("query", fmt.Sprintf("at most %d bytes", search.MaxQuery), "string_too_long")
	}
	if len(f.wrong) > 0 {
		return nil, f.wrong
	}
	if c.key.Test {
		v := bookings.TestVenue()
		return Search{[]Venue{venueOf(&v)}, feePct, c.Now().UTC().Add(searchTime).Format(time.RFC3339), query}, nil
	}
	id := fmt.Sprintf("%q %q %q %d %d", r.Query, r.Area, r.Category, limit, party)
	if r.MaxPrice != nil {
		id += fmt.Sprint(" ", *r.MaxPrice)
	}
	now := c.Now()
	hit, ok := c.searches.Get(id)
	if ok = ok && now.Before(hit.expires); !ok {
		venues, _, err := c.venues(ctx, r, int(limit), party)
		if err != nil {
			return nil, err
		}
		hit = &cachedSearch{expires: now.Add(searchTime)}
		for i := range venues {
			hit.ids, hit.venues = append(hit.ids, venues[i].ID), append(hit.venues, venueOf(&venues[i]))
		}
		c.searches.Add(id, hit)
	}
	shown := hit.venues
	c.header.Set("X-Cache", "MISS")
	if ok {
		c.header.Set("X-Cache", "HIT")
		c.header.Set("Age", strconv.Itoa(int((searchTime - hit.expires.Sub(now)).Seconds())))
		registrations, err := c.Bookings.Registry.GetMany(ctx, hit.ids)
		if err != nil {
			return nil, err
		}
		isListed := map[identity.ID]bool{}
		for i := range registrations {
			isListed[registrations[i].ID] = registrations[i].FirstSeq > 0 && registrations[i].IsListed()
		}
		shown = nil
		for i, id := range hit.ids {
			if isListed[id] {
				shown = append(shown, hit.venues[i])
			}
		}
	}
	return Search{append([]Venue{}, shown...), feePct, hit.expires.UTC().Format(time.RFC3339), query}, nil
}

// maxPages limits the search pages that one answer reads. More than one is needed if few venues
// have room for the party.
const maxPages = 10

// venues returns up to maxVenues matching venues and the cursor of the next page.
func (c *call) venues(ctx context.Context, r search.Request, n int, party int64) (list []bookings.Venue, next string, err error) {
	for range maxPages {
		r.Limit = n - len(list)
		page, err := c.Search(ctx, r)
		if err != nil {
			return nil, "", err
		}
		for i := range page.Matches {
			v := bookings.VenueOf(&page.Matches[i].Registration)
			if party == 0 || v.Capacity == 0 || party <= v.Capacity {
				list = append(list, v)
			}
		}
		if r.Cursor = page.Next; r.Cursor == "" || len(list) == n {
			break
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for i := range list {
		g.Go(func() error {
			live, err := c.Bookings.IsReachable(ctx, list[i].ID)
			list[i].IsLive = list[i].IsLive && live
			return err
		})
	}
	return list, r.Cursor, g.Wait()
}

type List struct {
	Venues []Venue `json:"venues"`
	Count  int     `json:"count"`
	Total  *int64  `json:"total"` // null if the total is unknown
	Next   *string `json:"next_cursor"`
}

func (c *call) listVenues(ctx context.Context) (any, error) {
	f := fields{members: c.env.Payload}
	r := search.Request{Category: f.text("category", listing.MaxCategory), Area: f.text("location", listing.MaxLocation), Cursor: f.text("cursor", 128)}
	limit := min(f.number("limit", maxList, 1, math.MaxInt32), maxList)
	if len(f.wrong) > 0 {
		return nil, f.wrong
	}
	out := List{Venues: []Venue{}}
	if c.key.Test {
		v := bookings.TestVenue()
		total := int64(1)
		return List{Venues: []Venue{venueOf(&v)}, Count: 1, Total: &total}, nil
	}
	venues, next, err := c.venues(ctx, r, int(limit), 0)
	if problem.Is(err, problem.Malformed) {
		f.fail("cursor", "the next_cursor from the previous page", "value_error")
		return nil, f.wrong
	}
	if err != nil {
		return nil, err
	}
	for i := range venues {
		out.Venues = append(out.Venues, venueOf(&venues[i]))
	}
	out.Count = len(out.Venues)
	switch {
	case next != "":
		out.Next = &next
		if r.Category == "" && r.Area == "" {
			n, err := c.Bookings.Registry.VenueCount(ctx)
			if err != nil {
				return nil, err
			}
			out.Total = &n
		}
	case r.Cursor == "":
		n := int64(out.Count)
		out.Total = &n
	}
	return out, nil
}

// venue returns the venue that ref names. For a test key, only the test venue exists.
func (c *call) venue(ctx context.Context, ref string) (bookings.Venue, error) {
	if c.key.Test {
		v := bookings.TestVenue()
		if ref != v.Slug && ref != v.AgentID() {
			return v, problem.New(problem.NotFound, "a test key can use only %s, got %s", v.AgentID(), httpapi.Clip(ref))
		}
		return v, nil
	}
	return c.Bookings.Find(ctx, ref)
}

type Confirm struct {
	Booking string `json:"booking_id"`
	// Status is pending, confirmed or rejected, or completed if there is a result.
	Status   string        `json:"status"`
	Envelope booking.State `json:"envelope_status"`
	Venue    Venue         `json:"venue"`
	Price    string        `json:"price_usd"`
	// VenuePrice is the maximum price of the call to the venue. It is omitted if the call is free.
	VenuePrice string          `json:"venue_price_usd,omitempty"`
	Metered    *Metered        `json:"metered"` // null for a test key
	FeePct     int             `json:"fee_pct"`
	Created    string          `json:"created_at"`
	URL        string          `json:"status_url"`
	Result     json.RawMessage `json:"result,omitempty"`
	// Cut is the reason why the venue's answer may be incomplete: length, budget or unknown.
	Cut string `json:"cut,omitempty"`
}

// Metered is the usage event of a booking.
type Metered struct {
	Event    string `json:"event_id"`
	Intent   string `json:"intent"`
	Amount   string `json:"amount_usd"`
	Quantity int    `json:"quantity"`
}

func (c *call) confirm(ctx context.Context) (any, error) {
	q, err := c.request()
	if err != nil {
		return nil, err
	}
	if !c.key.Test {
		q.Writes = append(q.Writes, c.requests("ok"), bookings.CounterAdd("a2a_metered_events_total", 1, "intent", c.env.Intent, "tier", string(c.key.Tier)))
	}
	done, err := c.Bookings.Confirm(ctx, &c.key, q)
	if err != nil {
		return nil, convertNotFound("venue_not_found", err)
	}
	c.counted, c.replay = !done.Replayed, done.Replayed
	if done.Replayed {
		c.header.Set("Idempotent-Replayed", "true")
	} else {
		c.left = done.Left
	}
	base, err := c.Bookings.URL(ctx)
	if err != nil {
		return nil, err
	}
	out := Confirm{
		Booking: done.ID, Status: string(done.Status()), Envelope: done.State, Venue: venueOf(&done.Venue), Price: dollars(done.Price),
		FeePct: feePct, Created: done.Created.Format(time.RFC3339Nano), URL: base + BookingsPath + "/" + done.ID, Result: done.Result, Cut: string(done.Truncation),
	}
	if done.VenuePrice > 0 {
		out.VenuePrice = dollars(done.VenuePrice)
	}
	if done.State == booking.Rejected {
		out.Status = string(booking.Rejected)
	}
	if done.Event != "" {
		out.Metered = &Metered{done.Event, c.env.Intent, dollars(done.Price), 1}
	}
	return out, nil
}

// maxOnce limits an idempotency key in bytes.
const maxOnce = 128

// request returns the booking request that the envelope contains, or the errors of its members.
func (c *call) request() (q bookings.Request, err error) {
	e := &c.env
	f := fields{members: e.Payload}
	q = bookings.Request{From: e.From, Agent: c.agent(), Starts: f.start(), Party: f.number("party_size", 1, 1, listing.MaxCapacity)}
	for _, name := range []string{"venue_id", "venue_slug", "venue_agent_id"} {
		if ref := f.text(name, maxTo); q.Venue == "" {
			q.Venue = ref
		}
	}
	if q.Venue == "" && !strings.HasPrefix(e.To, networkPrefix) {
		q.Venue = e.To
	}
	if q.Venue == "" {
		f.wrong = append(f.wrong, missingField("payload", "venue_id"))
	}
	if f.has("guest") {
		if _, ok := object(f.members["guest"]); !ok || len(f.members["guest"]) > 4<<10 {
			f.fail("guest", "an object of at most 4096 bytes", "dict_type")
		}
		q.Details.Guest = f.members["guest"]
	}
	q.Details.Notes = f.text("notes", 2000)
	if f.has("input") {
		if q.Details.Input = f.members["input"]; len(q.Details.Input) > 128<<10 {
			f.fail("input", "at most 131072 bytes", "too_long")
		}
	}
	q.MaxPrice = f.amount("max_price_usd")
	once := f.text("idempotency_key", maxOnce)
	if h := c.r.Header.Get("Idempotency-Key"); h != "" {
		if once = h; len(once) > maxOnce || canon.CheckSignedText("Idempotency-Key", once) != nil {
			f.wrong = append(f.wrong, invalidValue(fmt.Sprintf("at most %d bytes without control characters", maxOnce), "string_too_long", "Idempotency-Key"))
		}
	}
	if len(f.wrong) > 0 {
		return q, f.wrong
	}
	delete(e.Payload, "idempotency_key")
	// Marshal sorts the keys of the map, so equal payloads have equal hashes.
	canonical, err := json.Marshal([]any{e.Intent, e.To, e.From, e.Payload})
	if err != nil {
		return q, invalid{invalidValue("JSON", "json_invalid", "payload")}
	}
	sum := identity.Sum(canonical)
	q.Hash = hex.EncodeToString(sum[:])
	switch {
	case once != "":
		q.IdempotencyKey = "key " + once
	case e.Timestamp != "":
		q.IdempotencyKey = "sent " + e.From + " " + e.Timestamp + " " + q.Hash
	}
	if !strings.Contains(c.r.Header.Get("Prefer"), "respond-async") {
		q.Wait = min(e.TTL, maxTTL)
		if deadline, ok := c.r.Context().Deadline(); ok {
			q.Wait = min(q.Wait, time.Until(deadline)-2*time.Second)
		}
	}
	return q, nil
}

// start parses the start of a booking: starts_at, or date and time with timezone.
func (f *fields) start() time.Time {
	startsAt, day, hour, zone := f.text("starts_at", 64), f.text("date", 32), f.text("time", 16), f.text("timezone", 64)
	if startsAt != "" {
		t, err := parseTime(startsAt)
		if err != nil {
			f.fail("starts_at", "a time such as 2026-11-24T19:00:00+08:00", "datetime_parsing")
		}
		return t
	}
	if day == "" && hour == "" {
		return time.Time{}
	}
	place, err := time.LoadLocation(zone) // "" means UTC
	if err != nil || zone == "Local" {
		f.fail("timezone", "a name such as Asia/Makassar", "zone_info")
		return time.Time{}
	}
	if hour == "" {
		hour = "00:00"
	}
	t, err := time.ParseInLocation("2006-01-02 15:04", day+" "+hour[:min(len(hour), 5)], place)
	if err != nil {
		f.fail("date", "a date such as 2026-11-24, and a time such as 19:00", "datetime_parsing")
	}
	return t
}

// amount parses an amount of dollars, given as a number or a string. It uses no float, so the
// amount stays exact. If the member is missing, amount returns nil.
func (f *fields) amount(name string) *money.Amount {
	if !f.has(name) {
		return nil
	}
	s := string(f.members[name])
	if len(s) > 1 && s[0] == '"' {
		s = s[1 : len(s)-1]
	}
	m, err := money.Parse(s)
	if err != nil {
		f.fail(name, "dollars, 0 or more", "decimal_parsing")
	}
	return &m
}
