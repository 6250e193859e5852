package promises

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/billing/tokens"
	"github.com/vacancy-host/vacancy/shared/host/billing/tokens/tokenstest"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
	"github.com/vacancy-host/vacancy/tests/memhost"
)

// A behaviour runs in one of these ways, and each column is a check between the sender and
// the work. A cell says what happens: the work is paid for, free for a reason that the
// price names, or refused, and then nothing runs and nothing is charged. No cell is empty:
// if a column cannot occur in a way, the cell says none.
type outcome string

const (
	paid    outcome = "paid"
	free    outcome = "free"    // by the quota, to the vacant's own tree, or with a test key
	refused outcome = "refused" // nothing ran, nothing is charged
	stored  outcome = "stored"  // the answer of before: nothing ran, nothing is charged
	none    outcome = "none"    // the column does not apply
)

// columns are the states of the shop, which is asked, and of who asks it.
var columns = []string{"priced", "quota", "capped", "suspended", "closed", "another tenant's", "suspended, at a free shop"}

// way is one way in which a behaviour runs.
type way struct {
	ask  func(*runs)
	want [7]outcome // by column
	// code are the functions of the source by which the pipeline is entered.
	code []string
}

var ways = map[string]way{
	"signed":  {(*runs).signed, [7]outcome{paid, free, refused, refused, refused, paid, free}, []string{"shared/front/message serveSend"}},
	"resend":  {(*runs).resend, [7]outcome{stored, stored, refused, refused, refused, stored, stored}, nil},
	"restore": {(*runs).restored, [7]outcome{refused, refused, refused, refused, refused, refused, refused}, nil},
	// Nobody pays for a guest, so only the free quota lets one in.
	"plain":      {(*runs).plain, [7]outcome{refused, free, none, none, refused, refused, none}, []string{"shared/host/a2a/task Run"}},
	"account":    {(*runs).account, [7]outcome{paid, none, refused, refused, refused, paid, refused}, nil},
	"task":       {(*runs).task, [7]outcome{paid, none, refused, refused, refused, paid, refused}, nil},
	"stream":     {(*runs).stream, [7]outcome{paid, none, refused, refused, refused, paid, refused}, []string{"shared/host/a2a/task Begin"}},
	"text":       {(*runs).text, [7]outcome{paid, none, refused, refused, refused, paid, refused}, nil},
	"mcp":        {(*runs).mcp, [7]outcome{paid, none, refused, refused, refused, paid, refused}, nil},
	"guest mcp":  {(*runs).guestMCP, [7]outcome{refused, free, none, none, refused, refused, none}, nil},
	"mcp stream": {(*runs).mcpStream, [7]outcome{paid, none, refused, refused, refused, paid, refused}, nil},
	"host's mcp": {(*runs).hostsMCP, [7]outcome{paid, none, refused, refused, refused, paid, refused}, nil},
	"mcp signed": {(*runs).mcpSigned, [7]outcome{paid, free, refused, refused, refused, paid, free}, nil},
	"guest text": {(*runs).guestText, [7]outcome{refused, free, none, none, refused, refused, none}, nil},
	// A slow vacant runs its turns in the background.
	"slow":        {(*runs).slow, [7]outcome{paid, none, refused, refused, refused, paid, refused}, nil},
	"slow guest":  {(*runs).slowGuest, [7]outcome{refused, free, none, none, refused, refused, none}, nil},
	"slow signed": {(*runs).slowSigned, [7]outcome{paid, free, refused, refused, refused, paid, free}, []string{"shared/host/a2a/task Send"}},
	// OpenAI's clients.
	"completion":        {(*runs).completion, [7]outcome{paid, none, refused, refused, refused, paid, refused}, nil},
	"completion stream": {(*runs).completionStream, [7]outcome{paid, none, refused, refused, refused, paid, refused}, nil},
	"completion retry":  {(*runs).completionRetry, [7]outcome{stored, none, refused, refused, refused, stored, refused}, nil},
	"response":          {(*runs).response, [7]outcome{paid, none, refused, refused, refused, paid, refused}, nil},
	"response stream":   {(*runs).responseStream, [7]outcome{paid, none, refused, refused, refused, paid, refused}, nil},
	"guest completion":  {(*runs).guestCompletion, [7]outcome{refused, free, none, none, refused, refused, none}, nil},
	// Tokens of an issuer whose subjects the buyer pays for.
	"token":            {(*runs).tokenText, [7]outcome{paid, none, refused, refused, refused, paid, refused}, nil},
	"token task":       {(*runs).tokenTask, [7]outcome{paid, none, refused, refused, refused, paid, refused}, nil},
	"token mcp":        {(*runs).tokenMCP, [7]outcome{paid, none, refused, refused, refused, paid, refused}, nil},
	"token completion": {(*runs).tokenCompletion, [7]outcome{paid, none, refused, refused, refused, paid, refused}, nil},
	"background":       {(*runs).background, [7]outcome{paid, none, refused, refused, refused, paid, refused}, []string{"shared/host/a2a/task Enqueue", "shared/host/a2a/task RunQueued"}},
	"dispatched":       {(*runs).dispatched, [7]outcome{paid, none, refused, refused, refused, paid, refused}, []string{"shared/host/a2a/task leaseFirstTurn"}},
	"test key":         {(*runs).testKey, [7]outcome{free, none, free, refused, refused, refused, refused}, nil},
	"booking":          {(*runs).booking, [7]outcome{paid, none, refused, refused, refused, paid, refused}, []string{"shared/host/booking callHostedVenue"}},
	// A composite's children answer it for nothing, because callers pay the composite.
	"delegation": {(*runs).delegation, [7]outcome{free, free, none, none, free, refused, none}, []string{"shared/host/answer/delegation send"}},
	"tool":       {(*runs).tool, [7]outcome{refused, free, refused, refused, refused, refused, none}, nil},
}

// At the second hop, an agent of the buyer's tenant, whom the buyer's account pays for, asks the
// shop by a tool. The test mode and the limits of whoever asks the agent hold for the shop, too.
func init() {
	credentials := map[string]struct {
		of   func(*runs) string
		want [7]outcome
	}{
		"key":         {func(w *runs) string { return w.key }, [7]outcome{paid, free, refused, refused, refused, paid, refused}},
		"token":       {func(w *runs) string { return w.token }, [7]outcome{paid, free, refused, refused, refused, paid, refused}},
		"test key":    {func(w *runs) string { return w.test }, [7]outcome{free, free, free, refused, refused, refused, refused}},
		"limited key": {func(w *runs) string { return w.limited }, [7]outcome{refused, free, refused, refused, refused, refused, refused}},
	}
	hops := map[string]func(*runs){
		"task": (*runs).task, "text": (*runs).text, "completion stream": (*runs).completionStream, "mcp": (*runs).mcp, "background": (*runs).background, "slow": (*runs).slow,
	}
	for credential, c := range credentials {
		for hop, ask := range hops {
			ways["second hop, "+hop+", "+credential] = way{func(w *runs) { w.with(c.of(w), func() { w.byAgent(ask) }) }, c.want, nil}
		}
		ways["third hop, "+credential] = way{func(w *runs) { w.with(c.of(w), func() { w.byAgent(func(w *runs) { w.byAgent((*runs).account) }) }) }, c.want, nil}
	}
}

const (
	shopPrice = 2 * money.Dollar
	bookFee   = money.Dollar / 4
)

// runs is a host with a shop at $2 a call, and who asks it.
type runs struct {
	*memhost.Host
	column string

	gate     chan struct{}               // answers come once it is closed, unless it is nil
	ran      atomic.Int64                // answers of the shop's behaviour
	answered atomic.Pointer[identity.ID] // the vacant that answered last
	failing  atomic.Bool                 // agents that ask the shop fail afterwards
	shop     vacants.Record
	buyer    billing.Account
	// Keys of the buyer: for calls, for AGP, for tests, for calls below the shop's price, and for its agents.
	key, agp, test, limited, agents string

	asked    identity.ID // the vacant that is asked first: the shop, or an agent that asks it
	token    string      // of an issuer whose subjects the buyer pays for
	named    string      // a token for the address of the name shop
	who      *identity.Key
	last     string // the last signed body
	seq      int64
	prev     identity.Hash
	lastHash identity.Hash // of the last signed request
	again    bool          // requests say that they come again
}

// Infer answers as the shop, or as an agent that asks the shop first.
func (w *runs) Infer(ctx context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		if w.gate != nil {
			select {
			case <-w.gate:
			case <-ctx.Done():
			}
		}
		if len(r.Tools) > 0 && r.Turns[len(r.Turns)-1].Role == substrate.RoleCaller {
			_ = yield(substrate.ToolCall{ID: "1", Name: r.Tools[0].Name, Arguments: `{"message":"hi"}`}, nil) && yield(substrate.FinishToolUse, nil)
			return
		}
		if len(r.Tools) > 0 && w.failing.Load() {
			yield(nil, problem.New(problem.BehaviourFailed, "it fails"))
			return
		}
		if r.Vacant == w.shop.ID {
			w.ran.Add(1)
		}
		w.answered.Store(&r.Vacant)
		_ = yield(substrate.Text("done"), nil) && yield(substrate.FinishStop, nil)
	}
}

func openRuns(t testing.TB, column string) *runs {
	t.Helper()
	w := &runs{column: column}
	w.Host = memhost.Open(t, func(c *serve.Config) {
		c.NewTokenChecker, c.AllowRemote, c.OwnMachine, c.Host = tokens.NewForBilling, true, true, setting.Host{ModelBudget: money.Dollar}
		c.Substrates = substrate.Kinds{substrate.KindMock: func(string) (substrate.Substrate, error) { return w, nil }}
	})
	w.Serve()
	w.Work()

	var err error
	w.who, err = identity.NewKey(rand.Reader)
	w.Must(err)
	w.makeBuyer()
	w.makeShop()
	w.asked = w.shop.ID
	return w
}

// makeBuyer opens the account that pays, unless the column is the quota.
func (w *runs) makeBuyer() {
	var most money.Amount
	if w.column == "capped" {
		most = shopPrice - 1
	}
	w.buyer = w.Account("buyer", 100*money.Dollar)
	w.key = w.Key(w.buyer, billing.KeyOptions{DailyCap: most})
	w.agp = w.Key(w.buyer, billing.KeyOptions{Tier: billing.Pro, DailyCap: most})
	w.test = w.Key(w.buyer, billing.KeyOptions{Test: true})
	w.agents = w.Key(w.buyer, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeAgents, billing.ScopeRead}, DailyCap: most})
	w.limited = w.Key(w.buyer, billing.KeyOptions{MaxPrice: shopPrice - 1})
	ctx := w.Context()
	issuer := tokenstest.New()
	w.Cleanup(issuer.Close)
	_, err := w.Server.Billing.AddIssuer(ctx, w.buyer.ID, issuer.URL, billing.IssuerOptions{Audiences: []string{"api://shop"}, AllowAll: true, SubjectDailyCap: cmp.Or(most, 50*money.Dollar), TotalDailyCap: 50 * money.Dollar})
	w.Must(err)
	w.token, err = tokenstest.Sign("ES256", "ES256", map[string]any{"iss": issuer.URL, "sub": "ann", "aud": "api://shop", "exp": w.Clock.NowFunc(0)().AddDate(1, 0, 0).Unix()}, nil)
	w.Must(err)
	w.link(w.who, most)
	if strings.HasPrefix(w.column, "suspended") {
		_, err = w.Server.Billing.SetSuspended(ctx, w.buyer.ID, true, "")
		w.Must(err)
	}
}

// link makes the buyer pay for a caller, unless the column is the quota.
func (w *runs) link(s identity.Signer, most money.Amount) {
	if w.column != "quota" {
		w.Link(w.buyer, s, most)
	}
}

// makeShop makes the vacant that is asked: of the buyer's tenant, so that its test keys
// reach it, unless the column says otherwise.
func (w *runs) makeShop() {
	ctx := w.Context()
	tenant := "buyer"
	if w.column == "another tenant's" {
		tenant = "seller"
	}
	agent := &definition.Agent{Provider: substrate.KindMock}
	var err error
	if w.column == "closed" {
		boss, err := w.Server.Vacants.Create(ctx, vacants.CreateSpec{Name: "boss", Capability: "leads", Agent: agent, Tenant: tenant})
		w.Must(err)
		w.shop, _, err = w.Server.Vacants.Spawn(ctx, vacants.SpawnSpec{Parent: boss.ID, Path: "D2", Name: "shop", Capability: "sells", Agent: agent})
		w.Must(err)
		return
	}
	w.shop, err = w.Server.Vacants.Create(ctx, vacants.CreateSpec{Name: "shop", Capability: "sells", Agent: agent, Tenant: tenant})
	w.Must(err)
	if w.column != "suspended, at a free shop" {
		p := price.Price{Flat: shopPrice}
		if w.column == "quota" {
			p.FreePerSigner, p.FreePerAddress = 9, 9
		}
		w.shop, err = w.Server.Vacants.SetPrice(ctx, w.shop.ID, p)
		w.Must(err)
	}
	_, _, err = w.Server.Vacants.Publish(ctx, w.shop.ID, vacants.PublishOptions{Listing: &vacants.ListingOptions{}, EditVenue: func(v *listing.Venue) error {
		v.Slug = "shop"
		return nil
	}})
	w.Must(err)
	w.Clock.Advance(2 * time.Second) // records are cached for a second
}

func (w *runs) post(path, key, body string) string {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("A2A-Version", "1.0")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if w.again {
		r.Header.Set("X-Stainless-Retry-Count", "1")
	}
	rec := httptest.NewRecorder()
	w.Public.ServeHTTP(rec, r)
	w.Logf("POST %s = %d %.300s", path, rec.Code, rec.Body.String())
	return rec.Body.String()
}

func (w *runs) at() string { return "/v/" + w.asked.String() }

func say(more string) string {
	return `{"message":{"role":"ROLE_USER","messageId":"m1","parts":[{"text":"hi"}]}` + more + `}`
}

func (w *runs) signed() {
	w.last = w.envelope()
	w.post("/a2a/message/send", "", w.last)
}

// envelope signs the next request of the caller.
func (w *runs) envelope() string {
	id := "m1"
	e := &envelope.Envelope{
		From: w.who.ID(), To: w.shop.ID, Seq: w.seq + 1, Prev: w.prev, Time: w.Clock.NowFunc(0)(), IdempotencyKey: "k",
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{"hi"}, MessageID: &id},
	}
	_, err := e.Sign(w.Context(), w.who)
	w.Must(err)
	w.lastHash = e.Hash()
	return string(envelope.AppendRequest(nil, json.RawMessage(`1`), e))
}

func (w *runs) resend() {
	w.signed()
	w.counted(func() { w.post("/a2a/message/send", "", w.last) })
}

// restored is a resend to a host whose data came back from a backup of before it: the
// operator says so, and what was signed before is refused.
func (w *runs) restored() {
	w.Clock.Advance(time.Minute)
	_, err := w.Server.Vacants.RaiseFloors(w.Context())
	w.Must(err)
	w.Clock.Advance(-30 * time.Second)
	w.signed()
}

func (w *runs) plain()   { w.post(w.at()+"/message:send", "", say("")) }
func (w *runs) account() { w.post(w.at()+"/message:send", w.key, say("")) }
func (w *runs) stream()  { w.post(w.at()+"/message:stream", w.key, say("")) }
func (w *runs) text()    { w.post(w.at()+"/text", w.key, "hi") }

// with asks with a credential in place of the key.
func (w *runs) with(credential string, ask func()) {
	key := w.key
	w.key = credential
	ask()
	w.key = key
}

func (w *runs) tokenText()       { w.with(w.token, w.text) }
func (w *runs) tokenTask()       { w.with(w.token, w.task) }
func (w *runs) tokenMCP()        { w.with(w.token, w.mcp) }
func (w *runs) tokenCompletion() { w.with(w.token, w.completion) }

// byAgent puts an agent of the buyer's tenant, for whom the buyer pays, before the vacant that is
// asked.
func (w *runs) byAgent(ask func(*runs)) {
	ctx := w.Context()
	agent, err := w.Server.Vacants.Create(ctx, vacants.CreateSpec{
		Asker: vacants.TenantAsker("buyer"), Name: "agent-" + w.asked.Short(), Capability: "asks", Tenant: "buyer",
		Agent: &definition.Agent{Provider: substrate.KindMock, Vacants: []string{w.asked.String()}},
	})
	if err != nil {
		w.Logf("Create() = %v", err)
		return
	}
	w.Must(w.Server.Vacants.WithSigner(ctx, agent.ID, func(s identity.Signer) error {
		w.link(s, 0)
		return nil
	}))
	w.asked = agent.ID
	w.Clock.Advance(2 * time.Second) // records are cached for a second
	ask(w)
}

func (w *runs) testKey() { w.post(w.at()+"/message:send", w.test, say("")) }

// slowly lets the shop take minutes, and asks it.
func (w *runs) slowly(ask func()) {
	work := 5 * time.Minute
	_, err := w.Server.Vacants.Update(w.Context(), w.asked, vacants.Changes{CallTimeout: &work})
	w.Must(err)
	w.Clock.Advance(2 * time.Second) // records are cached for a second
	ask()
}

func (w *runs) slow()      { w.slowly(w.account) }
func (w *runs) slowGuest() { w.slowly(w.plain) }
func (w *runs) slowSigned() {
	w.slowly(func() {
		w.signed()
		for strings.Contains(w.post("/a2a/message/send", "", w.last), `"state":"pending"`) {
			time.Sleep(time.Millisecond)
		}
	})
}

// call calls a tool of an MCP server.
func (w *runs) call(path, key, tool, arguments, meta string) {
	w.post(path, key, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":%s}}`, tool, arguments, meta))
}

func (w *runs) mcp()      { w.call(w.at()+"/mcp", w.key, "ask", `{"message":"hi"}`, `{}`) }
func (w *runs) guestMCP() { w.call(w.at()+"/mcp", "", "ask", `{"message":"hi"}`, `{}`) }
func (w *runs) mcpStream() {
	w.call(w.at()+"/mcp", w.key, "ask", `{"message":"hi"}`, `{"progressToken":1}`)
}

func (w *runs) hostsMCP() {
	w.call("/mcp", w.key, "ask_agent", `{"agent":"`+w.shop.ID.String()+`","message":"hi"}`, `{}`)
}

func (w *runs) mcpSigned() {
	w.call(w.at()+"/mcp", "", "vacant_call", `{"envelope":`+w.envelope()+`}`, `{}`)
}

func (w *runs) completion()       { w.complete(w.key, "") }
func (w *runs) completionStream() { w.complete(w.key, `,"stream":true`) }
func (w *runs) guestCompletion()  { w.complete("", "") }

func (w *runs) complete(key, more string) {
	w.post(w.at()+"/v1/chat/completions", key, `{"messages":[{"role":"user","content":"hi"}]`+more+`}`)
}

func (w *runs) response() { w.post(w.at()+"/v1/responses", w.key, `{"input":"hi"}`) }
func (w *runs) responseStream() {
	w.post("/v1/responses", w.key, `{"model":"shop","stream":true,"input":[{"role":"user","content":"hi"}]}`)
}

// completionRetry is the request of before, as OpenAI's clients send it again by themselves.
func (w *runs) completionRetry() {
	w.again = true
	w.completion()
}

func (w *runs) guestText() { w.post(w.at()+"/text", "", "hi") }

// task is the same by JSON-RPC of 0.3.
func (w *runs) task() {
	w.post(w.at(), w.key, `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"m1","role":"user","parts":[{"kind":"text","text":"hi"}]}}}`)
}

func (w *runs) background() {
	body := w.post(w.at()+"/message:send", w.key, say(`,"configuration":{"returnImmediately":true}`))
	var got struct {
		Task struct{ ID string }
	}
	if json.Unmarshal([]byte(body), &got) != nil || got.Task.ID == "" {
		return
	}
	for { // until the worker has run it; only the test's own limit ends this
		r := httptest.NewRequest(http.MethodGet, w.at()+"/tasks/"+got.Task.ID, nil)
		r.Header.Set("Authorization", "Bearer "+w.key)
		rec := httptest.NewRecorder()
		w.Public.ServeHTTP(rec, r)
		if strings.Contains(rec.Body.String(), "TASK_STATE_COMPLETED") {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// dispatched gives the shop a task. Another tenant's shop needs a budget.
func (w *runs) dispatched() {
	var got struct{ TaskID, Status string }
	body := w.post("/v1/tasks", w.agents, fmt.Sprintf(`{"agent":"%s","task":"hi","budget":%d}`, w.shop.ID, 10*shopPrice))
	if json.Unmarshal([]byte(body), &got) != nil || got.TaskID == "" {
		return
	}
	for got.Status == "pending" || got.Status == "working" {
		w.Must(json.Unmarshal([]byte(w.Do("GET", "/v1/tasks/"+got.TaskID+"?wait=20", w.agents, "").Body), &got))
	}
}

func (w *runs) booking() {
	w.post("/a2a/v1", w.agp, `{"from":"eve","intent":"booking.confirm","ttl_ms":9000,"payload":{"venue_id":"`+w.shop.ID.String()+`"}}`)
}

// delegation has a composite ask the shop by its plan. In the column of another tenant the
// composite is a stranger's, who has no such child.
func (w *runs) delegation() {
	ctx := w.Context()
	name := "boss"
	if w.column != "closed" {
		name = "firm"
		firm, err := w.Server.Vacants.Create(ctx, vacants.CreateSpec{Name: name, Capability: "leads", Agent: &definition.Agent{Provider: substrate.KindMock}, Tenant: "buyer"})
		w.Must(err)
		if w.column != "another tenant's" {
			child, _, err := w.Server.Vacants.Spawn(ctx, vacants.SpawnSpec{Parent: firm.ID, Path: "D3", Name: "hand", Capability: "helps", Reachability: composite.PublicA2A, Agent: &definition.Agent{Provider: substrate.KindMock}})
			w.Must(err)
			w.shop, err = w.Server.Vacants.SetPrice(ctx, child.ID, *w.shop.Price)
			w.Must(err)
		}
	}
	boss, err := w.Server.Vacants.GetByName(ctx, vacants.OperatorAsker(), name)
	w.Must(err)
	p, err := plan.Parse([]byte(`{"version":1,"aggregate":{"how":"first"},"delegate":[{"child":"` + w.shop.ID.String() + `"}]}`))
	w.Must(err)
	if _, _, err = w.Server.Vacants.SetPlan(ctx, vacants.OperatorAsker(), boss.ID, p); err != nil {
		w.Logf("SetPlan() = %v", err)
		return
	}
	w.Clock.Advance(2 * time.Second)
	w.post("/v/"+boss.ID.String()+"/message:send", "", say(""))
}

// tool has an agent, whom no account pays for, ask the shop by a tool of its model.
func (w *runs) tool() {
	ctx := w.Context()
	asker, err := w.Server.Vacants.Create(ctx, vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "asker", Capability: "asks", Agent: &definition.Agent{Provider: substrate.KindMock, Vacants: []string{w.shop.ID.String()}}})
	if err != nil {
		w.Logf("Create() = %v", err)
		return
	}
	w.post("/v/"+asker.ID.String()+"/message:send", "", say(""))
}

// counted returns the runs of the shop and the spending of the buyer that an ask
// causes.
func (w *runs) counted(ask func()) (ran int64, spent money.Amount) {
	w.Helper()
	before, did := w.Balance(w.buyer), w.ran.Load()
	ask()
	after := w.Balance(w.buyer)
	return w.ran.Load() - did, before - after
}

func TestEveryWayToRunIsPaidFreeOrRefused(t *testing.T) {
	for name, way := range ways {
		for i, column := range columns {
			want := way.want[i]
			if want == none {
				continue
			}
			t.Run(name+" "+column, func(t *testing.T) {
				t.Parallel()
				w := openRuns(t, column)
				ask := func() { way.ask(w) }
				if name == "resend" {
					w.signed()
					ask = func() { w.post("/a2a/message/send", "", w.last) }
				}
				if name == "completion retry" {
					w.completion()
				}
				ran, spent := w.counted(ask)
				charge := shopPrice
				if name == "booking" {
					charge += bookFee
				}
				got := outcome(fmt.Sprintf("%d runs for %s", ran, spent))
				switch {
				case ran == 1 && spent == charge:
					got = paid
				case ran == 1 && spent == 0:
					got = free
				case ran == 0 && spent == 0 && (name == "resend" || name == "completion retry") && w.ran.Load() == 1:
					got = stored
				case ran == 0 && spent == 0:
					got = refused
				}
				if got != want {
					t.Errorf("%s, want %s", got, want)
				}
				w.WantWhole(w.Store)
			})
		}
	}
}

// A limit of a booking, by its key or its request, holds for the booking and the calls that its
// venue makes for it; later dispatches must not spend it again.
func TestTheLimitOfABookingHoldsForItsVenuesCalls(t *testing.T) {
	for _, tt := range []struct {
		key, request money.Amount // limits; zero means none
		ran          int64
	}{
		{0, 0, 1},
		{bookFee + shopPrice, 0, 1},
		{bookFee + shopPrice - money.Dollar/100, 0, 0},
		{0, bookFee + shopPrice, 1},
		{0, bookFee + shopPrice - money.Dollar/100, 0},
	} {
		t.Run(fmt.Sprintf("key %s, request %s", tt.key, tt.request), func(t *testing.T) {
			t.Parallel()
			w := openRuns(t, "priced")
			_, key, err := w.Server.Billing.MakeKey(t.Context(), w.buyer.ID, billing.KeyOptions{Tier: billing.Pro, MaxPrice: tt.key})
			w.Must(err)
			limit := ""
			if tt.request > 0 {
				limit = fmt.Sprintf(`,"max_price_usd":"%d.%06d"`, tt.request/money.Dollar, tt.request%money.Dollar)
			}
			w.byAgent(func(w *runs) {
				_, _, err := w.Server.Vacants.Publish(t.Context(), w.asked, vacants.PublishOptions{Listing: &vacants.ListingOptions{}, EditVenue: func(v *listing.Venue) error {
					v.Slug = "agent"
					return nil
				}})
				w.Must(err)
				w.Clock.Advance(2 * time.Second)
				book := func() {
					w.post("/a2a/v1", key, `{"from":"eve","intent":"booking.confirm","ttl_ms":9000,"payload":{"venue_id":"`+w.asked.String()+`"`+limit+`}}`)
				}
				if ran, spent := w.counted(book); ran != tt.ran || spent != bookFee+money.Amount(tt.ran)*shopPrice {
					t.Errorf("the shop ran %d times, and %s were spent, want %d", ran, spent, tt.ran)
				}
				if tt.ran == 0 {
					return
				}
				w.failing.Store(true)
				again := int64(1)
				if tt.key+tt.request == 0 {
					again = 2
				}
				bookings := w.Server.OpenBookings(idle{}, nil)
				if ran, _ := w.counted(func() {
					book()
					w.Clock.Advance(2 * time.Minute)
					_, err := bookings.Sweep(t.Context())
					w.Must(err)
				}); ran != again {
					t.Errorf("with a second dispatch the shop ran %d times, want %d", ran, again)
				}
			})
		})
	}
}

// idle is a queue whose messages wait for reminders.
type idle struct{}

func (idle) Send(context.Context, string, task.Sender) (func(context.Context, bool), error) {
	return func(context.Context, bool) {}, nil
}

// entries are the methods of call.Host that begin or run a call.
var entries = []string{"Send", "SendWith", "AcceptForRun", "AcceptForResume", "Resume"}

// Every function that enters the pipeline belongs to a way of the table.
func TestEveryWayToRunHasItsRow(t *testing.T) {
	var listed []string
	for _, way := range ways {
		listed = append(listed, way.code...)
	}
	var found []string
	root := filepath.Join("..", "..")
	for _, top := range []string{"shared", "functions", "cmd"} {
		w := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			dir, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil || dir == "shared/host/call" || strings.HasSuffix(dir, "test") { // the pipeline itself, and harnesses
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			for _, decl := range f.Decls {
				fn, ok := decl.(*ast.FuncDecl)
				if !ok {
					continue
				}
				ast.Inspect(fn, func(n ast.Node) bool {
					c, ok := n.(*ast.CallExpr)
					if !ok {
						return true
					}
					s, ok := c.Fun.(*ast.SelectorExpr)
					if ok && slices.Contains(entries, s.Sel.Name) && isPipeline(s.X) {
						found = append(found, filepath.ToSlash(dir)+" "+fn.Name.Name)
					}
					return true
				})
			}
			return nil
		})
		if w != nil {
			t.Fatal(w)
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	slices.Sort(listed)
	if !slices.Equal(found, listed) {
		t.Errorf("the pipeline is entered by\n  %s\nthe table lists\n  %s", strings.Join(found, "\n  "), strings.Join(listed, "\n  "))
	}
}

// isPipeline reports whether an expression names a call.Host, as this project names one.
func isPipeline(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.SelectorExpr:
		return slices.Contains([]string{"Calls", "calls", "Host"}, x.Sel.Name)
	case *ast.Ident:
		return x.Name == "calls"
	}
	return false
}
