package mcpserver_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/billing/tokens"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/receipt"
)

const flat = money.Dollar / 100

func priced(t *testing.T, changes ...func(*serve.Config)) *world {
	w := newWorld(t, changes...)
	shop := w.mind("shop")
	_, err := w.Vacants.SetPrice(t.Context(), shop.ID, price.Price{Flat: flat})
	w.Must(err)
	w.skip.Add(int64(2 * time.Second))
	return w
}

// The account of a key pays, within the bounds of the call and of the key, and has a receipt.
func TestTheAccountOfAKeyPays(t *testing.T) {
	w := priced(t)
	acme := "Authorization: Bearer " + w.key("acme", billing.KeyOptions{})
	tight := "Authorization: Bearer " + w.key("acme", billing.KeyOptions{MaxPrice: flat - 1})
	capped := "Authorization: Bearer " + w.key("acme", billing.KeyOptions{DailyCap: flat - 1})
	for name, tt := range map[string]struct {
		arguments, header, code, text string
	}{
		"a guest":           {`{"message":"hi"}`, "X: y", "payment_required", "send the key of an account (Authorization: Bearer KEY)"},
		"a bound":           {fmt.Sprintf(`{"message":"hi","max_price":%d}`, flat-1), acme, "price_above_max", "raise max_price"},
		"the key's bound":   {`{"message":"hi"}`, tight, "price_above_max", ""},
		"the key's cap":     {`{"message":"hi"}`, capped, "spend_cap_reached", "try again after 00:00 UTC"},
		"a bound of a page": {fmt.Sprintf(`{"message":"hi","max_price":%d}`, 0), acme, "price_above_max", ""},
	} {
		got := w.call("/v/shop/mcp", "ask", tt.arguments, tt.header)
		if !got.Is || got.Data["code"] != tt.code || !strings.Contains(got.text(), tt.text) || got.Data["pay"] == nil || got.Data["price"] == nil {
			t.Errorf("%s: %s %v, want %s", name, got.text(), got.Data, tt.code)
		}
	}
	if n := w.turns.Load(); n != 0 {
		t.Fatalf("%d turns ran for nothing", n)
	}
	got := w.call("/v/shop/mcp", "ask", fmt.Sprintf(`{"message":"hi","max_price":%d,"context":"mine"}`, flat), acme)
	if got.Is || got.text() != "hi" || got.Data["price"] != float64(flat) || got.Data["context"] != "mine" {
		t.Fatalf("%s %v", got.text(), got.Data)
	}
	again := w.call("/v/shop/mcp", "get_task", fmt.Sprintf(`{"task":%q}`, got.Data["task"]), acme)
	if again.Data["price"] != float64(flat) || again.Data["receipt"] != got.Data["receipt"] {
		t.Errorf("the task is %v, want the price and the receipt of %v", again.Data, got.Data)
	}
	if other := w.call("/v/shop/mcp", "get_task", fmt.Sprintf(`{"task":%q}`, got.Data["task"])); other.Data["code"] != "not_found" {
		t.Errorf("a guest reads an account's task: %v", other.Data)
	}
	w.checkReceipt(got.Data["receipt"].(string), acme)
}

// A guest's paid call leads its client to the login if tokens count, also before a stream begins. Each
// other refusal is a result.
func TestGuestWhoHasToPayIsLedToTheLogin(t *testing.T) {
	w := priced(t, func(c *serve.Config) { c.NewTokenChecker = tokens.NewForBilling })
	shop, err := w.Vacants.GetByName(t.Context(), vacants.OperatorAsker(), "shop")
	w.Must(err)
	w.publish(shop)
	w.mind("free")
	plainOff := w.mind("plainoff")
	_, err = w.Vacants.SetPrice(t.Context(), plainOff.ID, price.Price{Flat: flat})
	w.Must(err)
	w.publish(plainOff)
	off := vacants.KeylessOff
	_, err = w.Vacants.Update(t.Context(), plainOff.ID, vacants.Changes{KeylessAccess: &off})
	w.Must(err)
	w.skip.Add(int64(2 * time.Second))
	body := func(tool, arguments, meta string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":%s}}`, tool, arguments, meta)
	}
	const hi, atHost, whole, progress = `{"message":"hi"}`, `{"agent":"shop","message":"hi"}`, `{}`, `{"progressToken":1}`
	tests := map[string]struct {
		path, body, header string
		led                bool
		want               string // of the answer; a guest without a login gets payment_required
	}{
		"whole":              {"/v/shop/mcp", body("ask", hi, whole), legacy, true, ""},
		"with progress":      {"/v/shop/mcp", body("ask", hi, progress), legacy, true, ""},
		"of the newest":      {"/v/shop/mcp", modernRequest("tools/call", `,"name":"ask","arguments":{"message":"hi"}`), newest, true, ""},
		"host":               {"/mcp", body("ask_agent", atHost, whole), legacy, true, ""},
		"host with progress": {"/mcp", body("ask_agent", atHost, progress), legacy, true, ""},
		"batch":              {"/v/shop/mcp", "[" + body("ask", hi, progress) + "]", "Mcp-Protocol-Version: 2025-03-26", false, "payment_required"},
		"signed calls only":  {"/mcp", body("ask_agent", `{"agent":"plainoff","message":"hi"}`, whole), legacy, false, "forbidden"},
		"free with progress": {"/v/free/mcp", body("ask", hi, progress), legacy, false, "event: message"},
		"busy with progress": {"/v/free/mcp", body("ask", `{"message":"busy"}`, progress), legacy, false, "substrate_busy"},
	}
	check := func(when string, login bool) {
		t.Helper()
		for name, tt := range tests {
			headers := []string{accepts, tt.header}
			if tt.header == newest {
				headers = append(headers, "Mcp-Method: tools/call", "Mcp-Name: ask")
			}
			got := w.do("POST", tt.path, tt.body, headers...)
			challenge := got.header.Get("WWW-Authenticate")
			if !tt.led || !login {
				if want := cmp.Or(tt.want, "payment_required"); got.status != http.StatusOK || challenge != "" || !strings.Contains(got.body, want) {
					t.Errorf("%s, %s: %d %s %s, want 200 and %s", name, when, got.status, challenge, got.body, want)
				}
				continue
			}
			var r struct {
				ID    int
				Error struct {
					Message string
					Data    map[string]any
				}
			}
			metadata := w.http.URL + "/.well-known/oauth-protected-resource" + tt.path
			if err := json.Unmarshal([]byte(got.body), &r); err != nil || got.status != http.StatusUnauthorized || challenge != `Bearer realm="vacancy", scope="call", resource_metadata="`+metadata+`"` ||
				!strings.HasSuffix(r.Error.Message, "; or log in at http://127.0.0.1:9") || r.ID < 1 || got.header.Get("Content-Type") != "application/json" {
				t.Errorf("%s, %s: %d %v %s", name, when, got.status, got.header, got.body)
			}
			if named := w.do("GET", strings.TrimPrefix(metadata, w.http.URL), ""); named.status != http.StatusOK {
				t.Errorf("the metadata of %s: %d %s", name, named.status, named.body)
			}
		}
	}
	check("without an issuer", false)
	a, err := w.Billing.OpenAccount(t.Context(), "login", 1)
	w.Must(err)
	_, err = w.Billing.AddIssuer(t.Context(), a.ID, "http://127.0.0.1:9", billing.IssuerOptions{SubjectDailyCap: flat, TotalDailyCap: flat, AllowAll: true, Publish: true})
	w.Must(err)
	check("with an issuer", true)
	acme := "Authorization: Bearer " + w.key("acme", billing.KeyOptions{DailyCap: flat - 1})
	for _, meta := range []string{whole, progress} {
		if got := w.do("POST", "/v/shop/mcp", body("ask", hi, meta), accepts, legacy, acme); got.status != http.StatusOK || !strings.Contains(got.body, "spend_cap_reached") {
			t.Errorf("a key at its cap, %s: %d %s", meta, got.status, got.body)
		}
	}
}

// checkReceipt reads a receipt by its URL and as a resource.
func (w *world) checkReceipt(url, key string) {
	w.Helper()
	path, ok := strings.CutPrefix(url, w.http.URL)
	if !ok {
		w.Fatalf("the receipt is at %s", url)
	}
	var one receipt.Receipt
	if got := w.do("GET", path, "", key); json.Unmarshal([]byte(got.body), &one) != nil || one.Charge != int64(flat) {
		w.Errorf("the receipt is %d %s", got.status, got.body)
	}
	parts := strings.Split(path, "/")
	caller, vacant, position := parts[len(parts)-3], parts[len(parts)-2], parts[len(parts)-1]
	uri := "vacancy://" + vacant + "/receipts/" + caller + "/" + position
	got := w.rpc("/v/shop/mcp", "resources/read", fmt.Sprintf(`{"uri":%q}`, uri), key)
	if !strings.Contains(got.body, `\"charge\":`+fmt.Sprint(int64(flat))) && !strings.Contains(got.body, fmt.Sprint(int64(flat))) {
		w.Errorf("the resource is %d %s", got.status, got.body)
	}
	for _, bad := range []string{uri, "vacancy://" + vacant + "/receipts/x/1", "vacancy://" + vacant + "/receipts/" + caller + "/..%2F..", "vacancy://" + vacant + "/tea", "file:///etc/passwd"} {
		if got := w.rpc("/v/shop/mcp", "resources/read", fmt.Sprintf(`{"uri":%q}`, bad)); got.status != 200 || !strings.Contains(got.body, `"code":-32602`) {
			w.Errorf("nobody reads %s: %d %s", bad, got.status, got.body)
		}
	}
}

// A question that comes again by its key is the same task, and is paid once.
func TestAQuestionWithAKeyOfItsOwnRunsOnce(t *testing.T) {
	w := priced(t)
	acme := "Authorization: Bearer " + w.key("acme", billing.KeyOptions{})
	other := "Authorization: Bearer " + w.key("other", billing.KeyOptions{})
	meta := `{"io.github.vacancy-host/idempotency-key":"k1"}`
	var all sync.WaitGroup
	tasks := make([]any, 4)
	for i := range tasks {
		all.Go(func() {
			tasks[i] = w.callMeta("/v/shop/mcp", "ask", `{"message":"hi"}`, meta, acme).Data["task"]
		})
	}
	all.Wait()
	for _, one := range tasks {
		if one == nil || one != tasks[0] {
			t.Errorf("the tasks are %v, want one", tasks)
		}
	}
	if n := w.turns.Load(); n != 1 {
		t.Errorf("%d turns, want 1", n)
	}
	if got := w.callMeta("/v/shop/mcp", "ask", `{"message":"another"}`, meta, acme); got.Data["code"] != "malformed" || !strings.Contains(got.text(), "another message with the same id") {
		t.Errorf("another message: %s", got.text())
	}
	if got := w.callMeta("/v/shop/mcp", "ask", `{"message":"hi"}`, meta, other); got.Is || got.Data["task"] == tasks[0] {
		t.Errorf("another account: %v", got.Data)
	}
	for _, bad := range []string{`7`, `""`, `"` + strings.Repeat("x", 513) + `"`} {
		if got := w.callMeta("/v/shop/mcp", "ask", `{"message":"hi"}`, `{"io.github.vacancy-host/idempotency-key":`+bad+`}`, acme); got.Data["code"] != "malformed" || !strings.Contains(got.text(), "idempotency-key") {
			t.Errorf("the key %.20s: %s", bad, got.text())
		}
	}
}

// The signed answer comes with it, and verifies without the host.
func TestTheSignedAnswerIsInTheMetadata(t *testing.T) {
	w := newWorld(t)
	got := w.call("/v/echo/mcp", "ask", `{"message":"hi"}`)
	raw, err := json.Marshal(got.Meta["io.github.vacancy-host/envelope"])
	w.Must(err)
	e, err := envelope.DecodeMessage(raw)
	w.Must(err)
	if _, ok := e.Verify(); e.From != w.echo.ID || !ok || e.Payload.Text() != got.text() {
		t.Errorf("%s does not verify: %+v", raw, e)
	}
}
