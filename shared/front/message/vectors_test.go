package message_test

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// reply is a JSON-RPC answer as the reference writes it.
type reply struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  struct {
		Message struct {
			Role      string           `json:"role"`
			Parts     []map[string]any `json:"parts"`
			ContextID *string          `json:"contextId"`
			MessageID *string          `json:"messageId"`
			SelfEval  map[string]any   `json:"selfEval"`
			Metadata  map[string]struct {
				From      string      `json:"from_vacant_id"`
				To        string      `json:"to_vacant_id"`
				Seq       json.Number `json:"sequence_no"`
				Timestamp string      `json:"timestamp"`
				Prev      string      `json:"prev_envelope_hash"`
				Key       string      `json:"idempotency_key"`
				Signature string      `json:"caller_signature"`
			} `json:"metadata"`
		} `json:"message"`
	} `json:"result"`
}

// checkReply compares our answer with the reference's. Key, time, prev and
// signature differ between hosts: ours must verify and name the request.
func checkReply(t *testing.T, got, want []byte, request identity.Hash, prev string) {
	t.Helper()
	var g, w reply
	for _, p := range []struct {
		b []byte
		v *reply
	}{{got, &g}, {want, &w}} {
		if err := json.Unmarshal(p.b, p.v); err != nil {
			t.Fatalf("answer %s: %v", p.b, err)
		}
	}
	e, err := envelope.DecodeResponse(got)
	if err != nil {
		t.Fatalf("DecodeResponse(%s) = %v", got, err)
	}
	if _, ok := e.Verify(); !ok {
		t.Errorf("answer %s does not verify", got)
	}
	if e.IdempotencyKey != envelope.ReplyKey(request) {
		t.Errorf("answer's key = %q, want it bound to request %s", e.IdempotencyKey, request)
	}
	if e.Prev.String() != prev {
		t.Errorf("answer's prev = %s, want %s", e.Prev, prev)
	}
	gm, wm := g.Result.Message.Metadata["urn:vacant:v1"], w.Result.Message.Metadata["urn:vacant:v1"]
	gm.Key, gm.Timestamp, gm.Prev, gm.Signature = wm.Key, wm.Timestamp, wm.Prev, wm.Signature
	g.Result.Message.Metadata["urn:vacant:v1"] = gm
	g.ID, w.ID = compact(t, g.ID), compact(t, w.ID) // ours is echoed byte for byte, white space too
	if d := cmp.Diff(w, g); d != "" {
		t.Errorf("answer differs from the reference's (-want +got):\n%s", d)
	}
}

func compact(t *testing.T, raw json.RawMessage) json.RawMessage {
	t.Helper()
	var b bytes.Buffer
	must(t, json.Compact(&b, raw))
	return b.Bytes()
}

// keyOrder lists the keys of a document in order.
func keyOrder(t *testing.T, b []byte) (keys []string) {
	t.Helper()
	d := canon.NewDecoder(b, canon.AnswerLimits())
	var walk func(string) error
	walk = func(at string) error {
		switch d.Kind() {
		case canon.Object:
			return d.Object(func(k string) error { keys = append(keys, at+k); return walk(at + k + ".") })
		case canon.Array:
			return d.Array(func(int) error { return walk(at) })
		}
		return d.Skip()
	}
	must(t, walk(""))
	return keys
}

func TestRequestsAreAnsweredAsTheReferenceAnswersOrStricter(t *testing.T) {
	var file struct {
		Cases []struct {
			Name  string
			Input struct {
				ServerSeed  string  `json:"server_seed"`
				ContentType string  `json:"content_type"`
				State       string  `json:"state"`
				Raw         *string `json:"raw"`
				RawHex      string  `json:"raw_hex"`
			}
			Expect struct {
				Status   int             `json:"status"`
				Strict   int             `json:"strict_status"`
				Body     json.RawMessage `json:"body"`
				Advanced bool            `json:"advanced"`
			}
		}
	}
	load(t, "requests.json", &file)
	now := time.Date(2026, 5, 6, 1, 0, 0, 0, time.UTC)
	accepted := []byte(*file.Cases[0].Input.Raw) // a message that fits an empty chain
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			h := newTestServer(t, now, unhex(t, c.Input.ServerSeed))
			h.states[h.sole()] = lifecycle.State(c.Input.State)
			body := []byte(nil)
			if c.Input.Raw != nil {
				body = []byte(*c.Input.Raw)
			} else {
				body = unhex(t, c.Input.RawHex)
			}
			// At the vacant's own path; the reference serves one vacant.
			res := h.post("/v/"+h.sole().String()+message.SendPath, c.Input.ContentType, body)
			got := bodyOf(t, res)
			want := c.Expect.Status
			if c.Expect.Strict != 0 {
				want = c.Expect.Strict
			}
			if strings.HasPrefix(c.Name, "content type") && want == 422 {
				want = 415 // the reference's code says 415, but its framework refuses earlier
			}
			if res.StatusCode != want {
				t.Fatalf("status = %d, want %d: %s", res.StatusCode, want, got)
			}
			if want == 200 {
				req, err := envelope.DecodeRequest(body)
				must(t, err)
				checkReply(t, got, c.Expect.Body, req.Envelope.Hash(), identity.Hash{}.String())
				if d := cmp.Diff(keyOrder(t, c.Expect.Body), keyOrder(t, got)); d != "" {
					t.Errorf("keys of the answer (-reference +ours):\n%s", d)
				}
				return
			}
			checkDetail(t, got, c.Expect.Body, c.Expect.Strict != 0)
			// The chain is unchanged: the next honest message is accepted.
			h.states[h.sole()] = lifecycle.Active
			if res := h.post(message.SendPath, "application/json", accepted); res.StatusCode != 200 {
				t.Errorf("the honest message afterwards: status %d, want 200", res.StatusCode)
			}
		})
	}
}

// missingKey is the only text of Python's that clients parse.
var missingKey = regexp.MustCompile(`^invalid metadata: '[a-z_]+'$`)

func checkDetail(t *testing.T, got, want []byte, strict bool) {
	t.Helper()
	var g, w struct{ Detail, Code string }
	if err := json.Unmarshal(got, &g); err != nil || g.Detail == "" || g.Code == "" {
		t.Fatalf("refusal %s: want an object with detail and code", got)
	}
	if strict || len(want) == 0 {
		return
	}
	must(t, json.Unmarshal(want, &w))
	if missingKey.MatchString(w.Detail) || !hasPrefix(w.Detail, "invalid metadata: ", "invalid selfEval: ", "There was an error parsing the body") {
		if g.Detail != w.Detail {
			t.Errorf("detail = %q, want %q", g.Detail, w.Detail)
		}
		return
	}
	prefix, _, _ := strings.Cut(w.Detail, ": ")
	if !strings.HasPrefix(g.Detail, prefix) {
		t.Errorf("detail = %q, want it to begin with %q", g.Detail, prefix)
	}
}

func TestChainsMoveAsTheReferencesMove(t *testing.T) {
	var file struct {
		Cases []struct {
			Name  string
			Input struct {
				ServerSeed string `json:"server_seed"`
			}
			Expect struct {
				Steps []struct {
					Kind    string
					Request json.RawMessage
					Status  int
					Body    json.RawMessage
					Tips    struct{ Request, Response tip }
				}
			}
		}
	}
	load(t, "chain.json", &file)
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			h := newTestServer(t, time.Date(2026, 5, 10, 0, 0, 0, 0, time.UTC), unhex(t, c.Input.ServerSeed))
			for i, s := range c.Expect.Steps {
				req, err := envelope.DecodeRequest(s.Request)
				must(t, err)
				_, before := h.tips(req.Envelope.From, h.sole())
				res := h.post(message.SendPath, "application/json", s.Request)
				got := bodyOf(t, res)
				if res.StatusCode != s.Status {
					t.Fatalf("step %d (%s): status = %d, want %d: %s", i, s.Kind, res.StatusCode, s.Status, got)
				}
				if s.Status == 200 {
					checkReply(t, got, s.Body, req.Envelope.Hash(), before.Hash)
				} else {
					checkDetail(t, got, s.Body, false)
				}
				request, response := h.tips(req.Envelope.From, h.sole())
				if d := cmp.Diff(s.Tips.Request, request); d != "" {
					t.Errorf("step %d (%s): request chain (-want +got):\n%s", i, s.Kind, d)
				}
				if response.Seq != s.Tips.Response.Seq {
					t.Errorf("step %d (%s): response seq = %d, want %d", i, s.Kind, response.Seq, s.Tips.Response.Seq)
				}
			}
		})
	}
}

func TestResetsAreAnsweredAsTheReferenceAnswersOrStricter(t *testing.T) {
	type step struct {
		Kind, Path string
		Request    json.RawMessage
		Status     int
		Strict     int `json:"strict_status"`
		Text       string
		Body       json.RawMessage
		Tips       *struct{ Request, Response tip }
		Steps      []step
	}
	var file struct {
		Cases []struct {
			Name  string
			Input struct {
				ServerSeed string `json:"server_seed"`
				Now        string
				Before     []json.RawMessage
				Request    json.RawMessage
			}
			Expect step
		}
	}
	load(t, "chain_reset.json", &file)
	for _, c := range file.Cases {
		now, err := canon.ParseTime(c.Input.Now)
		must(t, err)
		t.Run(c.Name, func(t *testing.T) {
			h := newTestServer(t, now, unhex(t, c.Input.ServerSeed))
			for _, raw := range c.Input.Before {
				if res := h.post(message.SendPath, "application/json", raw); res.StatusCode != 200 {
					t.Fatalf("call before: status %d: %s", res.StatusCode, bodyOf(t, res))
				}
			}
			steps := c.Expect.Steps
			if steps == nil {
				s := c.Expect
				s.Kind, s.Path, s.Request = "reset", message.ResetPath, c.Input.Request
				steps = []step{s}
			}
			for _, s := range steps {
				req, err := envelope.DecodeResetRequest(s.Request)
				want := s.Status
				if s.Strict != 0 {
					want = s.Strict
				}
				// The reference forgets what was signed before; we differ on
				// purpose: a reset must be signed later than everything in the
				// chain.
				belowFloor := s.Kind == "reset" && want == 200 && err == nil && !req.Envelope.Time.After(h.floor(req.Envelope.From))
				if belowFloor {
					want = 409
				}
				res := h.post(s.Path, "application/json", s.Request)
				got := bodyOf(t, res)
				if res.StatusCode != want {
					t.Fatalf("%s: status = %d, want %d: %s", s.Kind, res.StatusCode, want, got)
				}
				if s.Kind == "reset" && s.Strict == 0 && !belowFloor {
					checkReset(t, got, s.Body)
				}
				if s.Tips != nil && !belowFloor {
					request, response := h.tips(req.Envelope.From, h.sole())
					if request != s.Tips.Request && s.Strict == 0 && err == nil && req.Envelope.To == h.sole() {
						t.Errorf("request chain = %v, want %v", request, s.Tips.Request)
					}
					if response.Seq != s.Tips.Response.Seq && s.Strict == 0 && err == nil && req.Envelope.To == h.sole() {
						t.Errorf("response seq = %v, want %v", response.Seq, s.Tips.Response.Seq)
					}
				}
			}
			// Only the bound of the age, on an empty chain.
			if len(steps) == 1 && c.Expect.Strict == 0 {
				fresh := newTestServer(t, now, unhex(t, c.Input.ServerSeed))
				if res := fresh.post(message.ResetPath, "application/json", c.Input.Request); res.StatusCode != c.Expect.Status {
					t.Errorf("on a fresh chain: status = %d, want %d: %s", res.StatusCode, c.Expect.Status, bodyOf(t, res))
				}
			}
		})
	}
}

// floor is the latest signing time on a caller's chain.
func (h *testServer) floor(caller identity.ID) time.Time {
	h.t.Helper()
	row, err := h.store.Tip(context.Background(), call.Pair{Caller: caller, Vacant: h.sole()}.Requests())
	if err != nil || row.Position == 0 {
		return time.Time{}
	}
	req, err := call.DecodeRequest(row)
	if err != nil {
		h.t.Fatal(err)
	}
	return req.Floor
}

func checkReset(t *testing.T, got, want []byte) {
	t.Helper()
	var g, w map[string]any
	if err := json.Unmarshal(got, &g); err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	must(t, json.Unmarshal(want, &w))
	for k, v := range w {
		text, _ := v.(string)
		if k == "error" && strings.HasPrefix(text, "bad_envelope: ") && !strings.HasPrefix(text, "bad_envelope: missing field") {
			if s, _ := g[k].(string); !strings.HasPrefix(s, "bad_envelope: ") {
				t.Errorf("error = %q, want it to begin with bad_envelope", s)
			}
			continue
		}
		if g[k] != v {
			t.Errorf("%s = %v, want %v", k, g[k], v)
		}
	}
}
