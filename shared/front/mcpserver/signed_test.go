package mcpserver_test

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// signed is the argument of vacant_call with the next request of a caller.
func (w *world) signed(key *identity.Key, to identity.ID, seq int64, prev identity.Hash) (argument string, hash identity.Hash) {
	w.Helper()
	id := fmt.Sprintf("m%d", seq)
	e := &envelope.Envelope{From: key.ID(), To: to, Seq: seq, Prev: prev, Time: w.now().UTC().Truncate(time.Microsecond), IdempotencyKey: id, Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{"hi"}, MessageID: &id}}
	_, err := e.Sign(w.Context(), key)
	w.Must(err)
	return string(envelope.AppendRequest(nil, json.RawMessage(`1`), e)), e.Hash()
}

// The tools of the reference's MCP adapter have its shapes.
func TestTheSeedsTools(t *testing.T) {
	w := newWorld(t)
	key, err := identity.NewKey(rand.Reader)
	w.Must(err)
	var d map[string]any
	described := w.call("/v/echo/mcp", "vacant_describe", `{}`)
	w.Must(json.Unmarshal([]byte(described.text()), &d))
	if d["vacant_id"] != w.echo.ID.String() || d["capability_text"] != "Repeats" || d["halo_version"] != float64(1) || !strings.HasSuffix(d["endpoint"].(string), "/a2a/message/send") || len(d) != 4 {
		t.Errorf("vacant_describe: %s", described.text())
	}
	first, hash := w.signed(key, w.echo.ID, 1, identity.Hash{})
	isSigned := func(message []byte) {
		t.Helper()
		e, err := envelope.DecodeMessage(message)
		w.Must(err)
		if _, ok := e.Verify(); !ok || e.From != w.echo.ID || e.To != key.ID() {
			t.Errorf("the answer does not verify: %s", message)
		}
	}
	got := w.call("/v/echo/mcp", "vacant_call", `{"envelope":`+first+`}`)
	var r struct{ Message json.RawMessage }
	w.Must(json.Unmarshal([]byte(got.text()), &r))
	isSigned(r.Message)
	// The same bytes, here as a text, are refused with the answer of before, as on the signed path.
	again := w.call("/v/echo/mcp", "vacant_call", fmt.Sprintf(`{"envelope":%q}`, first))
	reply, err := json.Marshal(again.Data["reply"])
	w.Must(err)
	if isSigned(reply); again.Data["code"] != "replay" || again.Data["state"] != "answered" {
		t.Errorf("a resend: %s %v", again.text(), again.Data)
	}
	second, _ := w.signed(key, w.echo.ID, 2, hash)
	// The adapter checks neither jsonrpc nor method.
	if got := w.call("/v/echo/mcp", "vacant_call", `{"envelope":`+strings.Replace(second, `"jsonrpc":"2.0"`, `"jsonrpc":"1.0"`, 1)+`}`); got.Is {
		t.Errorf("another version of JSON-RPC: %s", got.text())
	}
	other, _ := w.signed(key, key.ID(), 1, identity.Hash{})
	gap, _ := w.signed(key, w.echo.ID, 9, hash)
	forged := strings.Replace(gap, `"text":"hi"`, `"text":"ho"`, 1)
	asleep := w.create(vacants.CreateSpec{Name: "asleep", Substrate: "echo"})
	_, err = w.Vacants.Pause(t.Context(), asleep.ID)
	w.Must(err)
	toSleeper, _ := w.signed(key, asleep.ID, 1, identity.Hash{})
	for name, tt := range map[string]struct {
		path, arguments, text, code string
		is                          bool
	}{
		"another vacant": {"echo", `{"envelope":` + other + `}`, fmt.Sprintf(`{"error":"envelope_to_mismatch: expected %s, got %s"}`, w.echo.ID, key.ID()), "", false},
		"asleep":         {"asleep", `{"envelope":` + toSleeper + `}`, `{"error":"vacant HIBERNATING; not accepting calls"}`, "", false},
		"a gap":          {"echo", `{"envelope":` + gap + `}`, "Error executing tool vacant_call: ", "gap", true},
		"forged":         {"echo", `{"envelope":` + forged + `}`, "Error executing tool vacant_call: ", "bad_signature", true},
		"no envelope":    {"echo", `{"envelope":{}}`, "Error executing tool vacant_call: ", "malformed", true},
		"a number":       {"echo", `{"envelope":7}`, "Error executing tool vacant_call: ", "not_json_object", true},
		"nothing":        {"echo", `{}`, "envelope: expected", "malformed", true},
	} {
		got := w.call("/v/"+tt.path+"/mcp", "vacant_call", tt.arguments)
		if got.Is != tt.is || !strings.HasPrefix(got.text(), tt.text) || tt.code != "" && got.Data["code"] != tt.code {
			t.Errorf("%s: %t %s %v, want %s", name, got.Is, got.text(), got.Data, tt.text)
		}
		if tt.code == "gap" && (got.Data["expected_seq"] != float64(3) || got.Data["chain_tip"] == nil) {
			t.Errorf("%s: %v, want what is expected", name, got.Data)
		}
	}
}

// The account of the key that comes with a signed call pays for it, and no other account does.
func TestTheAccountOfAKeyPaysForASignedCall(t *testing.T) {
	w := priced(t)
	shop, err := w.Vacants.GetByName(t.Context(), vacants.OperatorAsker(), "shop")
	w.Must(err)
	keys := map[string]string{"acme": w.key("acme", billing.KeyOptions{}), "other": w.key("other", billing.KeyOptions{})}
	balance := func(tenant string) money.Amount {
		a, err := w.Billing.FindAccount(t.Context(), tenant)
		w.Must(err)
		b, err := w.Billing.Balance(t.Context(), &a)
		w.Must(err)
		return b
	}
	for _, tt := range []struct {
		payer, code string
		acme, other money.Amount // left
	}{
		{"no key", "payment_required", 10 * money.Dollar, 10 * money.Dollar},
		{"acme", "", 10*money.Dollar - flat, 10 * money.Dollar},
		{"other", "", 10*money.Dollar - flat, 10*money.Dollar - flat},
	} {
		signer, err := identity.NewKey(rand.Reader)
		w.Must(err)
		first, _ := w.signed(signer, shop.ID, 1, identity.Hash{})
		var headers []string
		if key := keys[tt.payer]; key != "" {
			headers = append(headers, "Authorization: Bearer "+key)
		}
		got := w.call("/v/shop/mcp", "vacant_call", `{"envelope":`+first+`}`, headers...)
		if code, _ := got.Data["code"].(string); code != tt.code {
			t.Errorf("paid by %s: %s %v", tt.payer, got.text(), got.Data)
		}
		if acme, other := balance("acme"), balance("other"); acme != tt.acme || other != tt.other {
			t.Errorf("paid by %s: acme has %s and other %s, want %s and %s", tt.payer, acme, other, tt.acme, tt.other)
		}
	}
}

// A vacant's documents are resources by its id, whatever it is called.
func TestResourcesAreNamedByTheID(t *testing.T) {
	w := newWorld(t)
	at := "vacancy://" + w.echo.ID.String()
	got := w.rpc("/v/echo/mcp", "resources/list", `{}`)
	for _, uri := range []string{at + "/card", at + "/halo"} {
		if !strings.Contains(got.body, `"uri":"`+uri+`"`) {
			t.Errorf("the resources lack %s: %s", uri, got.body)
		}
	}
	if got := w.rpc("/v/echo/mcp", "resources/templates/list", `{}`); !strings.Contains(got.body, at+"/receipts/{caller}/{position}") {
		t.Errorf("the templates are %s", got.body)
	}
	read := func(uri string) (text string) {
		var r struct {
			Result struct{ Contents []struct{ Text string } }
		}
		got := w.rpc("/v/echo/mcp", "resources/read", fmt.Sprintf(`{"uri":%q}`, uri))
		if json.Unmarshal([]byte(got.body), &r) != nil || len(r.Result.Contents) != 1 {
			t.Fatalf("%s: %d %s", uri, got.status, got.body)
		}
		return r.Result.Contents[0].Text
	}
	if got := read(at + "/card"); got != w.do("GET", "/v/echo", "").body {
		t.Errorf("the card is %s", got)
	}
	var halo struct {
		Blob string `json:"capability_card_blob_hex"`
	}
	w.Must(json.Unmarshal([]byte(read(at+"/halo")), &halo))
	blob, err := hex.DecodeString(halo.Blob)
	w.Must(err)
	if c, err := card.Parse(blob); err != nil || !c.Verify() || c.VacantID != w.echo.ID {
		t.Errorf("the halo is %+v, %v", c, err)
	}
}

// The card of a server says where it is, to every page.
func TestServerCards(t *testing.T) {
	w := newWorld(t)
	long := w.create(vacants.CreateSpec{Name: "long", Capability: strings.Repeat("ü", 200), Substrate: "echo"})
	for path, at := range map[string]string{"/v/long/mcp/server-card": "/v/" + long.ID.String() + "/mcp", "/mcp/server-card": "/mcp"} {
		got := w.do("GET", path, "", "Origin: https://any.example")
		var c struct {
			Name, Description string
			Remotes           []struct{ URL string }
		}
		if got.status != 200 || got.header.Get("Access-Control-Allow-Origin") != "*" || got.header.Get("Content-Type") != "application/mcp-server-card+json" || json.Unmarshal([]byte(got.body), &c) != nil {
			t.Fatalf("%s: %d %v %s", path, got.status, got.header, got.body)
		}
		if len(c.Remotes) != 1 || c.Remotes[0].URL != w.http.URL+at || strings.Count(c.Name, "/") != 1 || len([]rune(c.Description)) > 100 || c.Description == "" {
			t.Errorf("%s: %+v", path, c)
		}
		if again := w.do("GET", path, "", "If-None-Match: "+got.header.Get("ETag")); again.status != 304 || again.body != "" {
			t.Errorf("%s again: %d", path, again.status)
		}
		if post := w.do("POST", path, "{}"); post.status != 405 || post.header.Get("Allow") != "GET, HEAD" {
			t.Errorf("POST %s: %d %v", path, post.status, post.header)
		}
	}
}
