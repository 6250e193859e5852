package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/mcpserver/mcptool"
	"github.com/vacancy-host/vacancy/shared/front/plain"
	"github.com/vacancy-host/vacancy/shared/host/answer"
	"github.com/vacancy-host/vacancy/shared/host/answer/delegation"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	hostregistry "github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/reviews"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Owners contains the parts that serve the tools for which a key needs special rights, for example
// as the owner of a vacant. If a part is nil, its tools are not listed. The functions use the
// credential of the request.
type Owners struct {
	// Keys reads the scopes of keys. If Keys is nil, keys give no access to such tools.
	Keys *billing.Billing
	// Operator checks the operator's key. If OperatorKey is nil, this process cannot recognize the
	// operator.
	Operator interface {
		Check(ctx context.Context, secret string) error
	}
	// Children lists the children of a vacant. Spawn creates a child.
	Children func(ctx context.Context, r *http.Request, of identity.ID, cursor string) (any, error)
	Spawn    func(ctx context.Context, r *http.Request, of identity.ID, rule, name string) (any, error)
	// Answers lets a vacant ask one of its children through Calls.
	Answers *answer.Answerer
	Calls   *call.Host
	// SendAGP sends an AGP envelope and returns the answer.
	SendAGP func(ctx context.Context, r *http.Request, from, id, intent string, payload map[string]any) (json.RawMessage, error)
	// Reviews signs reviews for vacants and counts them.
	Reviews *reviews.Service
}

// identify sets the key of a request and the account that pays for its calls or tasks. If the
// credential is the operator's key, it sets isOperator instead.
func (d *api) identify(r *request, below bool) (err error) {
	keys, operator := d.Owners.Keys, d.Owners.Operator
	if keys == nil {
		return r.Identify()
	}
	r.key, err = keys.AuthenticateRequest(r.Context(), r.Request, billing.Demand{Test: true, Active: true})
	switch {
	case errors.Is(err, billing.ErrNoKey):
		return nil
	case problem.Is(err, problem.Unauthorized) && operator != nil:
		secret, bad := billing.Bearer(r.Request)
		if bad == nil {
			bad = operator.Check(r.Context(), secret)
		}
		if r.operates = bad == nil; r.operates || !problem.Is(bad, problem.Unauthorized) {
			return bad
		}
	case err == nil && (r.key.Has(billing.ScopeCall) || !below && r.key.Has(billing.ScopeAgents)):
		r.Payer = r.key.Payer()
	}
	return err
}

// admit sets the fields of about that determine the client's tools. It returns an error if the
// client may neither call vacants nor use other tools.
func (d *api) admit(r *request, about *mcptool.About) error {
	k, owners := r.key, &d.Owners
	if r.agent != nil {
		owns := r.operates || k != nil && !k.Test && k.Tenant == r.Vacant.Tenant && k.Has(billing.ScopeVacants)
		about.Owns = owns && owners.Children != nil
		about.Delegates = owns && owners.Answers != nil && (r.operates || k.Has(billing.ScopeAgents))
	} else {
		about.Team = d.Team != nil && k != nil && k.Has(billing.ScopeAgents)
		about.AGP = k != nil && k.Has(billing.ScopeAGP) && owners.SendAGP != nil
	}
	about.NoCalls = r.operates || k != nil && !k.Has(billing.ScopeCall)
	switch {
	case !about.NoCalls, about.Owns, about.Delegates, about.AGP, about.Team:
		return nil
	case r.operates:
		return problem.New(problem.Forbidden, "the operator's key cannot call vacants; use a key of an account")
	}
	return k.CheckScope(billing.ScopeCall)
}

func (d *api) children(ctx context.Context, cursor string) (any, error) {
	r := requestOf(ctx)
	page, err := d.Owners.Children(ctx, r.Request, r.Vacant.ID, cursor)
	return page, r.recordError(err)
}

func (d *api) spawn(ctx context.Context, rule, name string) (any, error) {
	r := requestOf(ctx)
	if name == "" { // a repeated request gets the same name
		end := "-" + identity.Sum([]byte(rule)).String()[:8]
		name = r.Vacant.Name[:min(len(r.Vacant.Name), hostregistry.MaxName-len(end))] + end
	}
	made, err := d.Owners.Spawn(ctx, r.Request, r.Vacant.ID, rule, name)
	return made, r.recordError(err)
}

// delegate implements vacant_delegate and vacant_delegate_a2a. It uses no HTTP, because the child
// is on this host.
func (d *api) delegate(ctx context.Context, name, text string, wait time.Duration) (map[string]any, error) {
	r := requestOf(ctx)
	if err := plain.CheckText("task", text); err != nil {
		return nil, r.recordError(err)
	}
	child, there, err := d.Agents.Directory.ShowNamed(ctx, name)
	switch {
	case err != nil:
		return nil, r.recordError(err)
	case !there || child.IsDeleted() || child.Parent == nil || *child.Parent != r.Vacant.ID:
		return nil, &mcptool.ReferenceError{Text: fmt.Sprintf("%.80q is not a direct descendant of vacant %s", name, r.Vacant.ID.Short())}
	case !r.Vacant.State.CanBeCalled():
		return nil, &mcptool.ReferenceError{Text: fmt.Sprintf("vacant %s; not accepting calls", r.Vacant.State)}
	}
	by := call.Credential{Address: r.Address.String()}
	if r.key != nil {
		by.Payer = r.key.Payer()
	}
	ctx, cancel := context.WithTimeout(ctx, min(wait, d.AnswerTime)+call.DefaultMargin)
	defer cancel()
	var a delegation.DelegatedAnswer
	err = d.Agents.Answers.Hold(&r.Caller, func() (err error) {
		a, err = d.Owners.Answers.Delegate(ctx, d.Owners.Calls, by, r.Vacant.ID, child.ID, text)
		return err
	})
	var childCard card.Card
	if err == nil {
		childCard, err = card.Parse(child.Card)
	}
	return map[string]any{
		"ok": true, "child_name": child.Name, "child_vacant_id_hex": child.ID.String(), "child_endpoint": childCard.Endpoint, "answer": a.Text,
		"substrate": child.Substrate, "request_envelope_id_hex": a.Request.String(), "response_envelope_id_hex": a.Reply.String(),
	}, r.recordError(err)
}

// review implements vacant_caller_review for the vacant of the request.
func (d *api) review(ctx context.Context, in mcptool.Review) (any, error) {
	r := requestOf(ctx)
	rec, err := in.Record()
	if err != nil {
		return nil, r.recordError(err)
	}
	receipt, err := d.Owners.Reviews.Issue(ctx, r.Vacant.ID, &rec)
	return mcptool.NewReviewResult(&rec, &receipt), r.recordError(err)
}

func (d *api) sendAGP(ctx context.Context, e mcptool.Envelope) (json.RawMessage, error) {
	r := requestOf(ctx)
	from := cmp.Or(e.From, append(slices.Clip(r.key.Agents), "mcp")[0])
	answer, err := d.Owners.SendAGP(ctx, r.Request, from, e.ID, e.Intent, e.Payload)
	return answer, r.recordError(err)
}
