//go:build unix

package lambda

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/tamper"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/tests/awshost"
	"github.com/vacancy-host/vacancy/tests/caller"
	"github.com/vacancy-host/vacancy/tests/sqslocal"
	"github.com/vacancy-host/vacancy/tests/stripemock"
)

var update = flag.Bool("update", false, "write the sample events again")

// samplesDir holds the sample events, for people and for these tests.
var samplesDir = filepath.Join("..", "..", "events")

// signedAt is when the samples are signed: long ago, so that they are in no
// clock's future.
var signedAt = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// key is the key whose seed is n, 32 times.
func key(n byte) *identity.Key {
	k, err := identity.KeyFromSeed(bytes.Repeat([]byte{n}, identity.Size))
	if err != nil {
		panic(err) // 32 bytes are a seed
	}
	return k
}

// The samples' caller has the seed 01…01, their vacant 02…02.
var sampleCaller, sampleVacant = key(1), key(2)

// signedSamples are the envelopes in the samples.
func signedSamples() (first, second, reset *envelope.Envelope) {
	c := &caller.Caller{Key: sampleCaller, To: sampleVacant.ID()}
	first = c.Call("hello", signedAt)
	c.Accepted(first)
	second = c.Call("grüß dich", signedAt.Add(time.Second))
	return first, second, c.Reset(signedAt.Add(2 * time.Second))
}

// The samples' operator key is made of 32 bytes of 03; their edge's secret is
// public too.
const (
	sampleOperator = "vop_AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM"
	sampleEdge     = "sample-edge-secret-of-no-host-at-all-0123456789"
)

// keyed is a request with the samples' operator key, as the CLI sends it.
func keyed(method, path string, body []byte) Event {
	e := NewEvent(path, body)
	e.RequestContext.HTTP.Method = method
	e.Headers["authorization"] = "Bearer " + sampleOperator
	e.Headers["user-agent"] = "vacancy"
	return e
}

// signedEvents are the samples for functions/message. Ed25519 is deterministic,
// so they can be made again to the byte.
func signedEvents() map[string]any {
	first, second, reset := signedSamples()
	at := "/v/" + sampleVacant.ID().String()
	browser := NewEvent(at+caller.SendPath+"?trace=1&trace=2", caller.Body(second))
	browser.Cookies = []string{"session=abc", "theme=dark; Secure"}
	browser.Headers["accept"] = "application/json, text/plain;q=0.9, */*;q=0.1"
	browser.Headers["x-forwarded-for"] = "192.0.2.1, 198.51.100.7"
	forged := NewEvent(caller.SendPath, []byte(strings.Replace(string(caller.Body(first)), "hello", "hullo", 1)))
	text := NewEvent(caller.SendPath, []byte("hello"))
	text.Headers["content-type"] = "text/plain"
	edge := NewEvent(at+"/card", nil)
	edge.Headers["x-vacancy-edge"], edge.Headers["cloudfront-viewer-address"] = sampleEdge, "198.51.100.7:46532"
	edge.Headers["via"] = "2.0 0123456789abcdef.cloudfront.net (CloudFront)"
	return map[string]any{
		"message-edge.json":         edge,
		"message-send.json":         NewEvent(caller.SendPath, caller.Body(first)),
		"message-send-browser.json": browser.Base64(),
		"message-send-forged.json":  forged,
		"message-send-text.json":    text,
		"message-ask.json":          NewEvent(caller.AskPath, caller.Body(first)),
		"message-reset.json":        NewEvent(caller.ResetPath, caller.Body(reset)),
		"message-card.json":         NewEvent(at+"/card", nil),
		"message-health.json":       NewEvent("/health?vacant="+sampleVacant.ID().String(), nil),
		"message-admin.json":        NewEvent("/v1/admin/vacants", []byte(`{"name":"intruder"}`)),
		"message-wrong-path.json":   NewEvent("/a2a/message/sent", caller.Body(first)),
	}
}

// controlEvents are the samples for functions/admin and functions/export.
func controlEvents() map[string]any {
	bare, wrong := NewEvent("/v1/admin/vacants", nil), keyed("GET", "/v1/admin/vacants", nil)
	wrong.Headers["authorization"] = "Bearer vop_" + strings.Repeat("A", 43)
	browser := keyed("GET", "/v1/admin/vacants", nil)
	browser.Headers["origin"] = "https://example.org"
	unkeyed := NewEvent("/v1/admin/export", nil)
	return map[string]any{
		"admin-create.json":    keyed("POST", "/v1/admin/vacants", []byte(`{"name":"sample","capability":"echoes","substrate":"echo"}`)),
		"admin-list.json":      keyed("GET", "/v1/admin/vacants?limit=10", nil),
		"admin-show.json":      keyed("GET", "/v1/admin/vacants/sample", nil),
		"admin-pause.json":     keyed("POST", "/v1/admin/vacants/sample/pause", nil),
		"admin-host.json":      keyed("GET", "/v1/admin/host?challenge=0123456789abcdef", nil),
		"admin-url.json":       keyed("PUT", "/v1/admin/host", []byte(`{"url":"`+awshost.URL+`"}`)),
		"admin-no-key.json":    bare,
		"admin-wrong-key.json": wrong,
		"admin-browser.json":   browser,
		"export-about.json":    keyed("GET", "/v1/admin/export", nil),
		"export-streams.json":  keyed("GET", "/v1/admin/export/streams?limit=10", nil),
		"export-write.json":    keyed("POST", "/v1/admin/vacants", []byte(`{"name":"intruder","capability":"writes"}`)),
		"export-no-key.json":   unkeyed,
	}
}

// sampleHalo is the publication of the samples' vacant at a time, with its
// address at a host of tests.
func sampleHalo(at time.Time) registryclient.Publication {
	ctx, id := context.Background(), sampleVacant.ID()
	c, err := card.New(id, "echoes", []string{"echo"}, awshost.URL+"/v/"+id.String()+caller.SendPath)
	if err == nil {
		err = c.Sign(ctx, sampleVacant)
	}
	if err != nil {
		panic(err) // the same every time
	}
	family := "echo"
	draft := registryclient.Draft{
		Card: c, State: lifecycle.Active, Visibility: lifecycle.Public, Family: &family, DeclaredCapabilities: []string{"echo"},
	}
	halo, err := draft.Sign(ctx, sampleVacant, 1, "register:sample", at)
	if err != nil {
		panic(err)
	}
	return halo
}

// registryEvents are the samples for functions/registry and functions/search.
func registryEvents() map[string]any {
	encode := func(v any) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err) // texts and numbers
		}
		return b
	}
	id, halo := sampleVacant.ID().String(), sampleHalo(signedAt)
	forged := halo
	forged.ActorSeq++
	return map[string]any{
		"registry-halo.json":        NewEvent("/v1/halo", encode(halo)),
		"registry-forged.json":      NewEvent("/v1/halo", encode(forged)),
		"registry-card.json":        NewEvent("/v1/capability_card/"+id, nil),
		"registry-events.json":      NewEvent("/v1/event_log/"+id+"?limit=10", nil),
		"registry-revocations.json": NewEvent("/v1/revocation_list", nil),
		"registry-checkpoint.json":  NewEvent("/v1/checkpoint", nil),
		"registry-inclusion.json":   NewEvent("/v1/proof/inclusion?seq=1", nil),
		"registry-admin.json":       NewEvent("/v1/admin/vacants", []byte(`{"name":"intruder"}`)),
		"search-words.json":         NewEvent("/v1/search?q=echo&limit=5", nil),
		"search-reference.json":     NewEvent("/v1/search_capability?q=echo&limit=5&include_local=false", nil),
		"search-query.json":         NewEvent("/v1/query_capability?capability=echo&limit=5", []byte{}),
		"search-long.json":          NewEvent("/v1/search?q="+strings.Repeat("word+", 60), nil),
	}
}

// gateEvents are the samples for functions/graduate and for the steps of the
// gate: the samples' vacant is to graduate, as the child of their caller.
func gateEvents() map[string]any {
	ctx := context.Background()
	r := composite.GraduationRequest{ParentID: sampleCaller.ID(), ChildID: sampleVacant.ID(), CapabilityText: "echoes"}
	err := errors.Join(r.SignParent(ctx, sampleCaller), r.SignChild(ctx, sampleVacant))
	sub := graduation.Submission{Request: r}
	body, failed := sub.Blob()
	if err = errors.Join(err, failed); err != nil {
		panic(err) // the same every time
	}
	attempt := graduation.Attempt{ID: graduation.ID{Child: r.ChildID, Position: 1}, Submission: sub}
	state, all := attempt.InitialState(), map[string]any{}
	for _, s := range gate.Steps() {
		all[strings.ReplaceAll(string(s.Name), "_", "")+"-state.json"] = state
		state.Passed = append(slices.Clone(state.Passed), graduation.Verdict{Step: s.Name, PassedAt: signedAt.UnixMicro()})
	}
	forged := r
	forged.CapabilityText = "echoes everything"
	refused := graduation.NewRefusal(gate.StepConsent, forged.Verify())
	cause, err := json.Marshal(object{"errorType": refused.Error, "errorMessage": refused.Cause()})
	if err != nil {
		panic(err) // two texts
	}
	all["record-refusal.json"] = object{"state": attempt.InitialState(), "error": object{"Error": refused.Error, "Cause": string(cause)}}
	all["graduate-submit.json"] = NewEvent("/v1/graduations", body)
	all["graduate-forged.json"] = NewEvent("/v1/graduations", []byte(strings.Replace(string(body), "echoes", "echoed", 1)))
	all["graduate-status.json"] = NewEvent("/v1/graduations/"+attempt.ID.String(), nil)
	all["graduate-admin.json"] = NewEvent("/v1/admin/vacants", []byte(`{"name":"intruder"}`))
	return all
}

type object = map[string]any

// jobEvents are the samples for the functions that run in the background.
func jobEvents() map[string]any {
	pair := store.StreamOf(store.KindRequest, sampleCaller.ID(), sampleVacant.ID())
	record := func(name string, position string) object {
		keys := object{"pk": object{"B": base64.StdEncoding.EncodeToString([]byte(pair))}, "sk": object{"N": position}}
		return object{
			"eventID": "c4ca4238a0b923820dcc509a6f75849b", "eventName": name, "eventVersion": "1.1", "eventSource": "aws:dynamodb", "awsRegion": "us-east-1",
			"dynamodb": object{"ApproximateCreationDateTime": 1767225600, "Keys": keys, "SequenceNumber": "4421584500000000017450439091",
				"SizeBytes": 1024, "StreamViewType": "KEYS_ONLY"},
			"eventSourceARN": "arn:aws:dynamodb:us-east-1:123456789012:table/vacancy-dev-rows/stream/2026-01-01T00:00:00.000",
		}
	}
	odd := record("MODIFY", "1")
	odd["dynamodb"] = object{"Keys": object{"id": object{"S": "of another table"}}}
	removed := record("REMOVE", "2")
	removed["userIdentity"] = object{"type": "Service", "principalId": "dynamodb.amazonaws.com"}
	seen := record("INSERT", "1")
	seen["dynamodb"].(object)["Keys"] = object{"pk": object{"B": tamper.CanaryKey}, "sk": object{"N": "1"}}
	changed := record("MODIFY", "1")
	changed["dynamodb"].(object)["Keys"] = object{"pk": object{"S": "reg#" + sampleVacant.ID().String()}, "sk": object{"S": "card"}}
	changed["eventSourceARN"] = "arn:aws:dynamodb:us-east-1:123456789012:table/vacancy-dev-docs/stream/2026-01-01T00:00:00.000"
	all := map[string]any{
		"admin-canary.json":    object{"canary": true},
		"search-find.json":     object{"find": object{"Query": "echo", "Limit": 5}},
		"indexer-changed.json": object{"Records": []any{changed}},
		"indexer-reindex.json": object{"reindex": true},
		"tamper-changed.json":  object{"Records": []any{record("MODIFY", "1"), removed}},
		"tamper-canary.json":   object{"Records": []any{seen}},
		"tamper-odd.json":      object{"Records": []any{odd, record("INSERT", "3")}},
	}
	for _, f := range functions.All() {
		if f.IsScheduled() {
			all[f.Name+"-schedule.json"] = object{
				"version": "0", "id": "53dc4d37-cffa-4f76-80c9-8b7d4a4d2eaa", "detail-type": "Scheduled Event", "source": "aws.events",
				"account": "123456789012", "time": "2026-01-01T00:00:00Z", "region": "us-east-1",
				"resources": []string{"arn:aws:events:us-east-1:123456789012:rule/vacancy-dev-" + f.RuleName()}, "detail": object{},
			}
		}
	}
	return all
}

// thinkEvents are the samples for functions/think, as message sends them. They have no
// deadline, which would be over.
func thinkEvents() map[string]any {
	of := func(op string, more object) object {
		event := object{"op": op, "vacant": sampleVacant.ID().String(), "agent": 1}
		maps.Copy(event, more)
		return event
	}
	turns := []any{object{"role": "caller", "text": "hello"}}
	return map[string]any{
		"think-turn.json":  of("turn", object{"caller": sampleCaller.ID().String(), "turns": turns}),
		"think-tools.json": of("tools", nil),
		"think-use.json":   of("use", object{"name": "mcp__notes__look", "arguments": object{"for": "a"}}),
		"think-wrong.json": of("turn", object{"turns": turns, "url": "https://evil.example"}),
	}
}

// agentEvents are the samples for functions/agent and functions/worker.
func agentEvents() map[string]any {
	at := "/v/" + sampleVacant.ID().String()
	rpc := func(method string, params object, headers ...string) Event {
		b, err := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
		if err != nil {
			panic(err) // texts and numbers
		}
		e := NewEvent(at, b)
		for i := 0; i < len(headers); i += 2 {
			e.Headers[headers[i]] = headers[i+1]
		}
		return e
	}
	message := object{"messageId": "m-1", "role": "ROLE_USER", "parts": []any{object{"text": "hello"}}}
	message03 := object{"kind": "message", "messageId": "m-1", "role": "user", "parts": []any{object{"kind": "text", "text": "hello"}}}
	rest := NewEvent(at+"/message:send", []byte(`{"message":{"messageId":"m-2","role":"ROLE_USER","parts":[{"text":"hello"}]}}`))
	rest.Headers["content-type"], rest.Headers["a2a-version"] = "application/a2a+json", "1.0"
	keyed := rpc("SendMessage", object{"message": message}, "authorization", "Bearer of-nobody")
	first, _, _ := signedSamples()
	absent := task.Ref{Vacant: sampleVacant.ID(), Owner: call.GuestOwner, ID: "00000000000000000000000000000000"}
	queued := func(queue, body string) object {
		m := sqslocal.Message{ID: "059f36b4-87a3-44ab-83d2-661975830a7d", Body: body, Sent: time.UnixMilli(signedAt.UnixMilli()), Count: 1}
		return object{"Records": []any{sqslocal.Record(queue, m)}}
	}
	return map[string]any{
		"agent-card.json":        NewEvent(at, nil),
		"agent-well-known.json":  NewEvent("/.well-known/agent-card.json", nil),
		"agent-send.json":        rpc("SendMessage", object{"message": message}, "a2a-version", "1.0"),
		"agent-send-03.json":     rpc("message/send", object{"message": message03}),
		"agent-send-rest.json":   rest,
		"agent-send-signed.json": NewEvent(at+caller.SendPath, caller.Body(first)),
		"agent-background.json":  rpc("SendMessage", object{"message": message, "configuration": object{"returnImmediately": true}}),
		"agent-stream.json":      rpc("SendStreamingMessage", object{"message": message}),
		"agent-credentials.json": keyed,
		"agent-admin.json":       NewEvent("/v1/admin/vacants", []byte(`{"name":"intruder"}`)),
		"worker-turn.json":       queued("tasks", absent.Vacant.String()+"#"+absent.Owner.String()+"#"+absent.ID),
		"worker-notice.json":     queued("pushes", task.Notice{Task: absent, Slot: 1, MinEvents: 1}.String()),
		"worker-other.json":      queued("others", "hello"),
	}
}

// gatewayEvents are the samples for functions/gateway. Their key is nobody's.
func gatewayEvents() map[string]any {
	keyed := func(path, key string, body []byte) Event {
		e := NewEvent(path, body)
		e.Headers["authorization"] = "Bearer " + key
		return e
	}
	ping := []byte(`{"from":"sample:agent","intent":"network.ping","payload":{}}`)
	webhook := NewEvent("/v1/account/stripe", []byte(stripemock.Refunded("pi_1", 500)))
	webhook.Headers["stripe-signature"] = stripemock.Sign(webhook.Body, stripemock.Signing, signedAt)
	return map[string]any{
		"gateway-stripe.json":    webhook,
		"gateway-status.json":    NewEvent("/a2a/v1/status", nil),
		"gateway-ping.json":      keyed("/a2a/v1", "agnt_live_0000000000000000000000000000000000000000000", ping),
		"gateway-no-key.json":    NewEvent("/a2a/v1", ping),
		"gateway-account.json":   keyed("/v1/account", "vac_live_0000000000000000000000000000000000000000000", nil),
		"gateway-host.json":      NewEvent("/v1/account/host", nil),
		"gateway-admin.json":     NewEvent("/v1/admin/accounts", []byte(`{"tenant":"intruder"}`)),
		"gateway-elsewhere.json": NewEvent("/v1/halo", nil),
	}
}

// samples are the sample events by file name.
func samples() map[string]any {
	all := signedEvents()
	maps.Copy(all, controlEvents())
	maps.Copy(all, registryEvents())
	maps.Copy(all, gateEvents())
	maps.Copy(all, jobEvents())
	maps.Copy(all, thinkEvents())
	maps.Copy(all, agentEvents())
	maps.Copy(all, gatewayEvents())
	maps.Copy(all, map[string]any{
		"web-home.json": NewEvent("/web/", nil), "web-vacant.json": NewEvent("/web/vacants/"+sampleVacant.ID().String(), nil),
	})
	return all
}

// sample reads a sample event from the directory.
func sample(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(samplesDir, name))
	must(t, err)
	return b
}

func TestSampleEventsAreThoseOfTheFixedSeeds(t *testing.T) {
	want := samples()
	for name, event := range want {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		must(t, enc.Encode(event))
		if *update {
			must(t, os.WriteFile(filepath.Join(samplesDir, name), b.Bytes(), 0o644))
		}
		if diff := cmp.Diff(b.String(), string(sample(t, name))); diff != "" {
			t.Errorf("%s (-made +there); -update writes it:\n%s", name, diff)
		}
	}
	there, err := filepath.Glob(filepath.Join(samplesDir, "*.json"))
	if err != nil || len(there) != len(want) {
		t.Errorf("%d files in events, %v; want %d", len(there), err, len(want))
	}
}
