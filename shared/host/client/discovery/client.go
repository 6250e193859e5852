package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Client finds vacants by capability and calls them. Searching needs Registries, and calling needs
// a Caller. A Client is safe for concurrent use.
type Client struct {
	Caller     *dispatch.Caller
	Registries []*registryclient.Client
	Policy     Policy
	// Memory persists data for later runs (default: Caller.Book, if it is a Memory).
	Memory Memory
	// Route returns the transport to a match's endpoint (default PersonalRoute).
	Route Route
	// SearchTimeout limits the search of one registry (default 10 s).
	SearchTimeout time.Duration
	MaxTried      int

	mu            sync.Mutex
	routes        map[string]int
	personalRoute Route
	unsaved       unsavedMemory
}

const (
	DefaultSearchTimeout = 10 * time.Second
	DefaultMaxTried      = 5

	maxUnavailableTries = 3
	saveTimeout         = 5 * time.Second
)

type unsavedMemory struct {
	mu   sync.Mutex
	data SavedData
}

func (v *unsavedMemory) Change(_ context.Context, _ identity.ID, f func(*SavedData) bool) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	f(&v.data)
	return nil
}

func (c *Client) currentMemory() Memory {
	if c.Memory != nil {
		return c.Memory
	}
	if c.Caller != nil {
		if m, ok := c.Caller.Book.(Memory); ok {
			return m
		}
	}
	return &c.unsaved
}

func (c *Client) currentTime() time.Time {
	if c.Caller.Now == nil {
		return time.Now()
	}
	return c.Caller.Now()
}

func (c *Client) selfID() identity.ID {
	if c.Caller == nil {
		return identity.ID{}
	}
	return c.Caller.Signer.ID()
}

func (c *Client) currentRoute() Route {
	if c.Route != nil {
		return c.Route
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.personalRoute == nil {
		c.personalRoute = PersonalRoute(0, nil)
	}
	return c.personalRoute
}

// Outcome is the result of the last called vacant.
type Outcome struct {
	dispatch.Result
	Chosen      Match
	Choices     []Choice
	FailedCalls []FailedCall
	Search      SearchResult
}

// FailedCall is an unsuccessful call of a match.
type FailedCall struct {
	ID     identity.ID
	URL    string
	Status int
	Err    error
}

// Call calls a known target and compares its card with the card of the last call.
func (c *Client) Call(ctx context.Context, t dispatch.Target, msg envelope.Message) (dispatch.Result, Freshness, error) {
	freshness := FirstSeen
	if t.Card != nil {
		if !t.Card.Verify() {
			return dispatch.Result{}, freshness, problem.New(problem.Untrusted, "target capability card for %s does not verify", t.Card.VacantID.Short())
		}
		err := c.currentMemory().Change(ctx, c.selfID(), func(m *SavedData) (changed bool) {
			freshness, changed = m.recordCard(t.Card.VacantID, t.Card.Hash(), c.currentTime())
			return changed
		})
		if err != nil {
			return dispatch.Result{}, freshness, err
		}
	}
	res, err := c.Caller.Call(ctx, t, msg)
	return res, freshness, err
}

// CallCapability finds vacants by q, chooses one by the Policy and calls it. If that vacant is
// unavailable or will not answer, the next vacant is called. While the outcome of a call is
// unknown, no other vacant is called, because both could run it, and a repeated CallCapability
// resends the call to the same vacant.
func (c *Client) CallCapability(ctx context.Context, q Query, msg envelope.Message) (Outcome, error) {
	price := int64(-1)
	if q.MaxPrice != nil {
		price = *q.MaxPrice
	}
	name := fmt.Sprintf("capability %q %q %q %d %g", q.Words, q.Tag, q.Family, price, q.MinReputation)
	return c.callChosen(ctx, name, msg, func() (Outcome, error) {
		found, err := c.Search(ctx, q)
		found.DropPartial()
		if err == nil && len(found.Matches) == 0 {
			err = problem.New(problem.NotFound, "no vacant was found for %.80q", q.Words)
			if n := len(found.DroppedMatches); n > 0 {
				err = problem.New(problem.NotFound, "no vacant was found for %.80q that can be called: %d results were dropped, the first because: %s", q.Words, n, found.DroppedMatches[0].Reason)
			}
		}
		return Outcome{Search: found, Choices: RateMatches(c.Policy, found.Matches)}, err
	})
}

// CallChosen calls the best of the choices that choose returns, like CallCapability.
func (c *Client) CallChosen(ctx context.Context, msg envelope.Message, choose func() ([]Choice, error)) (Outcome, error) {
	return c.callChosen(ctx, "chosen", msg, func() (Outcome, error) {
		choices, err := choose()
		if err == nil && len(choices) == 0 {
			err = problem.New(problem.NotFound, "there is no vacant to choose")
		}
		return Outcome{Choices: choices}, err
	})
}

func (c *Client) callChosen(ctx context.Context, name string, msg envelope.Message, choose func() (Outcome, error)) (Outcome, error) {
	msg.Role = cmp.Or(msg.Role, envelope.RoleUser)
	if err := msg.Check(); err != nil {
		return Outcome{}, err
	}
	// A repeated question must go to the same vacant, whatever the registries return now.
	question := identity.Sum((&envelope.Envelope{Payload: msg}).AppendSignedBytes([]byte(name + "\x1f")))
	choices, err := c.findOpenQuestion(ctx, question)
	if err != nil {
		return Outcome{}, err
	}
	out := Outcome{Choices: choices}
	if len(choices) == 0 {
		if out, err = choose(); err != nil {
			return out, err
		}
	}
	var callErr error
	for _, next := range out.Choices[:min(len(out.Choices), cmp.Or(c.MaxTried, DefaultMaxTried))] {
		if callErr != nil {
			out.FailedCalls = append(out.FailedCalls, FailedCall{out.Chosen.ID, out.Chosen.URL, out.Status, callErr})
		}
		out.Chosen = next.Match
		out.Result, callErr = c.callMatch(ctx, question, &out.Chosen, msg)
		if callErr == nil || ctx.Err() != nil || !mayTryNext(out.Result, callErr) {
			return out, callErr
		}
	}
	if len(out.FailedCalls) == 0 {
		return out, callErr
	}
	return out, problem.Wrap(problem.AsError(callErr).Kind, callErr, "%d vacants were tried and none is available; the last: %s", len(out.FailedCalls)+1, problem.AsError(callErr).Text())
}

func (c *Client) findOpenQuestion(ctx context.Context, question identity.Hash) ([]Choice, error) {
	var openQuestion OpenQuestion
	var found bool
	err := c.currentMemory().Change(ctx, c.selfID(), func(r *SavedData) bool {
		openQuestion, found = r.OpenQuestions[question]
		return false
	})
	if err != nil || !found || c.currentTime().Sub(openQuestion.AskedAt) > maxOpenTime {
		return nil, err
	}
	savedCard, err := card.Parse(openQuestion.Card)
	if err != nil {
		return nil, problem.Wrap(problem.Damaged, err, "the stored card of an open call cannot be read")
	}
	urls, err := dispatch.EndpointURLs(savedCard.Endpoint)
	if err != nil {
		return nil, err
	}
	m := Match{ID: savedCard.VacantID, Card: savedCard, CardHash: savedCard.Hash(), URL: urls[0], fallbackURLs: urls[1:], Registry: openQuestion.Registry, Freshness: Same}
	m.route, err = c.currentRoute()(openQuestion.Registry, &savedCard)
	return []Choice{{Match: m}}, err
}

func mayTryNext(res dispatch.Result, err error) bool {
	if res.MayBeAccepted || problem.Is(err, problem.Canceled) {
		return false
	}
	switch {
	case res.Fate != "":
		return res.Fate == dispatch.Unanswered
	case res.Status == 0:
		return problem.Is(err, problem.Unavailable) || problem.Is(err, problem.Usage) && res.RequestCount > 0
	}
	return slices.Contains([]int{
		http.StatusPaymentRequired, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone, http.StatusMisdirectedRequest,
		http.StatusLocked, http.StatusTooManyRequests, http.StatusNotImplemented, http.StatusServiceUnavailable,
	}, res.Status)
}

func (c *Client) callMatch(ctx context.Context, question identity.Hash, m *Match, msg envelope.Message) (dispatch.Result, error) {
	self := c.selfID()
	if err := c.currentMemory().Change(ctx, self, func(r *SavedData) bool {
		now := c.currentTime()
		m.Freshness, _ = r.recordCard(m.ID, m.CardHash, now)
		r.recordQuestion(question, OpenQuestion{Registry: m.Registry, Card: m.Card.Blob(), AskedAt: now})
		return true
	}); err != nil {
		return dispatch.Result{}, err
	}
	caller := *c.Caller
	caller.Transport, caller.MaxUnacceptedTries = m.route, maxUnavailableTries
	var res dispatch.Result
	var err error
	for _, address := range append([]string{m.URL}, m.fallbackURLs...) {
		res, err = caller.Call(ctx, m.dispatchTarget(address), msg)
		if err == nil || res.MayBeAccepted || res.Status != http.StatusNotFound && res.Status != http.StatusMethodNotAllowed {
			break
		}
	}
	if err != nil && res.MayBeAccepted {
		return res, err // the question stays open
	}
	// Save the end of the call even if ctx has ended.
	saveCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	var saveErr error
	if err != nil && res.Fate == "" {
		saveErr = caller.GiveUp(saveCtx, m.dispatchTarget(m.URL))
	}
	saveErr = errors.Join(saveErr, c.currentMemory().Change(saveCtx, self, func(r *SavedData) bool {
		delete(r.OpenQuestions, question)
		return true
	}))
	if saveErr != nil {
		// If the question stays recorded, repeating it calls the same vacant again.
		res.Undetermined = append(res.Undetermined, fmt.Sprintf("the end of the call could not be saved: %v", saveErr))
	}
	return res, err
}
