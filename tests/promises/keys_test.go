package promises

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/vacant/claim"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// A credential is a key, or a caller that a key or the operator linked. It can be used until it, or a
// key above it, is revoked. The table is: each credential × each revoked key × each way to use it.

// credential is a key or a linked caller. above are the keys whose revocation ends it.
type credential struct {
	key, secret string
	caller      *caller
	above       []string
}

// caller is a signer with the end of its chain.
type caller struct {
	who  *identity.Key
	seq  int64
	prev identity.Hash
}

// scope is the scopes of the keys of the table: by a tier they may send AGP envelopes too.
var scope = []billing.Scope{billing.ScopeCall, billing.ScopeRead, billing.ScopeManage, billing.ScopeAGP}

// The ways to use a key: keyedCalls call the shop, and keyedRequests are answered at once.
var (
	keyedCalls = map[string]func(*runs){
		"A2A": func(w *runs) {
			w.post(w.at()+"/message:send", w.key, strings.Replace(say(""), "m1", newMessage(), 1))
		},
		"A2A 0.3": func(w *runs) {
			w.post(w.at(), w.key, `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"`+newMessage()+`","role":"user","parts":[{"kind":"text","text":"hi"}]}}}`)
		},
		"A2A stream": func(w *runs) {
			w.post(w.at()+"/message:stream", w.key, strings.Replace(say(""), "m1", newMessage(), 1))
		},
		"text":          (*runs).text,
		"MCP":           (*runs).mcp,
		"MCP stream":    (*runs).mcpStream,
		"host's MCP":    (*runs).hostsMCP,
		"OpenAI":        (*runs).completion,
		"OpenAI stream": (*runs).completionStream,
		"Responses":     (*runs).response,
	}
	keyedRequests = map[string]func(*runs) *http.Request{
		"AGP": func(w *runs) *http.Request {
			return request("POST", "/a2a/v1", w.key, `{"from":"eve","intent":"network.ping"}`)
		},
		"account":    func(w *runs) *http.Request { return request("GET", "/v1/account", w.key, "") },
		"changes":    func(w *runs) *http.Request { return request("GET", "/v1/account/changes", w.key, "") },
		"usage":      func(w *runs) *http.Request { return request("GET", "/v1/usage", w.key, "") },
		"keys":       func(w *runs) *http.Request { return request("GET", "/v1/keys", w.key, "") },
		"make a key": func(w *runs) *http.Request { return request("POST", "/v1/keys", w.key, `{}`) },
		"link a caller": func(w *runs) *http.Request {
			return request("POST", "/v1/account/links", w.key, `{"claim":"`+w.claimOf(w.newKey())+`"}`)
		},
		"tasks": func(w *runs) *http.Request { return request("GET", w.at()+"/tasks", w.key, "") },
	}
)

var messages int

// newMessage returns a message id that no call has had.
func newMessage() string {
	messages++
	return fmt.Sprint("message-", messages)
}

func request(method, path, key, body string) *http.Request {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("A2A-Version", "1.0")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

func (w *runs) newKey() *identity.Key {
	w.Helper()
	k, err := identity.NewKey(rand.Reader)
	w.Must(err)
	return k
}

// claimOf returns a claim of a caller for the buyer's account.
func (w *runs) claimOf(who *identity.Key) string {
	w.Helper()
	self, err := w.Server.Vacants.HostSigner(w.Context())
	w.Must(err)
	c := claim.PaymentClaim{Host: self.ID(), Account: w.buyer.ID}
	w.Must(c.Sign(w.Context(), who, w.Clock.NowFunc(0)()))
	return c.String()
}

// credentials makes the rows of the table: three keys of which each made the next, a key of the
// operator beside them, and a link by each of them and by the operator.
func (w *runs) credentials() map[string]*credential {
	w.Helper()
	ctx := w.Context()
	all := map[string]*credential{}
	var by *billing.Key
	var above []string
	for _, name := range []string{"key", "key of key", "key of key of key", "other key"} {
		if name == "other key" {
			by, above = nil, nil
		}
		k, secret, err := w.Server.Billing.MakeKeyBy(ctx, by, w.buyer.ID, billing.KeyOptions{Tier: billing.Free, Scopes: scope})
		w.Must(err)
		above = append(slices.Clone(above), name)
		all[name] = &credential{key: k.ID, secret: secret, above: above}
		by = &k
		all["link by "+name] = w.linkedBy(by, above)
	}
	all["link by the operator"] = w.linkedBy(nil, nil)
	return all
}

func (w *runs) linkedBy(by *billing.Key, above []string) *credential {
	w.Helper()
	c := &caller{who: w.newKey()}
	_, err := w.Server.Billing.LinkBy(w.Context(), by, w.buyer.ID, w.claimOf(c.who))
	w.Must(err)
	return &credential{caller: c, above: above}
}

// wantUses requires of each way to use a credential whether it works: that a call runs and is paid,
// or neither; that a request is answered, or refused with 401.
func (w *runs) wantUses(when, name string, c *credential, want bool) {
	w.Helper()
	wantPaid := func(way string, ask func()) {
		w.Helper()
		ran, spent := w.counted(ask)
		wantRan, wantSpent := int64(0), money.Amount(0)
		if want {
			wantRan, wantSpent = 1, shopPrice
		}
		if ran != wantRan || spent != wantSpent {
			w.Errorf("%s: %s by %s: %d runs for %s, want that it pays: %t", when, name, way, ran, spent, want)
		}
	}
	if c.caller != nil {
		w.who, w.seq, w.prev = c.caller.who, c.caller.seq, c.caller.prev
		for way, ask := range map[string]func(*runs){"signed call": (*runs).signed, "signed call by MCP": (*runs).mcpSigned} {
			wantPaid(way, func() { ask(w) })
			if want {
				w.seq, w.prev = w.seq+1, w.lastHash
			}
		}
		c.caller.seq, c.caller.prev = w.seq, w.prev
		return
	}
	w.key = c.secret
	for way, ask := range keyedCalls {
		wantPaid(way, func() { ask(w) })
	}
	for way, of := range keyedRequests {
		rec := httptest.NewRecorder()
		w.Public.ServeHTTP(rec, of(w))
		if got := rec.Code; want && got >= 300 || !want && got != http.StatusUnauthorized {
			w.Errorf("%s: %s by %s = %d %s, want that it is answered: %t", when, name, way, got, rec.Body, want)
		}
	}
}

func TestACredentialEndsWithTheKeysAboveIt(t *testing.T) {
	for _, revoked := range []string{"key", "key of key", "key of key of key", "other key"} {
		t.Run(revoked, func(t *testing.T) {
			w := openRuns(t, "priced")
			_, _, err := w.Server.Billing.Credit(t.Context(), w.buyer.ID, 10_000*money.Dollar, "more", "")
			w.Must(err)
			all := w.credentials()
			for name, c := range all {
				w.wantUses("before", name, c, true)
			}
			_, err = w.Server.Billing.RevokeKey(t.Context(), nil, w.buyer.ID, all[revoked].key)
			w.Must(err)
			for name, c := range all {
				w.wantUses("after "+revoked+" is revoked", name, c, !slices.Contains(c.above, revoked))
			}
		})
	}
}
