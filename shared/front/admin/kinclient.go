package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
)

// Spawn creates a child of a vacant.
func (c *Client) Spawn(ctx context.Context, parent string, s Spawning) (out Spawned, err error) {
	if err := c.put(ctx, http.MethodPost, pathOf(parent)+"/children", s, &out); err != nil {
		return Spawned{}, err
	}
	return out, out.Check()
}

// Children returns a page of a vacant's children; cursor is "" for the first.
func (c *Client) Children(ctx context.Context, parent, cursor string) (out Children, err error) {
	path := pathOf(parent) + "/children"
	if cursor != "" {
		path += "?cursor=" + url.QueryEscape(cursor)
	}
	if err := c.do(ctx, http.MethodGet, path, nil, &out); err != nil {
		return Children{}, err
	}
	for i := range out.Children {
		if err := out.Children[i].Vacant.sound(); err != nil {
			return Children{}, err
		}
	}
	return out, nil
}

// Manifest returns the manifest of a child.
func (c *Client) Manifest(ctx context.Context, child string) (out Manifest, err error) {
	return out, c.do(ctx, http.MethodGet, pathOf(child)+"/manifest", nil, &out)
}

// StoreManifest stores a manifest with both signatures.
func (c *Client) StoreManifest(ctx context.Context, child string, m *composite.Manifest) (out Manifest, err error) {
	return out, c.do(ctx, http.MethodPost, pathOf(child)+"/manifest", m.Blob(), &out)
}

// SetPlan sets a vacant's plan.
func (c *Client) SetPlan(ctx context.Context, vacant string, plan []byte) (out Plan, err error) {
	if err := c.do(ctx, http.MethodPut, pathOf(vacant)+"/plan", plan, &out); err != nil {
		return Plan{}, err
	}
	return out, out.Vacant.sound()
}

// Plan returns a vacant's plan.
func (c *Client) Plan(ctx context.Context, vacant string) (out Plan, err error) {
	if err := c.do(ctx, http.MethodGet, pathOf(vacant)+"/plan", nil, &out); err != nil {
		return Plan{}, err
	}
	return out, out.Vacant.sound()
}

// SignGraduation lets a hosted vacant sign a graduation request as parent or
// child.
func (c *Client) SignGraduation(ctx context.Context, vacant string, r *composite.Request) (out GraduationSignature, err error) {
	body := GraduationRequest{r.ParentID, r.ChildID, r.CapabilityText}
	return out, c.put(ctx, http.MethodPost, pathOf(vacant)+"/graduation-signature", body, &out)
}

// Graduation returns an attempt of a child, as both parties see it; position 0
// means the latest.
func (c *Client) Graduation(ctx context.Context, child string, position uint64) (out graduation.View, err error) {
	path := pathOf(child) + "/graduation"
	if position > 0 {
		path += "?position=" + strconv.FormatUint(position, 10)
	}
	return out, c.do(ctx, http.MethodGet, path, nil, &out)
}

// GraduationsPath is the route for graduation requests, here and on the public
// listener.
const GraduationsPath = "/v1/graduations"

// Submit sends a submission (graduation.Submission.Blob) signed by both parties
// and returns its attempt.
func (c *Client) Submit(ctx context.Context, submission []byte) (out graduation.View, err error) {
	return out, c.do(ctx, http.MethodPost, GraduationsPath, submission, &out)
}

// Gate returns the gate's policy for a tenant, or the host's for "".
func (c *Client) Gate(ctx context.Context, tenant string) (out GatePolicy, err error) {
	return out, c.do(ctx, http.MethodGet, ofTenant("/v1/admin/gate", tenant), nil, &out)
}

// SetGate changes the gate's policy.
func (c *Client) SetGate(ctx context.Context, tenant string, p gate.Policy) (out GatePolicy, err error) {
	return out, c.put(ctx, http.MethodPut, ofTenant("/v1/admin/gate", tenant), p, &out)
}

// ofTenant is the path of a tenant's settings, or for "" of the host's.
func ofTenant(path, tenant string) string {
	if tenant == "" {
		return path
	}
	return path + "?tenant=" + url.QueryEscape(tenant)
}

// put sends a body and decodes the answer.
func (c *Client) put(ctx context.Context, method, path string, body, into any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return problem.Wrap(problem.Usage, err, "the body is not JSON")
	}
	return c.do(ctx, method, path, b, into)
}
