package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/agp"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/mcpserver/mcptool"
	"github.com/vacancy-host/vacancy/shared/front/plain"
	"github.com/vacancy-host/vacancy/shared/host/answer/delegation"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	hostregistry "github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Owners has the parts that serve tools of a key's own. The tools of a nil part are not listed.
type Owners struct {
	// Keys reads the scopes of keys. If Keys is nil, no key has tools of its own.
	Keys *billing.Billing
	// Operator checks the operator's key. If Operator is nil, this process does not know the operator.
	Operator admin.Checker
	// Vacants serves the operations of vacants to the credential of a request (admin.Tenants).
	Vacants http.Handler
	// Delegate lets a vacant ask one of its children (answer.Answerer.Delegate).
	Delegate func(ctx context.Context, by call.Credential, parent, child identity.ID, task string) (delegation.Delegated, error)
	// AGP serves AGP (agp.Handler).
	AGP http.Handler
}

// identify finds the key of a request and the account that pays for its calls, or the operator. Without the scope
// call, a key has no account that pays; at the host's server (below is false), the scope agents does, too.
func (d *api) identify(r *request, below bool) (err error) {
	keys, operator := d.Owners.Keys, d.Owners.Operator
	switch {
	case keys != nil:
		r.key, err = keys.Admit(r.Context(), r.Request, billing.Demand{Test: true, Active: true})
	case below || d.IdentifyTeam == nil:
		return r.Identify()
	default:
		r.Payer, err = d.IdentifyTeam(r.Context(), r.Request)
		return err
	}
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

// admit sets which tools of its own the client gets. It returns an error for a client that may neither call
// vacants nor has such tools.
func (d *api) admit(r *request, about *mcptool.About) error {
	k, owners := r.key, &d.Owners
	if r.agent != nil {
		owns := r.operates || k != nil && !k.Test && k.Tenant == r.Vacant.Tenant && k.Has(billing.ScopeVacants)
		about.Owns = owns && owners.Vacants != nil
		about.Delegates = owns && owners.Delegate != nil && (r.operates || k.Has(billing.ScopeAgents))
	} else {
		about.AGP = k != nil && k.Has(billing.ScopeAGP) && owners.AGP != nil
	}
	about.NoCalls = r.operates || k != nil && !k.Has(billing.ScopeCall)
	switch {
	case !about.NoCalls, about.Owns, about.Delegates, about.AGP, about.Team:
		return nil
	case r.operates:
		return problem.New(problem.Forbidden, "the operator's key calls no vacants; use a key of an account")
	}
	return k.CheckScope(billing.ScopeCall)
}

// children implements vacant_list_children by the operations of vacants.
func (d *api) children(ctx context.Context, cursor string) (mcptool.Children, error) {
	const pageSize = 20
	r := requestOf(ctx)
	client, id := d.ownVacants(r), r.Vacant.ID.String()
	page, err := admin.ListChildren.Call(ctx, client, admin.ChildList{One: admin.One{Vacant: id}, Cursor: cursor, Limit: pageSize})
	if err != nil {
		return mcptool.Children{}, r.note(err)
	}
	out := mcptool.Children{Parent: id, Children: []mcptool.Child{}, Next: page.Next}
	for i := range page.Children {
		c := &page.Children[i]
		child := mcptool.Child{Name: c.Vacant.Name, ID: c.Vacant.ID.String(), State: string(c.Vacant.State), Capability: c.Vacant.Capability, Calls: c.Calls}
		if c.Path == "D1" { // the rule is in BIRTH, the first entry
			book, err := admin.GetLogbook.Call(ctx, client, admin.LogbookPart{One: admin.One{Vacant: child.ID}, From: 1, Limit: 1})
			if err != nil {
				return out, r.note(err)
			}
			var birth struct {
				Rule string `json:"policy_mutation"`
			}
			if len(book.Entries) > 0 && json.Unmarshal(book.Entries[0].Payload, &birth) == nil {
				child.Rule = birth.Rule
			}
		}
		out.Children = append(out.Children, child)
	}
	return out, nil
}

// spawn implements vacant_spawn by the operations of vacants.
func (d *api) spawn(ctx context.Context, rule, name string) (mcptool.Spawned, error) {
	r := requestOf(ctx)
	if name == "" { // the same for a request that comes again
		end := "-" + identity.Sum([]byte(rule)).String()[:8]
		name = r.Vacant.Name[:min(len(r.Vacant.Name), hostregistry.MaxName-len(end))] + end
	}
	made, err := admin.SpawnChild.Call(ctx, d.ownVacants(r), admin.About(r.Vacant.ID.String(), admin.Spawning{Path: "D1", Name: name, Rule: rule}))
	if err != nil {
		return mcptool.Spawned{}, r.note(err)
	}
	return mcptool.Spawned{OK: true, Path: "D1", ID: made.Vacant.ID.String(), Name: made.Vacant.Name, Parent: r.Vacant.ID.String(), Rule: rule}, nil
}

// ownVacants returns a client of the operations of vacants with the credential of a request.
func (d *api) ownVacants(r *request) admin.Client {
	return admin.Client{HTTP: inProcess(d.Owners.Vacants, r), URL: localURL}
}

// delegate implements vacant_delegate and vacant_delegate_a2a. A task reaches the child without HTTP, because
// the child is on this host.
func (d *api) delegate(ctx context.Context, name, text string, wait time.Duration) (out mcptool.Delegated, err error) {
	r := requestOf(ctx)
	if err := plain.CheckText("task", text); err != nil {
		return out, r.note(err)
	}
	child, there, err := d.Agents.Directory.ShowNamed(ctx, name)
	switch {
	case err != nil:
		return out, r.note(err)
	case !there || child.IsDeleted() || child.Parent == nil || *child.Parent != r.Vacant.ID:
		return out, &mcptool.Said{Text: fmt.Sprintf("%.80q is not a direct descendant of vacant %s", name, r.Vacant.ID.Short())}
	case !r.Vacant.State.CanBeCalled():
		return out, &mcptool.Said{Text: fmt.Sprintf("vacant %s; not accepting calls", r.Vacant.State)}
	}
	by := call.Credential{Address: r.Address.String()}
	if r.key != nil {
		by.Payer = r.key.Payer()
	}
	ctx, cancel := context.WithTimeout(ctx, min(wait, d.AnswerTime)+call.DefaultMargin)
	defer cancel()
	var answer delegation.Delegated
	err = d.Agents.Answers.Hold(&r.Caller, func() (err error) {
		answer, err = d.Owners.Delegate(ctx, by, r.Vacant.ID, child.ID, text)
		return err
	})
	if err != nil {
		return out, r.note(err)
	}
	out = mcptool.Delegated{
		OK: true, Name: child.Name, ID: child.ID.String(), Answer: answer.Text, Substrate: child.Substrate,
		Request: answer.Request.String(), Reply: answer.Reply.String(),
	}
	if c, err := card.Parse(child.Card); err == nil {
		out.Endpoint = c.Endpoint
	}
	return out, nil
}

// sendAGP implements the tools of AGP by the handler of AGP.
func (d *api) sendAGP(ctx context.Context, e mcptool.Envelope) (json.RawMessage, error) {
	r := requestOf(ctx)
	if e.From == "" {
		e.From = "mcp"
		if len(r.key.Agents) > 0 {
			e.From = r.key.Agents[0]
		}
	}
	header := http.Header{}
	if e.ID != "" {
		header.Set("Idempotency-Key", e.ID)
	}
	answer, err := agp.Client{HTTP: inProcess(d.Owners.AGP, r), URL: localURL, From: e.From}.Send(ctx, "", e.Intent, e.Payload, header)
	var refused *agp.Error
	if errors.As(err, &refused) {
		err = agpRefusal{err, refused.Code}
	}
	return answer, r.note(err)
}

// agpRefusal is a refusal of AGP with the member error that AGP gives it.
type agpRefusal struct {
	error
	code string
}

func (a agpRefusal) Unwrap() error { return a.error }

// Members returns the members of the refusal besides those of every refusal.
func (a agpRefusal) Members() any {
	return map[string]any{"error": map[string]string{"code": a.code}}
}

// inProcess returns a client of a handler in this process that sends the credential of a request.
func inProcess(h http.Handler, r *request) *http.Client {
	return &http.Client{Transport: roundTrip(func(q *http.Request) (*http.Response, error) {
		q = q.Clone(q.Context())
		q.Header["Authorization"] = r.Request.Header["Authorization"]
		q.RequestURI, q.RemoteAddr = strings.TrimPrefix(q.URL.String(), localURL), r.RemoteAddr
		w := httpapi.NewRecorder(math.MaxInt64)
		h.ServeHTTP(w, q)
		return &http.Response{StatusCode: w.Status, Header: w.Header(), Body: io.NopCloser(bytes.NewReader(w.Body.Bytes())), Request: q}, nil
	})}
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }
