package web

import (
	"cmp"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/snippet"
	"github.com/vacancy-host/vacancy/shared/host/client/agents"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
	"github.com/vacancy-host/vacancy/shared/vacant/review"
)

const (
	maxRelatives = 20
	maxEvents    = 50
	maxReviews   = 20
)

type vacantData struct {
	ID         identity.ID
	Name       string
	Card       card.Card
	CardHash   string
	Signature  string
	CardPath   string // for scripts
	EventsPath string
	Files      string
	Price      string
	Most       int64                 // maximum price in micro-dollars
	Published  *registryclient.Match // nil if the vacant is not published
	Listing    *listing.Listing
	Parents    []identity.ID
	Children   []identity.ID
	Events     []event
	Reputation *registryclient.Reputation // nil if the reputation is not published
	Reviews    []shownReview              // newest first
	Host       string                     // base URL of this host; "" for a vacant of another host
	Handout    snippet.Handout            // empty for a vacant of another host
	Programs   []program
}

// program is a program or command that calls a vacant.
type program struct{ Label, Text string }

func (s *site) vacantPage(req *http.Request, r *reader) (*page, error) {
	nameOrID := req.PathValue("vacant")
	id, err := identity.ParseID(nameOrID)
	isID := err == nil
	if isID && nameOrID != id.String() || !isID && registry.CheckName(nameOrID) != nil {
		return nil, errPageNotFound
	}
	agentCard, files, err := r.readAgentCard(nameOrID) // only for a vacant of this host
	switch {
	case err == nil && isID && agentCard.VacantID != id:
		return nil, problem.New(problem.Untrusted, "the host answered with the card of another vacant")
	case err == nil:
		id = agentCard.VacantID
	case !problem.Is(err, problem.NotFound) || !isID:
		return nil, err
	}
	d := &vacantData{ID: id, Files: strings.Join(files, ","), CardPath: "/v1/capability_card/" + id.String(), EventsPath: "/v1/event_log/" + id.String()}
	m, err := r.Client.Card(r.ctx, id)
	switch {
	case problem.Is(err, problem.NotFound) && agentCard != nil: // the registry does not show the vacant
		d.CardPath, d.EventsPath = "/v/"+id.String()+"/card", ""
		if err := r.Get(r.ctx, d.CardPath, nil, &m); err != nil {
			return nil, err
		}
		if m.ID != id {
			return nil, problem.New(problem.Untrusted, "the host answered with the card of another vacant")
		}
	case problem.Is(err, problem.NotFound):
		return nil, errPageNotFound
	case err != nil:
		return nil, err
	default:
		d.Published, d.Name, d.Listing = &m, m.Name, parseListing(&m)
	}
	if d.Card, err = m.VerifiedCard(); err != nil {
		return nil, err
	}
	d.CardHash, d.Signature = d.Card.Hash().String(), hex.EncodeToString(d.Card.Signature)
	if d.Published != nil {
		if err := d.addHistory(r, agentCard != nil); err != nil {
			return nil, err
		}
	}
	if agentCard != nil {
		if err := d.addPrograms(agentCard); err != nil {
			return nil, err
		}
	}
	return &page{file: "vacant.html", Title: cmp.Or(d.Name, "Vacant "+id.Short()), Script: "page.js", CacheSeconds: 10, Hidden: d.Published == nil, Data: d}, nil
}

func (d *vacantData) addHistory(r *reader, isHosted bool) error {
	if d.Listing != nil {
		d.Price = formatPrice(d.Listing.Price)
	}
	for direction, target := range map[string]*[]identity.ID{"ancestors": &d.Parents, "descendants": &d.Children} {
		lineage, err := r.Lineage(r.ctx, d.ID, direction, 16)
		if err != nil {
			return err
		}
		*target = lineage.Chain[:min(len(lineage.Chain), maxRelatives)]
	}
	if err := d.addReviews(r, isHosted); err != nil {
		return err
	}
	events, err := r.EventLog(r.ctx, d.ID, 0, maxEvents)
	for _, e := range events {
		d.Events = append(d.Events, newEvent(e))
	}
	return err
}

// shownReview is a review whose signature is verified.
type shownReview struct {
	review.Row
	Position uint64
	Claim    *string
}

// addReviews adds the score and the last reviews of a published vacant. If the vacant's current
// agent has no reviews, its score is 0, and addReviews saves the requests.
func (d *vacantData) addReviews(r *reader, isHosted bool) error {
	if d.Published.Score == 0 {
		if isHosted {
			d.Reputation = &registryclient.Reputation{}
		}
		return nil
	}
	reputation, err := r.Reputation(r.ctx, d.ID)
	if problem.Is(err, problem.NotFound) {
		return nil
	}
	d.Reputation = &reputation
	if err != nil || reputation.Rows == 0 {
		return err
	}
	first := reputation.Rows - min(reputation.Rows, maxReviews) + 1
	page, err := r.ReputationHistory(r.ctx, d.ID, strconv.FormatUint(first, 10), maxReviews)
	if err != nil {
		return err
	}
	for _, entry := range slices.Backward(page.Reviews) {
		row, err := review.DecodeRow(entry.Row)
		if err == nil {
			err = row.Verify(d.ID, entry.Claim)
		}
		if err != nil {
			return problem.Wrap(problem.Untrusted, err, "review %d", entry.Position)
		}
		d.Reviews = append(d.Reviews, shownReview{row, entry.Position, entry.Claim})
	}
	return nil
}

func (d *vacantData) addPrograms(c *agents.Card) error {
	base, ok := strings.CutSuffix(c.Interfaces[0].URL, "/v/"+c.VacantID.String())
	u, err := url.Parse(base)
	if !ok || err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return problem.New(problem.Untrusted, "the card of the vacant does not contain the URL of its host")
	}
	d.Host, d.Name, d.Price, d.Most = u.String(), c.Name, c.PriceTerms.String(), int64(c.PriceTerms.Hold())
	d.Handout = snippet.HandoutForCard(d.Host, c.Name, c)
	d.Programs = []program{{"vacancy", "vacancy call " + snippet.ShellWord(d.Handout.Address) + ` "hello"`}}
	if d.Handout.Curl == "" {
		return nil // stock clients cannot send signed calls
	}
	for _, l := range snippet.Languages() {
		text, err := l.Program(d.Handout)
		if err != nil {
			return err
		}
		d.Programs = append(d.Programs, program{languageLabels[l.Name], text})
	}
	return nil
}

var languageLabels = map[string]string{"curl": "curl", "python": "Python (A2A)", "js": "JavaScript (A2A)", "go": "Go (A2A)", "openai": "OpenAI client", "mcp": "MCP client"}
