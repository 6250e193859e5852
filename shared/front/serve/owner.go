package serve

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/agp"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func (a *A2A) Children(ctx context.Context, r *http.Request, parent identity.ID, cursor string) (any, error) {
	client := clientWithAuth(a.VacantsHandler, r)
	page, err := admin.ListChildren.Call(ctx, client, admin.ChildrenRequest{VacantRef: admin.VacantRef{Vacant: parent.String()}, Cursor: cursor, Limit: 20})
	if err != nil {
		return nil, err
	}
	children := []any{}
	for i := range page.Children {
		c := &page.Children[i]
		var birth struct {
			Rule string `json:"policy_mutation"`
		}
		// The rule is in the first logbook entry, BIRTH.
		if c.Path == "D1" {
			logbook, err := admin.GetLogbook.Call(ctx, client, admin.LogbookRequest{VacantRef: admin.VacantRef{Vacant: c.Vacant.ID.String()}, From: 1, Limit: 1})
			if err == nil && len(logbook.Entries) > 0 {
				err = json.Unmarshal(logbook.Entries[0].Payload, &birth)
			}
			if err != nil {
				return nil, err
			}
		}
		children = append(children, map[string]any{
			"name": c.Vacant.Name, "vacant_id_hex": c.Vacant.ID.String(), "state": c.Vacant.State, "capability_text": c.Vacant.Capability,
			"policy_mutation": birth.Rule, "inference_count": c.Calls,
			// The host does not record these values for children.
			"attestation_count": 0, "review_count": 0, "reputation_5d": nil, "last_heartbeat_at": nil,
		})
	}
	out := map[string]any{"parent_vacant_id_hex": parent.String(), "children": children}
	if page.Next != "" {
		out["next"] = page.Next
	}
	return out, nil
}

func (a *A2A) Spawn(ctx context.Context, r *http.Request, parent identity.ID, rule, name string) (any, error) {
	spawned, err := admin.SpawnChild.Call(ctx, clientWithAuth(a.VacantsHandler, r), admin.NewVacantRequest(parent.String(), admin.Spawning{Path: "D1", Name: name, Rule: rule}))
	return map[string]any{
		"ok": true, "path": "D1", "child_vacant_id_hex": spawned.Vacant.ID.String(), "child_name": spawned.Vacant.Name,
		"parent_vacant_id_hex": parent.String(), "policy_mutation": rule,
	}, err
}

func (a *A2A) SendAGP(ctx context.Context, r *http.Request, from, id, intent string, payload map[string]any) (json.RawMessage, error) {
	header := http.Header{}
	if id != "" {
		header.Set("Idempotency-Key", id)
	}
	client := clientWithAuth(a.AGPHandler, r)
	return agp.Client{HTTP: client.HTTP, URL: client.URL, From: from}.Send(ctx, "", intent, payload, header)
}

func clientWithAuth(h http.Handler, r *http.Request) admin.Client {
	return admin.Client{URL: "http://localhost", HTTP: &http.Client{Transport: handlerTransport{http.HandlerFunc(func(w http.ResponseWriter, inner *http.Request) {
		inner.Header["Authorization"], inner.RemoteAddr = r.Header["Authorization"], r.RemoteAddr
		h.ServeHTTP(w, inner)
	})}}}
}
