package registryapi

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// The reference has the same page sizes.
const (
	defaultEvents, maxEvents = 100, 500
	defaultDepth, maxDepth   = 8, 32
	maxRevocations           = 1000
)

func (d *api) serveCard(w http.ResponseWriter, r *http.Request) error {
	id, err := parseVacantID(r.PathValue("id"))
	if err != nil {
		return err
	}
	reader, err := d.verifier.Identify(r, nil)
	if err != nil {
		return err
	}
	reg, err := d.Registry.View(r.Context(), id, reader)
	if err != nil {
		return err
	}
	return sendToReader(w, r, reader, newMatch(&reg, d.Now()))
}

// serveEvents returns only events whose actor is the vacant. The reference also returns events
// about the vacant, and its command line mistakes their sequence numbers for the vacant's own
// (PROTOCOL §19).
func (d *api) serveEvents(w http.ResponseWriter, r *http.Request) error {
	id, err := parseVacantID(r.PathValue("id"))
	if err != nil {
		return err
	}
	q := newQuery(r, EventsRequest{})
	afterSeq, limit := q.number("from_seq"), q.number("limit")
	reader, err := d.verifier.Identify(r, nil)
	if q.err != nil || err != nil {
		return cmp.Or(q.err, err)
	}
	events, err := d.Registry.Events(r.Context(), id, reader, uint64(afterSeq), int(limit))
	if err != nil {
		return err
	}
	page := make([]registryclient.Event, len(events)) // encodes as [] instead of null if empty
	for i := range events {
		page[i] = eventOf(&events[i])
	}
	return sendToReader(w, r, reader, page)
}

func (d *api) serveEvent(w http.ResponseWriter, r *http.Request) error {
	seq, err := strconv.ParseUint(r.PathValue("seq"), 10, 63)
	if err != nil {
		return &problem.Error{Kind: problem.InvalidMember, Field: "seq", Want: "a number", Got: quoteTruncated(r.PathValue("seq"))}
	}
	reader, err := d.verifier.Identify(r, nil)
	if err != nil {
		return err
	}
	e, err := d.Registry.Event(r.Context(), seq, reader)
	if err != nil {
		return err
	}
	return sendToReader(w, r, reader, eventOf(&e))
}

func eventOf(l *registry.LoggedEvent) registryclient.Event {
	return registryclient.Event{
		Seq: l.Seq, Type: string(l.Type), Actor: l.Actor, Payload: string(l.Payload), Hash: l.Hash.String(),
		ActorSeq: l.ActorSeq, Time: l.Time, Prev: l.Prev.String(), IdempotencyKey: l.IdempotencyKey,
		PublicKey: l.Actor.String(), Signature: hex.EncodeToString(l.Signature),
	}
}

func (d *api) serveLineage(w http.ResponseWriter, r *http.Request) error {
	id, err := parseVacantID(r.PathValue("id"))
	if err != nil {
		return err
	}
	q := newQuery(r, LineageRequest{})
	depth, direction := q.number("depth"), q.word("direction")
	reader, err := d.verifier.Identify(r, nil)
	if q.err != nil || err != nil {
		return cmp.Or(q.err, err)
	}
	chain, err := d.Registry.Lineage(r.Context(), id, reader, registry.Direction(direction), int(depth))
	if err != nil {
		return err
	}
	if chain == nil {
		chain = []identity.ID{}
	}
	return sendToReader(w, r, reader, registryclient.Lineage{ID: id, Direction: direction, Chain: chain})
}

// serveRevocations answers with a bare list like the reference. The list contains the keys of
// hidden vacants, so it omits the reasons, which are private.
func (d *api) serveRevocations(w http.ResponseWriter, r *http.Request) error {
	q := newQuery(r, RevocationsRequest{})
	limit := q.number("limit")
	if q.err != nil {
		return q.err
	}
	list, next, err := d.Registry.ListRevocations(r.Context(), q.values.Get("cursor"), int(limit))
	if err != nil {
		return err
	}
	page := make([]registryclient.Revoked, len(list))
	for i, v := range list {
		page[i] = registryclient.Revoked{ID: v.ID, Seq: v.Seq, Time: v.Time}
	}
	if next != "" {
		w.Header().Set("Link", fmt.Sprintf(`</v1/revocation_list?%s>; rel="next"`,
			url.Values{"cursor": {next}, "limit": {strconv.FormatInt(limit, 10)}}.Encode()))
	}
	return sendPublic(w, r, page)
}

func parseVacantID(text string) (identity.ID, error) {
	id, err := identity.ParseID(text)
	if err != nil {
		return id, problem.New(problem.NotFound, "%.80s", text)
	}
	return id, nil
}

// maxNumber is the largest integer that JSON readers with float64 represent exactly.
const maxNumber = 1<<53 - 1

// query parses URL parameters and checks their ranges. err is the first error. Its kind is
// InvalidMember, as in the Python reference implementation.
type query struct {
	values url.Values
	ranges map[string]op.Range
	err    error
}

func newQuery(r *http.Request, ranged op.Ranged) query {
	return query{values: r.URL.Query(), ranges: ranged.Ranges()}
}

func (q *query) setError(name, want, got string) {
	if q.err == nil {
		q.err = &problem.Error{Kind: problem.InvalidMember, Field: name, Want: want, Got: quoteTruncated(got)}
	}
}

func (q *query) number(name string) int64 {
	paramRange := q.ranges[name]
	if !q.values.Has(name) && !paramRange.Required {
		n, _ := paramRange.Default.(int64)
		return n
	}
	n, err := strconv.ParseInt(q.values.Get(name), 10, 64)
	if err != nil || n < paramRange.Min || n > paramRange.Max {
		q.setError(name, fmt.Sprintf("a number from %d to %d", paramRange.Min, paramRange.Max), q.values.Get(name))
	}
	return n
}

func (q *query) fraction(name string) float64 {
	paramRange := q.ranges[name]
	if !q.values.Has(name) {
		return 0
	}
	f, err := strconv.ParseFloat(q.values.Get(name), 64)
	if err != nil || !(f >= float64(paramRange.Min) && f <= float64(paramRange.Max)) { // also excludes NaN
		q.setError(name, fmt.Sprintf("a number from %d to %d", paramRange.Min, paramRange.Max), q.values.Get(name))
	}
	return f
}

func (q *query) word(name string) string {
	paramRange := q.ranges[name]
	if !q.values.Has(name) {
		word, _ := paramRange.Default.(string)
		return word
	}
	got := q.values.Get(name)
	if !slices.Contains(paramRange.Words, got) {
		q.setError(name, fmt.Sprintf("one of %v", paramRange.Words), got)
	}
	return got
}

// boolean accepts the same forms as the reference's web framework.
func (q *query) boolean(name string) bool {
	switch got := q.values.Get(name); got {
	case "", "false", "False", "0", "no", "off":
		return false
	case "true", "True", "1", "yes", "on":
		return true
	default:
		q.setError(name, "true or false", got)
		return false
	}
}
