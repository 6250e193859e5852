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

// OwnerConfig contains the parts that serve the tools for which a key needs special rights, for
// example as the owner of a vacant. If a part is nil, its tools are not listed.
type OwnerConfig struct {
	// Keys reads the scopes of keys.
	Keys *billing.Billing
	// OperatorKey checks the operator's key. If OperatorKey is nil, the operator is not recognized.
	OperatorKey interface {
		Check(ctx context.Context, secret string) error
	}
	Children func(ctx context.Context, r *http.Request, of identity.ID, cursor string) (any, error)
	Spawn    func(ctx context.Context, r *http.Request, of identity.ID, rule, name string) (any, error)
	// Answers lets a vacant ask one of its children through Calls.
	Answers *answer.Answerer
	Calls   *call.Host
	SendAGP func(ctx context.Context, r *http.Request, from, id, intent string, payload map[string]any) (json.RawMessage, error)
	// Reviews signs reviews for vacants and counts them.
	Reviews *reviews.Service
}

// identifySender sets the key of a request and the account that pays for its calls or tasks. If the
// credential is the operator's key, it sets isOperator instead.
func (d *api) identifySender(r *request, isVacant bool) (err error) {
	keys, operator := d.Owners.Keys, d.Owners.OperatorKey
	if keys == nil {
		return r.IdentifyPayer()
	}
	r.key, err = keys.AuthenticateRequest(r.Context(), r.Request, billing.KeyRequirement{AllowsTest: true, RequiresActive: true})
	switch {
	case errors.Is(err, billing.ErrNoKey):
		return nil
	case problem.Is(err, problem.Unauthorized) && operator != nil:
		secret, checkErr := billing.BearerSecret(r.Request)
		if checkErr == nil {
			checkErr = operator.Check(r.Context(), secret)
		}
		if r.isOperator = checkErr == nil; r.isOperator || !problem.Is(checkErr, problem.Unauthorized) {
			return checkErr
		}
	case err == nil && (r.key.HasScope(billing.ScopeCall) || !isVacant && r.key.HasScope(billing.ScopeAgents)):
		r.Payer = r.key.Payer()
	}
	return err
}

// selectTools selects the client's tools. It returns an error if the client may use no tools.
func (d *api) selectTools(r *request, config *mcptool.ServerConfig) error {
	k, owners := r.key, &d.Owners
	if r.agent != nil {
		isOwner := r.isOperator || k != nil && !k.Test && k.Tenant == r.Vacant.Tenant && k.HasScope(billing.ScopeVacants)
		config.HasOwnerTools = isOwner && owners.Children != nil
		config.HasDelegateTools = isOwner && owners.Answers != nil && (r.isOperator || k.HasScope(billing.ScopeAgents))
	} else {
		config.HasTeamTools = d.Team != nil && k != nil && k.HasScope(billing.ScopeAgents)
		config.HasAGPTools = k != nil && k.HasScope(billing.ScopeAGP) && owners.SendAGP != nil
	}
	config.NoCalls = r.isOperator || k != nil && !k.HasScope(billing.ScopeCall)
	switch {
	case !config.NoCalls, config.HasOwnerTools, config.HasDelegateTools, config.HasAGPTools, config.HasTeamTools:
		return nil
	case r.isOperator:
		return problem.New(problem.Forbidden, "the operator's key cannot call vacants; use a key of an account")
	}
	return k.CheckScope(billing.ScopeCall)
}

func (d *api) listChildren(ctx context.Context, cursor string) (any, error) {
	r := requestOf(ctx)
	page, err := d.Owners.Children(ctx, r.Request, r.Vacant.ID, cursor)
	return page, r.recordError(err)
}

func (d *api) spawnChild(ctx context.Context, rule, name string) (any, error) {
	r := requestOf(ctx)
	if name == "" { // a repeated request gets the same name
		suffix := "-" + identity.Sum([]byte(rule)).String()[:8]
		name = r.Vacant.Name[:min(len(r.Vacant.Name), hostregistry.MaxNameBytes-len(suffix))] + suffix
	}
	child, err := d.Owners.Spawn(ctx, r.Request, r.Vacant.ID, rule, name)
	return child, r.recordError(err)
}

// delegate implements vacant_delegate and vacant_delegate_a2a.
func (d *api) delegate(ctx context.Context, name, text string, wait time.Duration) (map[string]any, error) {
	r := requestOf(ctx)
	if err := plain.CheckText("task", text); err != nil {
		return nil, r.recordError(err)
	}
	child, found, err := d.Plain.Directory.FindCachedByName(ctx, name)
	switch {
	case err != nil:
		return nil, r.recordError(err)
	case !found || child.IsDeleted() || child.Parent == nil || *child.Parent != r.Vacant.ID:
		return nil, &mcptool.ReferenceError{Text: fmt.Sprintf("%.80q is not a direct descendant of vacant %s", name, r.Vacant.ID.Short())}
	case !r.Vacant.State.CanBeCalled():
		return nil, &mcptool.ReferenceError{Text: fmt.Sprintf("vacant %s; not accepting calls", r.Vacant.State)}
	}
	credential := call.Credential{Address: r.Address.String()}
	if r.key != nil {
		credential.Payer = r.key.Payer()
	}
	ctx, cancel := context.WithTimeout(ctx, min(wait, d.AnswerTime)+call.DefaultReplyMargin)
	defer cancel()
	var a delegation.DelegatedAnswer
	err = d.Plain.Answers.Run(&r.Caller, func() (err error) {
		a, err = d.Owners.Answers.Delegate(ctx, d.Owners.Calls, credential, r.Vacant.ID, child.ID, text)
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

// submitReview implements vacant_caller_review.
func (d *api) submitReview(ctx context.Context, in mcptool.ReviewArgs) (any, error) {
	r := requestOf(ctx)
	rec, err := in.Record()
	if err != nil {
		return nil, r.recordError(err)
	}
	receipt, err := d.Owners.Reviews.Issue(ctx, r.Vacant.ID, &rec)
	return mcptool.NewReviewResult(&rec, &receipt), r.recordError(err)
}

func (d *api) sendAGP(ctx context.Context, e mcptool.AGPEnvelope) (json.RawMessage, error) {
	r := requestOf(ctx)
	from := cmp.Or(e.From, append(slices.Clip(r.key.AgentIDs), "mcp")[0])
	answer, err := d.Owners.SendAGP(ctx, r.Request, from, e.IdempotencyKey, e.Intent, e.Payload)
	return answer, r.recordError(err)
}
