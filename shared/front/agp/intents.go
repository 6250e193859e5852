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

type PingAnswer struct {
	Status  string       `json:"status"`
	Venues  int64        `json:"venues"`
	Tier    billing.Tier `json:"tier"`
	Agent   string       `json:"agent_id"`
	Version string       `json:"network_version"`
}

func (c *envelopeRequest) ping(ctx context.Context) (any, error) {
	n := int64(1)
	if !c.key.Test {
		var err error
		if n, err = c.Bookings.Registry.ListedCount(ctx); err != nil {
			return nil, err
		}
	}
	return PingAnswer{"connected", n, c.key.Tier, c.env.Agent(), NetworkVersion}, nil
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

func formatDollars(m money.Amount) string {
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
		ReferralFee: float64(v.ReferralFee) / 10_000, Summary: v.Summary, Areas: v.Areas, Bookable: v.Bookable, Capacity: v.Capacity,
		Hours: v.Hours, Price: formatDollars(v.Price), Reputation: v.Reputation,
	}
	if out.ID = v.AgentID(); !v.ID.IsZero() {
		out.ID, out.Vacant = v.ID.String(), v.ID.String()
	}
	return out
}

type cachedSearch struct {
	ids     []identity.ID
	venues  []Venue
	expires time.Time
}

const searchCacheTime = 300 * time.Second

const (
	defaultSearchLimit = 10
	maxSearchLimit     = 50
	maxListLimit       = 100
	maxQueryBytes      = 512
)

type SearchAnswer struct {
	Venues  []Venue `json:"venues"`
	FeePct  int     `json:"fee_pct"`
	Expires string  `json:"expires_at"`
	Query   string  `json:"query"`
}

func (c *envelopeRequest) searchVenues(ctx context.Context) (any, error) {
	f := payloadFields{members: c.env.Payload}
	query, location := f.parseText("query", maxQueryBytes), f.parseText("location", listing.MaxLocationBytes)
	limit := min(f.parseNumber("limit", defaultSearchLimit, 1, math.MaxInt32), maxSearchLimit)
	r := search.Request{Query: query, Area: location, Category: f.parseText("category", listing.MaxCategoryBytes)}
	if capability := f.parseText("capability", maxQueryBytes); capability != "" {
		r.Query = strings.TrimSpace(query + " " + capability)
	}
	r.MaxPrice = (*int64)(f.parseAmount("max_price_usd"))
	party := f.parseNumber("party_size", 0, 1, listing.MaxCapacity)
	f.parseStart()
	if len(r.Query) > search.MaxQueryBytes {
		f.addError("query", fmt.Sprintf("at most %d bytes", search.MaxQueryBytes), "string_too_long")
	}
	if len(f.errs) > 0 {
		return nil, f.errs
	}
	if c.key.Test {
		v := bookings.TestVenue()
		return SearchAnswer{[]Venue{venueOf(&v)}, feePct, c.Now().UTC().Add(searchCacheTime).Format(time.RFC3339), query}, nil
	}
	id := fmt.Sprintf("%q %q %q %d %d", r.Query, r.Area, r.Category, limit, party)
	if r.MaxPrice != nil {
		id += fmt.Sprint(" ", *r.MaxPrice)
	}
	now := c.Now()
	result, isCached := c.searches.Get(id)
	if isCached = isCached && now.Before(result.expires); !isCached {
		venues, _, err := c.findVenues(ctx, r, int(limit), party)
		if err != nil {
			return nil, err
		}
		result = &cachedSearch{expires: now.Add(searchCacheTime)}
		for i := range venues {
			result.ids, result.venues = append(result.ids, venues[i].ID), append(result.venues, venueOf(&venues[i]))
		}
		c.searches.Add(id, result)
	}
	listedVenues := result.venues
	c.header.Set("X-Cache", "MISS")
	if isCached {
		c.header.Set("X-Cache", "HIT")
		c.header.Set("Age", strconv.Itoa(int((searchCacheTime - result.expires.Sub(now)).Seconds())))
		registrations, err := c.Bookings.Registry.GetMany(ctx, result.ids)
		if err != nil {
			return nil, err
		}
		isListed := map[identity.ID]bool{}
		for i := range registrations {
			isListed[registrations[i].ID] = registrations[i].FirstSeq > 0 && registrations[i].IsListed()
		}
		listedVenues = nil
		for i, id := range result.ids {
			if isListed[id] {
				listedVenues = append(listedVenues, result.venues[i])
			}
		}
	}
	return SearchAnswer{append([]Venue{}, listedVenues...), feePct, result.expires.UTC().Format(time.RFC3339), query}, nil
}

// maxPages limits the search pages that one answer reads. More than one page is needed if few
// venues have room for the party.
const maxPages = 10

// findVenues returns up to maxVenues matching venues and the cursor of the next page.
func (c *envelopeRequest) findVenues(ctx context.Context, r search.Request, maxVenues int, party int64) (list []bookings.Venue, next string, err error) {
	for range maxPages {
		r.Limit = maxVenues - len(list)
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
		if r.Cursor = page.Next; r.Cursor == "" || len(list) == maxVenues {
			break
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for i := range list {
		g.Go(func() error {
			isReachable, err := c.Bookings.IsReachable(ctx, list[i].ID)
			list[i].IsLive = list[i].IsLive && isReachable
			return err
		})
	}
	return list, r.Cursor, g.Wait()
}

type ListAnswer struct {
	Venues []Venue `json:"venues"`
	Count  int     `json:"count"`
	Total  *int64  `json:"total"` // null if the total is unknown
	Next   *string `json:"next_cursor"`
}

func (c *envelopeRequest) listVenues(ctx context.Context) (any, error) {
	f := payloadFields{members: c.env.Payload}
	r := search.Request{Category: f.parseText("category", listing.MaxCategoryBytes), Area: f.parseText("location", listing.MaxLocationBytes), Cursor: f.parseText("cursor", 128)}
	limit := min(f.parseNumber("limit", maxListLimit, 1, math.MaxInt32), maxListLimit)
	if len(f.errs) > 0 {
		return nil, f.errs
	}
	out := ListAnswer{Venues: []Venue{}}
	if c.key.Test {
		v := bookings.TestVenue()
		total := int64(1)
		return ListAnswer{Venues: []Venue{venueOf(&v)}, Count: 1, Total: &total}, nil
	}
	venues, next, err := c.findVenues(ctx, r, int(limit), 0)
	if problem.Is(err, problem.Malformed) {
		f.addError("cursor", "the next_cursor from the previous page", "value_error")
		return nil, f.errs
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
			n, err := c.Bookings.Registry.ListedCount(ctx)
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

// findVenue returns the venue that ref names. For a test key, only the test venue exists.
func (c *envelopeRequest) findVenue(ctx context.Context, ref string) (bookings.Venue, error) {
	if c.key.Test {
		v := bookings.TestVenue()
		if ref != v.Slug && ref != v.AgentID() {
			return v, problem.New(problem.NotFound, "a test key can use only %s, got %s", v.AgentID(), httpapi.QuoteTruncated(ref))
		}
		return v, nil
	}
	return c.Bookings.FindVenue(ctx, ref)
}

type ConfirmAnswer struct {
	BookingID string `json:"booking_id"`
	// Status is the status that the guest sees, or rejected if the venue rejected the booking.
	Status   string        `json:"status"`
	Envelope booking.State `json:"envelope_status"`
	Venue    Venue         `json:"venue"`
	Price    string        `json:"price_usd"`
	// VenuePrice is the maximum price of the call to the venue.
	VenuePrice string          `json:"venue_price_usd,omitempty"`
	Metered    *Metered        `json:"metered"` // null for a test key
	FeePct     int             `json:"fee_pct"`
	CreatedAt  string          `json:"created_at"`
	URL        string          `json:"status_url"`
	Result     json.RawMessage `json:"result,omitempty"`
	// CutReason is the reason why the venue's answer may be incomplete.
	CutReason string `json:"cut,omitempty"`
}

// Metered is the usage event of a booking.
type Metered struct {
	UsageEventID string `json:"event_id"`
	Intent       string `json:"intent"`
	Amount       string `json:"amount_usd"`
	Quantity     int    `json:"quantity"`
}

func (c *envelopeRequest) confirmBooking(ctx context.Context) (any, error) {
	req, err := c.bookingRequest()
	if err != nil {
		return nil, err
	}
	if !c.key.Test {
		req.ExtraWrites = append(req.ExtraWrites, c.requestCounter("ok"), bookings.CounterWrite("a2a_metered_events_total", 1, "intent", c.env.Intent, "tier", string(c.key.Tier)))
	}
	confirmed, err := c.Bookings.Confirm(ctx, &c.key, req)
	if err != nil {
		return nil, convertNotFound("venue_not_found", err)
	}
	c.counted, c.replayed = !confirmed.Replayed, confirmed.Replayed
	if confirmed.Replayed {
		c.header.Set("Idempotent-Replayed", "true")
	} else {
		c.allowance = confirmed.Allowance
	}
	base, err := c.Bookings.BaseURL(ctx)
	if err != nil {
		return nil, err
	}
	out := ConfirmAnswer{
		BookingID: confirmed.ID, Status: string(confirmed.Status()), Envelope: confirmed.State, Venue: venueOf(&confirmed.Venue), Price: formatDollars(confirmed.Price),
		FeePct: feePct, CreatedAt: confirmed.CreatedAt.Format(time.RFC3339Nano), URL: base + BookingsPath + "/" + confirmed.ID, Result: confirmed.Result, CutReason: string(confirmed.CutReason),
	}
	if confirmed.VenuePrice > 0 {
		out.VenuePrice = formatDollars(confirmed.VenuePrice)
	}
	if confirmed.State == booking.Rejected {
		out.Status = string(booking.Rejected)
	}
	if confirmed.UsageEventID != "" {
		out.Metered = &Metered{confirmed.UsageEventID, c.env.Intent, formatDollars(confirmed.Price), 1}
	}
	return out, nil
}

const maxIdempotencyKeyBytes = 128

func (c *envelopeRequest) bookingRequest() (req bookings.Request, err error) {
	e := &c.env
	f := payloadFields{members: e.Payload}
	req = bookings.Request{From: e.From, Agent: c.agent(), Start: f.parseStart(), PartySize: f.parseNumber("party_size", 1, 1, listing.MaxCapacity)}
	for _, name := range []string{"venue_id", "venue_slug", "venue_agent_id"} {
		if ref := f.parseText(name, maxTo); req.Venue == "" {
			req.Venue = ref
		}
	}
	if req.Venue == "" && !strings.HasPrefix(e.To, networkPrefix) {
		req.Venue = e.To
	}
	if req.Venue == "" {
		f.errs = append(f.errs, missingField("payload", "venue_id"))
	}
	if f.has("guest") {
		if _, ok := parseObject(f.members["guest"]); !ok || len(f.members["guest"]) > 4<<10 {
			f.addError("guest", "an object of at most 4096 bytes", "dict_type")
		}
		req.Details.Guest = f.members["guest"]
	}
	req.Details.Notes = f.parseText("notes", 2000)
	if f.has("input") {
		if req.Details.Input = f.members["input"]; len(req.Details.Input) > 128<<10 {
			f.addError("input", "at most 131072 bytes", "too_long")
		}
	}
	req.MaxPrice = f.parseAmount("max_price_usd")
	idempotencyKey := f.parseText("idempotency_key", maxIdempotencyKeyBytes)
	if h := c.r.Header.Get("Idempotency-Key"); h != "" {
		if idempotencyKey = h; len(idempotencyKey) > maxIdempotencyKeyBytes || canon.CheckSignedText("Idempotency-Key", idempotencyKey) != nil {
			f.errs = append(f.errs, invalidValue(fmt.Sprintf("at most %d bytes without control characters", maxIdempotencyKeyBytes), "string_too_long", "Idempotency-Key"))
		}
	}
	if len(f.errs) > 0 {
		return req, f.errs
	}
	delete(e.Payload, "idempotency_key")
	// Marshal sorts the keys of the map, so equal payloads have equal hashes.
	canonical, err := json.Marshal([]any{e.Intent, e.To, e.From, e.Payload})
	if err != nil {
		return req, validationError{invalidValue("JSON", "json_invalid", "payload")}
	}
	sum := identity.Sum(canonical)
	req.Hash = hex.EncodeToString(sum[:])
	switch {
	case idempotencyKey != "":
		req.IdempotencyKey = "key " + idempotencyKey
	case e.Timestamp != "":
		req.IdempotencyKey = "sent " + e.From + " " + e.Timestamp + " " + req.Hash
	}
	if !strings.Contains(c.r.Header.Get("Prefer"), "respond-async") {
		req.Wait = min(e.TTL, maxEffectiveTTL)
		if deadline, ok := c.r.Context().Deadline(); ok {
			req.Wait = min(req.Wait, time.Until(deadline)-2*time.Second)
		}
	}
	return req, nil
}

// parseStart parses the start of a booking: starts_at, or date and time with timezone.
func (f *payloadFields) parseStart() time.Time {
	startsAt, day, hour, zone := f.parseText("starts_at", 64), f.parseText("date", 32), f.parseText("time", 16), f.parseText("timezone", 64)
	if startsAt != "" {
		t, err := parseTime(startsAt)
		if err != nil {
			f.addError("starts_at", "a time such as 2026-11-24T19:00:00+08:00", "datetime_parsing")
		}
		return t
	}
	if day == "" && hour == "" {
		return time.Time{}
	}
	location, err := time.LoadLocation(zone) // "" means UTC
	if err != nil || zone == "Local" {
		f.addError("timezone", "a name such as Asia/Makassar", "zone_info")
		return time.Time{}
	}
	if hour == "" {
		hour = "00:00"
	}
	t, err := time.ParseInLocation("2006-01-02 15:04", day+" "+hour[:min(len(hour), 5)], location)
	if err != nil {
		f.addError("date", "a date such as 2026-11-24, and a time such as 19:00", "datetime_parsing")
	}
	return t
}

// parseAmount parses an amount of dollars. It uses no float, so the amount stays exact.
func (f *payloadFields) parseAmount(name string) *money.Amount {
	if !f.has(name) {
		return nil
	}
	s := string(f.members[name])
	if len(s) > 1 && s[0] == '"' {
		s = s[1 : len(s)-1]
	}
	m, err := money.Parse(s)
	if err != nil {
		f.addError(name, "dollars, 0 or more", "decimal_parsing")
	}
	return &m
}
