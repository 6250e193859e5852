package promises

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/handlers"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/anthropic"
	"github.com/vacancy-host/vacancy/shared/host/substrate/bedrock"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/gemini"
	"github.com/vacancy-host/vacancy/shared/host/substrate/openai"
	"github.com/vacancy-host/vacancy/shared/host/substrate/think"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/tests/memhost"
)

// wire writes the answers of a provider's server.
type wire struct {
	media string
	text  func(string) string
	call  func(name, arguments string) string
	// ends is the end of an answer, with a report of tokens unless reported is false.
	ends   func(why string, reported bool) string
	length string // reason of an answer that is cut off
	stop   string
	called string
}

// Tokens that each turn reports.
const (
	reportedIn  = 1000
	reportedOut = 400
)

func sse(name string, v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return "event: " + name + "\ndata: " + string(b) + "\n\n"
}

type object = map[string]any

func ifReported(reported bool, s string) string {
	if !reported {
		return ""
	}
	return s
}

var openaiWire = wire{
	media: "text/event-stream", stop: "stop", length: "length", called: "tool_calls",
	text: func(s string) string { return openaiChunk(object{"content": s}, nil) },
	call: func(name, arguments string) string {
		return openaiChunk(object{"tool_calls": []any{object{"index": 0, "id": "c1", "function": object{"name": name, "arguments": arguments}}}}, nil)
	},
	ends: func(why string, reported bool) string {
		usage := sse("message", object{"choices": []any{}, "usage": object{"prompt_tokens": reportedIn, "completion_tokens": reportedOut}})
		return openaiChunk(object{}, why) + ifReported(reported, usage) + "data: [DONE]\n\n"
	},
}

func openaiChunk(delta object, why any) string {
	return sse("message", object{"choices": []any{object{"index": 0, "delta": delta, "finish_reason": why}}})
}

var anthropicWire = wire{
	media: "text/event-stream", stop: "end_turn", length: "max_tokens", called: "tool_use",
	text: func(s string) string {
		return sse("content_block_delta", object{"type": "content_block_delta", "delta": object{"type": "text_delta", "text": s}})
	},
	call: func(name, arguments string) string {
		return sse("content_block_start", object{"type": "content_block_start", "content_block": object{"type": "tool_use", "id": "c1", "name": name}}) +
			sse("content_block_delta", object{"type": "content_block_delta", "delta": object{"type": "input_json_delta", "partial_json": arguments}})
	},
	ends: func(why string, reported bool) string {
		end := object{"type": "message_delta", "delta": object{"stop_reason": why}}
		if reported {
			end["usage"] = object{"input_tokens": reportedIn, "output_tokens": reportedOut}
		}
		return sse("message_delta", end) + sse("message_stop", object{"type": "message_stop"})
	},
}

var geminiWire = wire{
	media: "text/event-stream", stop: "STOP", length: "MAX_TOKENS", called: "STOP",
	text: func(s string) string {
		return geminiChunk(object{"content": object{"parts": []any{object{"text": s}}}})
	},
	call: func(name, arguments string) string {
		return geminiChunk(object{"content": object{"parts": []any{object{"functionCall": object{"name": name, "args": json.RawMessage(arguments)}}}}})
	},
	ends: func(why string, reported bool) string {
		usage := sse("message", object{"usageMetadata": object{"promptTokenCount": reportedIn, "candidatesTokenCount": reportedOut}})
		return geminiChunk(object{"finishReason": why}) + ifReported(reported, usage)
	},
}

func geminiChunk(candidate object) string {
	return sse("message", object{"candidates": []any{candidate}})
}

var bedrockWire = wire{
	media: "application/vnd.amazon.eventstream", stop: "end_turn", length: "max_tokens", called: "tool_use",
	text: func(s string) string {
		return frame("contentBlockDelta", object{"contentBlockIndex": 0, "delta": object{"text": s}})
	},
	call: func(name, arguments string) string {
		return frame("contentBlockStart", object{"contentBlockIndex": 1, "start": object{"toolUse": object{"toolUseId": "c1", "name": name}}}) +
			frame("contentBlockDelta", object{"contentBlockIndex": 1, "delta": object{"toolUse": object{"input": arguments}}})
	},
	ends: func(why string, reported bool) string {
		usage := frame("metadata", object{"usage": object{"inputTokens": reportedIn, "outputTokens": reportedOut, "totalTokens": reportedIn + reportedOut}, "metrics": object{"latencyMs": 1}})
		return frame("messageStop", object{"stopReason": why}) + ifReported(reported, usage)
	},
}

// frame is an event of Bedrock's stream.
func frame(name string, members object) string {
	payload, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	m := eventstream.Message{Payload: payload}
	m.Headers.Set(":message-type", eventstream.StringValue("event"))
	m.Headers.Set(":event-type", eventstream.StringValue(name))
	m.Headers.Set(":content-type", eventstream.StringValue("application/json"))
	var b bytes.Buffer
	if err := eventstream.NewEncoder().Encode(&b, m); err != nil {
		panic(err)
	}
	return b.String()
}

var agentWire = wire{
	media: "text/event-stream",
	text:  func(s string) string { return sse("delta", object{"text": s}) },
	ends: func(_ string, reported bool) string {
		return ifReported(reported, sse("usage", object{"input_tokens": reportedIn, "output_tokens": reportedOut})) + sse("done", object{})
	},
}

// reader reads the answers of a provider or of an agent.
type reader struct {
	wire
	open func(url string) (substrate.Substrate, error) // nil for an HTTP agent
	// elsewhere: another process asks the model and returns each turn in one piece, as on AWS.
	elsewhere bool
}

var readers = map[string]reader{
	"openai":     {wire: openaiWire, open: atServer(openai.Kinds, substrate.KindOpenAI, "m")},
	"mistral":    {wire: openaiWire, open: atServer(openai.Kinds, substrate.KindMistral, "m")},
	"anthropic":  {wire: anthropicWire, open: atServer(anthropic.Kinds, substrate.KindAnthropic, "m")},
	"gemini":     {wire: geminiWire, open: atServer(gemini.Kinds, substrate.KindGemini, "m")},
	"bedrock":    {wire: bedrockWire, open: atBedrock},
	"think":      {wire: openaiWire, open: atServer(openai.Kinds, substrate.KindOpenAI, "m"), elsewhere: true},
	"http agent": {wire: agentWire},
}

func anybody(context.Context, outbound.Actor, string) error { return nil }

func atServer(kinds func(*outbound.Client) substrate.Kinds, kind, model string) func(string) (substrate.Substrate, error) {
	return func(url string) (substrate.Substrate, error) {
		client := outbound.New(outbound.Options{AllowLoopback: true, Guard: anybody})
		return kinds(client).Open(substrate.Spec{Kind: kind, Argument: url + "#" + model})
	}
}

func atBedrock(url string) (substrate.Substrate, error) {
	cfg := aws.Config{Region: "eu-central-1", BaseEndpoint: &url, Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "secret"}, nil
	})}
	return bedrock.Kinds(outbound.New(outbound.Options{Guard: anybody}), cfg).Open(substrate.Spec{Kind: substrate.KindBedrock, Argument: "amazon.nova-lite-v1:0"})
}

// endings is a host with a vacant whose price is by tokens, and a caller of it with a key.
type endings struct {
	*memhost.Host
	reader reader
	url    string // of the model's server
	turns  [][]string
	paused chan bool // a turn has reached its pause
	goOn   chan bool // closed when the turn goes on
	goesOn func()    // closes goOn
	asked  atomic.Int64
	sent   []int // bytes of the texts that the model was sent, by turn

	tasks *task.Engine
	buyer billing.Account
	key   string
	ref   task.Ref
}

// pause is the event of a server that waits.
const pause = ""

const (
	question = "?"
	// questionSize is the size of the question in bytes.
	questionSize = 20_000
	firstText    = "Let me see. "
	secondText   = "It is forty-two."
	lookSchema   = `{"message":"look"}`
)

var byTokens = price.Price{Flat: 5000, InputPrice: 10 * money.Dollar, OutputPrice: 20 * money.Dollar, MaxCharge: money.Dollar}

// Infer implements substrate.Substrate: it asks the model's server.
func (w *endings) Infer(ctx context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	n := len(r.System)
	for _, t := range r.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	for _, t := range r.Turns {
		n += len(t.Text)
		for _, c := range t.Calls {
			n += len(c.ID) + len(c.Name) + len(c.Arguments)
		}
		for _, result := range t.Results {
			n += len(result.ID) + len(result.Text)
		}
	}
	w.sent = append(w.sent, n)
	r.Secret = substrate.NewSecret("secret-of-a-test-0123456789")
	model, err := w.reader.open(w.url)
	w.Must(err)
	return model.Infer(ctx, r)
}

// ServeHTTP plays the next turn.
func (w *endings) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	n := int(w.asked.Add(1))
	if n > len(w.turns) {
		w.Errorf("the model is asked %d times, want %d", n, len(w.turns))
		return
	}
	rw.Header().Set("Content-Type", w.reader.media)
	for _, event := range w.turns[n-1] {
		if event == pause {
			w.paused <- true
			select {
			case <-w.goOn:
			case <-r.Context().Done():
				return
			}
			continue
		}
		_, _ = io.WriteString(rw, event)
		_ = http.NewResponseController(rw).Flush()
	}
}

func openEndings(t testing.TB, of reader, turns [][]string) *endings {
	t.Helper()
	w := &endings{reader: of, turns: turns, paused: make(chan bool, 9), goOn: make(chan bool)}
	w.goesOn = sync.OnceFunc(func() { close(w.goOn) })
	model := httptest.NewServer(w)
	t.Cleanup(model.Close)
	w.url = model.URL
	w.Host = memhost.Open(t, func(c *serve.Config) {
		c.Now, c.AllowLoopback = time.Now, true
		c.Substrates = substrate.Kinds{substrate.KindMock: func(string) (substrate.Substrate, error) { return w, nil }}
		if !of.elsewhere {
			return
		}
		back, err := c.Open()
		if err != nil {
			t.Fatal(err)
		}
		c.ThinkService = think.NewClient(func(ctx context.Context, request []byte) ([]byte, error) {
			reply := think.Serve(ctx, back.Answers.ThinkService(), request, func(context.Context, think.Report) {})
			defer reply.Close()
			return io.ReadAll(reply)
		})
		c.ThinkerKinds = []string{substrate.KindMock}
	})
	agents := w.Server.OpenA2A()
	t.Cleanup(agents.Tasks.Wait)
	w.tasks = agents.Tasks
	w.Public = serve.Handlers{Message: w.Server.MessageHandler(), Plain: agents.Plain, Protocols: handlers.NewProtocols(agents)}.Public()

	ctx := t.Context()
	w.buyer = w.Account("buyer", 100*money.Dollar)
	w.key = w.Key(w.buyer, billing.KeyOptions{})
	look := w.Create(vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "look", Capability: "looks", Substrate: "echo"})
	agent := &definition.Agent{Provider: substrate.KindMock, Vacants: []string{look.ID.String()}}
	if of.open == nil {
		agent = &definition.Agent{Provider: substrate.KindHTTP, BaseURL: w.url}
	}
	shop := w.Create(vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "shop", Capability: "sells", Agent: agent})
	_, err := w.Server.Vacants.SetPrice(ctx, shop.ID, byTokens)
	w.Must(err)
	owner := call.AccountOwner(w.buyer.ID, "")
	w.ref = task.Ref{Vacant: shop.ID, Owner: owner, ID: task.MessageTaskID(shop.ID, owner, "m1")}
	return w
}

func (w *endings) post(ctx context.Context, path, body string) string {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v/"+w.ref.Vacant.String()+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("A2A-Version", "1.0")
	r.Header.Set("Authorization", "Bearer "+w.key)
	rec := httptest.NewRecorder()
	w.Public.ServeHTTP(rec, r)
	w.Logf("POST %s = %d %.2000s", path, rec.Code, rec.Body.String())
	return rec.Body.String()
}

func (w *endings) stream(ctx context.Context) string {
	return w.post(ctx, "/message:stream", `{"message":{"role":"ROLE_USER","messageId":"m1","parts":[{"text":"`+strings.Repeat(question, questionSize)+`"}]}}`)
}

// read waits until a text of the answer can be read.
func (w *endings) read(text string) {
	for {
		got, err := w.tasks.Get(w.Context(), w.ref)
		if err == nil && (text == "" || len(got.Artifacts) > 0 && got.Artifacts[0].Parts[0].Text == text) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// cancel cancels the task at the server's pause, once a text can be read.
func (w *endings) cancel(text string) {
	ended := make(chan bool)
	go func() { defer close(ended); w.stream(w.Context()) }()
	await.Receive(w, "the stream pauses", w.paused)
	w.read(text)
	w.post(w.Context(), "/tasks/"+w.ref.ID+":cancel", `{}`)
	await.Receive(w, "the stream ends", ended)
}

// hangUp ends the connection of a client of OpenAI's API at the server's pause. The turn goes on.
func (w *endings) hangUp(text string) {
	ctx, leave := context.WithCancel(w.Context())
	ended := make(chan bool)
	go func() {
		defer close(ended)
		w.post(ctx, "/v1/chat/completions", `{"stream":true,"messages":[{"role":"user","content":"`+strings.Repeat(question, questionSize)+`"}]}`)
	}()
	<-w.paused
	for w.ref.ID = ""; w.ref.ID == ""; time.Sleep(time.Millisecond) {
		w.Must(w.tasks.List(w.Context(), task.ListRequest{Ref: w.ref, ListOwner: w.ref.Owner, PageSize: 1}, func(p *task.Page) {
			for _, one := range p.Tasks {
				w.ref.ID = one.ID
			}
		}))
	}
	w.read(text)
	leave()
	w.goesOn()
	await.Receive(w, "the stream ends", ended)
}

// spent returns what the call has cost once its turn has ended.
func (w *endings) spent() money.Amount {
	w.goesOn()
	w.tasks.Wait()
	return 100*money.Dollar - w.Balance(w.buyer)
}

// turn is a turn of a model: a text, and then its end.
func (of *reader) turn(why string, reported bool) []string {
	return []string{of.text(firstText), of.ends(why, reported)}
}

// paused is a turn of a model that pauses after its text, before it reports.
func (of *reader) paused(text string) []string {
	return []string{of.text(text), pause, of.ends(of.stop, true)}
}

// ending is an end of an answer whose price is by tokens.
type ending struct {
	turns func(*reader) [][]string
	// ask asks. shown is the text that can be read at the pause.
	ask   func(w *endings, shown string)
	shown string
	// costs returns the tokens in and out that the call is charged for; free if they are
	// negative.
	costs   func(w *endings) (in, out int)
	cut     call.CutReason
	asModel bool // an HTTP agent has no such end
}

func estimated(bytes int) int { return int(call.EstimateTokens(bytes)) }

func (w *endings) reported() (in, out int) { return reportedIn, reportedOut }

// nothing are the tokens of a free call.
func (w *endings) nothing() (in, out int) { return -1, -1 }

// firstTurn estimates the tokens of a first turn without a report.
func (w *endings) firstTurn() (in, out int) {
	in = questionSize // an agent is charged for the request
	if w.reader.open != nil {
		in = w.sent[0]
	}
	return estimated(in), estimated(len(firstText))
}

// secondTurn is a first turn that was reported, and an estimate of the second turn.
func (w *endings) secondTurn() (in, out int) {
	shown := "\n\n" + secondText
	if w.reader.elsewhere {
		shown = ""
	}
	return reportedIn + estimated(w.sent[1]), reportedOut + estimated(len(shown))
}

func (w *endings) bothTurns() (in, out int) { return 2 * reportedIn, 2 * reportedOut }

func streamed(w *endings, _ string) { w.stream(w.Context()) }

func oneTurn(f func(*reader) []string) func(*reader) [][]string {
	return func(of *reader) [][]string { return [][]string{f(of)} }
}

// twoTurns are a turn that calls a tool and a turn that pauses after its text.
func twoTurns(of *reader) [][]string {
	return [][]string{
		{of.text(firstText), of.call("vacant__look", lookSchema), of.ends(of.called, true)},
		of.paused(secondText),
	}
}

var answerEndings = map[string]ending{
	"complete":             {turns: oneTurn(func(of *reader) []string { return of.turn(of.stop, true) }), ask: streamed, costs: (*endings).reported},
	"canceled":             {turns: oneTurn(func(of *reader) []string { return of.paused(firstText) }), ask: (*endings).cancel, shown: firstText, costs: (*endings).firstTurn, cut: call.CutCanceled},
	"hung up":              {turns: oneTurn(func(of *reader) []string { return of.paused(firstText) }), ask: (*endings).hangUp, shown: firstText, costs: (*endings).reported},
	"cut":                  {turns: oneTurn(func(of *reader) []string { return of.turn(of.length, true) }), ask: streamed, costs: (*endings).reported, cut: call.CutLength, asModel: true},
	"cut without report":   {turns: oneTurn(func(of *reader) []string { return of.turn(of.length, false) }), ask: streamed, costs: (*endings).firstTurn, cut: call.CutLength, asModel: true},
	"second turn canceled": {turns: twoTurns, ask: (*endings).cancel, shown: firstText + "\n\n" + secondText, costs: (*endings).secondTurn, cut: call.CutCanceled, asModel: true},
	"second turn hung up":  {turns: twoTurns, ask: (*endings).hangUp, shown: firstText + "\n\n" + secondText, costs: (*endings).bothTurns, asModel: true},
	// A call without a text in its last turn, or whose model broke off, is free.
	"nothing": {turns: oneTurn(func(of *reader) []string { return []string{of.ends(of.stop, true)} }), ask: streamed, costs: (*endings).nothing},
	"nothing after a tool": {turns: func(of *reader) [][]string {
		return [][]string{twoTurns(of)[0], {of.ends(of.stop, true)}}
	}, ask: streamed, costs: (*endings).nothing, asModel: true},
	"broken off":                  {turns: oneTurn(func(of *reader) []string { return of.turn("abort", true) }), ask: streamed, costs: (*endings).nothing, asModel: true},
	"ended for an unknown reason": {turns: oneTurn(func(of *reader) []string { return of.turn("eos", true) }), ask: streamed, costs: (*endings).reported, cut: call.CutUnknown, asModel: true},
}

// However an answer with a price by tokens ends, and whoever gives it, its caller pays for what
// was used: what was reported, and an estimate of what nobody reported if the answer ends early.
func TestEveryEndingIsChargedForWhatWasUsed(t *testing.T) {
	for name, of := range readers {
		for how, end := range answerEndings {
			if of.open == nil && end.asModel {
				continue
			}
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				w := openEndings(t, of, end.turns(&of))
				if of.elsewhere { // only whole turns arrive
					end.shown = strings.TrimSuffix(end.shown, secondText)
					if end.shown = strings.TrimSpace(end.shown); end.shown != "" && len(w.turns) > 1 {
						end.shown = firstText
					} else {
						end.shown = ""
					}
					if end.cut == call.CutCanceled && end.shown == "" {
						end.costs = (*endings).nothing
					}
				}
				end.ask(w, end.shown)
				spent := w.spent()
				var want money.Amount
				in, out := end.costs(w)
				if in >= 0 {
					want = byTokens.Charge(uint64(in), uint64(out))
				}
				if spent != want {
					t.Errorf("%s are paid, want %s for %d tokens in and %d out", spent, want, in, out)
				}
				got, err := w.tasks.Get(t.Context(), w.ref)
				w.Must(err)
				if want > 0 && got.Status.CutReason() != end.cut {
					t.Errorf("the task is %s, cut %q, want %q", got.Status.State, got.Status.CutReason(), end.cut)
				}
			})
		}
	}
}
