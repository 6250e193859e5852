package substratetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func refuse(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Amzn-ErrorType", "ValidationException")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func sendsMember(body []byte, member string) bool {
	return bytes.Contains(body, []byte(`"`+member+`":`))
}

func (w Wire) refusals(t *testing.T, serve func(testing.TB, http.HandlerFunc) substrate.Substrate) {
	everything := Question()
	everything.JSON, everything.MustAnswer, everything.Effort = true, true, substrate.Low
	everything.Tools = []substrate.Tool{{Name: "look", Schema: json.RawMessage(`{"type":"object"}`)}}
	if len(w.Refusals) == 0 {
		t.Fatal("the provider has no optional member")
	}
	for member := range w.Refusals {
		if !slices.Contains(substrate.OptionalMembers(), member) {
			t.Errorf("%s is not an optional member", member)
		}
	}
	// open opens a model whose server answers unless judge returns a status. sent returns the
	// bodies since its last call.
	open := func(t *testing.T, judge func(body []byte) (status int, message string)) (s substrate.Substrate, sent func() [][]byte) {
		var bodies [][]byte
		s = serve(t, func(rw http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			bodies = append(bodies, body)
			if status, message := judge(body); status != 0 {
				refuse(rw, status, message)
				return
			}
			_, _ = io.WriteString(rw, w.Begin+w.Text("hm")+w.Ends(w.Stop))
		})
		return s, func() [][]byte {
			defer func() { bodies = nil }()
			return bodies
		}
	}
	// refuses returns a judge that rejects the first of members that a body contains.
	refuses := func(status int, members ...string) func([]byte) (int, string) {
		return func(body []byte) (int, string) {
			for _, member := range members {
				if sendsMember(body, member) {
					return status, w.Refusals[member]
				}
			}
			return 0, ""
		}
	}
	answered := func(t *testing.T, what string, s substrate.Substrate, r substrate.Request, sent func() [][]byte, want int) [][]byte {
		t.Helper()
		got, err := substrate.ReadAnswer(s.Infer(t.Context(), r))
		bodies := sent()
		if err != nil || got.Text != "hm" || len(bodies) != want {
			t.Errorf("%s: %q, %v after %d requests, want the answer after %d", what, got.Text, err, len(bodies), want)
		}
		return bodies
	}
	memberNames := slices.Sorted(maps.Keys(w.Refusals))
	for _, member := range memberNames {
		for _, status := range []int{http.StatusBadRequest, http.StatusUnprocessableEntity} {
			s, sent := open(t, refuses(status, member))
			bodies := answered(t, member, s, everything, sent, 2)
			for _, other := range memberNames {
				if last := bodies[len(bodies)-1]; sendsMember(last, other) != (other != member) {
					t.Errorf("%s is refused, and %s is sent again in %s", member, other, last)
				}
			}
			answered(t, member+", again", s, everything, sent, 1)
			stranger := everything
			stranger.Vacant = identity.ID{3}
			answered(t, member+", of another agent", s, stranger, sent, 2)
		}
		s, sent := open(t, refuses(http.StatusBadRequest, member))
		set := everything
		set.Omit = []string{member}
		answered(t, member+", by a setting", s, set, sent, 1)
	}
	t.Run("all members", func(t *testing.T) {
		s, sent := open(t, refuses(http.StatusBadRequest, memberNames...))
		answered(t, "all", s, everything, sent, len(memberNames)+1)
		last := answered(t, "all, again", s, everything, sent, 1)[0]
		for what, words := range map[string][2]string{"a document": {"response_format responseMimeType", "JSON document"}, "an answer": {"tool_choice", "Use no tool any more"}} {
			omitted := slices.ContainsFunc(strings.Fields(words[0]), func(member string) bool { return slices.Contains(memberNames, member) })
			if omitted && !bytes.Contains(last, []byte(words[1])) {
				t.Errorf("without the member that asks for %s, the model is not told: %s", what, last)
			}
		}
	})
	t.Run("other refusals", func(t *testing.T) {
		for what, tt := range map[string]struct {
			status int
			said   string
			want   problem.Kind
			n      int
		}{
			"no member":                   {400, `{"message":"the conversation is too long"}`, problem.SubstrateMisconfigured, 1},
			"nothing":                     {400, ``, problem.SubstrateMisconfigured, 1},
			"members, whatever is sent":   {400, `{"message":"` + strings.Join(memberNames, " ") + `"}`, problem.SubstrateMisconfigured, len(memberNames) + 1},
			"a member in an inner error":  {500, `{"message":"` + memberNames[0] + `"}`, problem.SubstrateUnavailable, 1},
			"a member in another refusal": {403, `{"message":"` + memberNames[0] + `"}`, problem.SubstrateMisconfigured, 1},
		} {
			s, sent := open(t, func([]byte) (int, string) { return tt.status, tt.said })
			_, err := substrate.ReadAnswer(s.Infer(t.Context(), everything))
			if n := len(sent()); !problem.Is(err, tt.want) || n != tt.n {
				t.Errorf("%s: %v after %d requests, want %s after %d", what, err, n, tt.want, tt.n)
			}
			if agent := new(call.AgentError); tt.said != "" && (!errors.As(err, &agent) || agent.Status != tt.status || agent.Body == "") {
				t.Errorf("%s: the operator sees %+v", what, agent)
			}
		}
	})
	t.Run("a refused tool", func(t *testing.T) {
		r := Question()
		for i := range 5 {
			r.Tools = append(r.Tools, substrate.Tool{Name: fmt.Sprintf("mcp__files__look_for_a_document_%d", i), Schema: json.RawMessage(`{"type":"object"}`)})
		}
		for message, want := range map[string]bool{
			"Invalid schema for function 'mcp__files__look_for_a_document_3': 'strng' is not valid": true,
			"tools.3.custom.input_schema: JSON schema is invalid":                                   true,
			"Invalid value at 'tools[0].function_declarations[3].parameters'":                       true,
			"The value at toolConfig.tools.3.toolSpec.inputSchema.json is invalid":                  true,
			"tools.99.custom.input_schema: JSON schema is invalid":                                  false,
			"Invalid schema for function 'mcp__files__look_for_a_document_33'":                      false,
			"the conversation is too long":                                                          false,
		} {
			body, _ := json.Marshal(map[string]string{"message": message})
			s, _ := open(t, func([]byte) (int, string) { return http.StatusBadRequest, string(body) })
			_, err := substrate.ReadAnswer(s.Infer(t.Context(), r))
			if cause := call.CauseOf(err, 0); strings.Contains(cause.Text, "names the tool mcp__files__look_for_a_document_3:") != want || cause.Status != http.StatusBadRequest {
				t.Errorf("%q: the log says %q, want the tool: %t", message, cause, want)
			}
		}
	})
	t.Run("a server that changes", func(t *testing.T) {
		judge := refuses(http.StatusBadRequest, memberNames[0])
		s, sent := open(t, func(body []byte) (int, string) { return judge(body) })
		answered(t, "before", s, everything, sent, 2)
		judge = func(body []byte) (int, string) {
			if !sendsMember(body, memberNames[0]) {
				return http.StatusBadRequest, `{"message":"something is missing"}`
			}
			return 0, ""
		}
		if _, err := substrate.ReadAnswer(s.Infer(t.Context(), everything)); !problem.Is(err, problem.SubstrateMisconfigured) || len(sent()) != 1 {
			t.Errorf("Infer() = %v, want the refusal", err)
		}
		answered(t, "after", s, everything, sent, 1)
	})
	t.Run("no time is left", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s, sent := open(t, func(body []byte) (int, string) {
			cancel()
			return refuses(http.StatusBadRequest, memberNames[0])(body)
		})
		if _, err := substrate.ReadAnswer(s.Infer(ctx, everything)); !problem.Is(err, problem.Canceled) || len(sent()) != 1 {
			t.Errorf("Infer() of an ended context = %v, want Canceled after one request", err)
		}
	})
}
