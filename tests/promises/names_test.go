package promises

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/billing/tokens/tokenstest"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

// byName are the ways to reach a vacant by the name shop, or by the slug shop. Each returns what
// was answered.
var byName = map[string]func(*runs) string{
	"A2A 1.0":      func(w *runs) string { return w.post("/v/shop/message:send", w.key, say("")) },
	"A2A 0.3":      func(w *runs) string { return w.post("/v/shop", w.key, taskOf03) },
	"A2A as guest": func(w *runs) string { return w.post("/v/shop/message:send", "", say("")) },
	"A2A card":     func(w *runs) string { return w.get("/v/shop/.well-known/agent-card.json") },
	"text":         func(w *runs) string { return w.post("/v/shop/text", w.key, "hi") },
	"MCP":          func(w *runs) string { return w.post("/v/shop/mcp", w.key, toolCall("ask", `{"message":"hi"}`)) },
	"host's MCP": func(w *runs) string {
		return w.post("/mcp", w.key, toolCall("ask_agent", `{"agent":"shop","message":"hi"}`))
	},
	"MCP's card": func(w *runs) string { return w.post("/mcp", w.key, toolCall("describe_agent", `{"agent":"shop"}`)) },
	"OpenAI model": func(w *runs) string {
		return w.post("/v1/chat/completions", w.key, `{"model":"shop","messages":[{"role":"user","content":"hi"}]}`)
	},
	"OpenAI below the vacant": func(w *runs) string {
		return w.post("/v/shop/v1/chat/completions", w.key, `{"messages":[{"role":"user","content":"hi"}]}`)
	},
	"Responses": func(w *runs) string {
		return w.post("/v1/responses", w.key, `{"model":"shop","input":"hi"}`)
	},
	"OpenAI's list": func(w *runs) string { return w.get("/v1/models/shop") },
	"AGP slug": func(w *runs) string {
		return w.post("/a2a/v1", w.agp, `{"from":"ann","intent":"booking.confirm","ttl_ms":9000,"payload":{"venue_slug":"shop"}}`)
	},
	"token for the name": func(w *runs) string { return w.post("/v/shop/text", w.named, "hi") },
	"card to sign to":    func(w *runs) string { return w.get("/v/shop/card") },
	"health":             func(w *runs) string { return w.get("/v/shop/health") },
	"page":               func(w *runs) string { return w.get("/v/shop/") },
}

const taskOf03 = `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"m2","role":"user","parts":[{"kind":"text","text":"hi"}]}}}`

func toolCall(tool, arguments string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `}}`
}

func (w *runs) get(path string) string {
	rec := httptest.NewRecorder()
	w.Public.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
	w.Logf("GET %s = %d %.200s", path, rec.Code, rec.Body.String())
	return rec.Body.String()
}

// givenUp are the ways in which the shop gives up its name and its slug.
var givenUp = map[string]func(*runs) error{
	"renamed": func(w *runs) error {
		name := "store"
		_, err := w.Server.Vacants.Update(w.Context(), w.shop.ID, vacants.Changes{Asker: vacants.TenantAsker("buyer"), Name: &name})
		return errors.Join(err, w.slug(w.shop.ID, vacants.TenantAsker("buyer"), "store"))
	},
	"renamed and unpublished": func(w *runs) error {
		name := "store"
		_, err := w.Server.Vacants.Update(w.Context(), w.shop.ID, vacants.Changes{Asker: vacants.TenantAsker("buyer"), Name: &name})
		_, _, hidden := w.Server.Vacants.Unpublish(w.Context(), w.shop.ID)
		return errors.Join(err, w.slug(w.shop.ID, vacants.TenantAsker("buyer"), ""), hidden)
	},
	"deleted": func(w *runs) error {
		_, err := w.Server.Vacants.Sink(w.Context(), w.shop.ID)
		_, archived := w.Server.Vacants.Archive(w.Context(), w.shop.ID)
		_, deleted := w.Server.Vacants.Delete(w.Context(), w.shop.ID)
		return errors.Join(err, archived, deleted)
	},
}

func (w *runs) slug(id identity.ID, by vacants.Asker, slug string) error {
	_, _, err := w.Server.Vacants.Publish(w.Context(), id, vacants.PublishOptions{Asker: by, Listing: &vacants.ListingOptions{}, EditVenue: func(v *listing.Venue) error {
		v.Slug = slug
		return nil
	}})
	return err
}

// A name and a slug that were given up reach no vacant of another tenant, unless the operator
// gives them away.
func TestANameThatWasGivenUpReachesNoVacantOfAnotherTenant(t *testing.T) {
	for who, taker := range map[string]struct {
		by     vacants.Asker
		tenant string
		may    bool
	}{
		"its tenant":                  {vacants.TenantAsker("buyer"), "buyer", true},
		"another tenant":              {vacants.TenantAsker("eve"), "eve", false},
		"the operator for a tenant":   {vacants.OperatorAsker(), "eve", true},
		"the operator for themselves": {vacants.OperatorAsker(), "", true},
	} {
		for what, giveUp := range givenUp {
			for _, name := range []string{"shop", "Shop"} {
				t.Run(what+"/"+who+"/"+name, func(t *testing.T) {
					t.Parallel()
					w := openRuns(t, "priced")
					w.named = w.tokenFor("http://127.0.0.1:1/v/shop")
					if !strings.Contains(w.get("/v/shop/card"), w.shop.ID.String()) {
						t.Fatal("the shop is not at its name")
					}
					w.Must(giveUp(w))
					other, err := w.Server.Vacants.Create(t.Context(), vacants.CreateSpec{Asker: taker.by, Name: name, Capability: "takes over", Agent: &definition.Agent{Provider: substrate.KindMock}, Tenant: taker.tenant})
					if taker.may != (err == nil) || err != nil && !problem.Is(err, problem.Conflict) {
						t.Fatalf("Create() = %v, want success: %t", err, taker.may)
					}
					if err != nil {
						other, err = w.Server.Vacants.Create(t.Context(), vacants.CreateSpec{Asker: taker.by, Name: "other", Capability: "takes over", Agent: &definition.Agent{Provider: substrate.KindMock}, Tenant: taker.tenant})
						w.Must(err)
					}
					if err := w.slug(other.ID, taker.by, "shop"); taker.may != (err == nil) || err != nil && !problem.Is(err, problem.Conflict) {
						t.Fatalf("Publish() with the slug = %v, want success: %t", err, taker.may)
					}
					w.Clock.Advance(2 * time.Second) // records are cached for a second
					for how, reach := range byName {
						w.answered.Store(nil)
						var answer string
						_, spent := w.counted(func() { answer = reach(w) })
						ran := w.answered.Load()
						shown := strings.Contains(answer, other.ID.String()) || strings.Contains(answer, `"id":"shop"`)
						want := taker.may && (name == "shop" || how == "AGP slug")
						switch {
						case !want && (ran != nil || spent > 0 || shown):
							t.Errorf("%s: %v answered for %s, and the caller was told %.200s", how, ran, spent, answer)
						case want && (ran != nil && *ran != other.ID || ran == nil && !shown):
							t.Errorf("%s: %v answered %.300s, want the vacant that has the name now", how, ran, answer)
						}
					}
					w.WantWhole(w.Store)
				})
			}
		}
	}
}

// tokenFor returns a token of an issuer for which the buyer pays, for an audience.
func (w *runs) tokenFor(audience string) string {
	issuer := tokenstest.New()
	w.Cleanup(issuer.Close)
	_, err := w.Server.Billing.AddIssuer(w.Context(), w.buyer.ID, issuer.URL, billing.IssuerOptions{AllowAll: true, SubjectDailyCap: 50 * money.Dollar, TotalDailyCap: 50 * money.Dollar, Publish: true})
	w.Must(err)
	token, err := tokenstest.Sign("ES256", "ES256", map[string]any{"iss": issuer.URL, "sub": "bob", "aud": audience, "exp": w.Clock.NowFunc(0)().AddDate(1, 0, 0).Unix()}, nil)
	w.Must(err)
	return token
}
