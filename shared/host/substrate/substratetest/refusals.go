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

func writeError(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Amzn-ErrorType", "ValidationException")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func hasMember(body []byte, member string) bool {
	return bytes.Contains(body, []byte(`"`+member+`":`))
}

func (w Wire) testRefusedMembers(t *testing.T, serve func(testing.TB, http.HandlerFunc) substrate.Substrate) {
	fullRequest := Question()
	fullRequest.JSON, fullRequest.MustAnswer, fullRequest.Effort = true, true, substrate.Low
	fullRequest.Tools = []substrate.Tool{{Name: "look", Schema: json.RawMessage(`{"type":"object"}`)}}
	if len(w.MemberRefusals) == 0 {
		t.Fatal("the provider has no optional member")
	}
	for member := range w.MemberRefusals {
		if !slices.Contains(substrate.OptionalMembers(), member) {
			t.Errorf("%s is not an optional member", member)
		}
	}
	// takeBodies returns and clears the bodies of the requests so far.
	serveModel := func(t *testing.T, judge func(body []byte) (status int, message string)) (s substrate.Substrate, takeBodies func() [][]byte) {
		var bodies [][]byte
		s = serve(t, func(rw http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			bodies = append(bodies, body)
			if status, message := judge(body); status != 0 {
				writeError(rw, status, message)
				return
			}
			_, _ = io.WriteString(rw, w.Begin+w.Text("hm")+w.End(w.Stop))
		})
		return s, func() [][]byte {
			defer func() { bodies = nil }()
			return bodies
		}
	}
	// rejectMembers returns a judge that rejects the first of members that a body contains.
	rejectMembers := func(status int, members ...string) func([]byte) (int, string) {
		return func(body []byte) (int, string) {
			for _, member := range members {
				if hasMember(body, member) {
					return status, w.MemberRefusals[member]
				}
			}
			return 0, ""
		}
	}
	wantAnswered := func(t *testing.T, name string, s substrate.Substrate, r substrate.Request, takeBodies func() [][]byte, want int) [][]byte {
		t.Helper()
		got, err := substrate.ReadAnswer(s.Infer(t.Context(), r))
		bodies := takeBodies()
		if err != nil || got.Text != "hm" || len(bodies) != want {
			t.Errorf("%s: %q, %v after %d requests, want the answer after %d", name, got.Text, err, len(bodies), want)
		}
		return bodies
	}
	memberNames := slices.Sorted(maps.Keys(w.MemberRefusals))
	for _, member := range memberNames {
		for _, status := range []int{http.StatusBadRequest, http.StatusUnprocessableEntity} {
			s, takeBodies := serveModel(t, rejectMembers(status, member))
			bodies := wantAnswered(t, member, s, fullRequest, takeBodies, 2)
			for _, other := range memberNames {
				if last := bodies[len(bodies)-1]; hasMember(last, other) != (other != member) {
					t.Errorf("%s is refused, and %s is sent again in %s", member, other, last)
				}
			}
			wantAnswered(t, member+", again", s, fullRequest, takeBodies, 1)
			otherAgent := fullRequest
			otherAgent.Vacant = identity.ID{3}
			wantAnswered(t, member+", of another agent", s, otherAgent, takeBodies, 2)
		}
		s, takeBodies := serveModel(t, rejectMembers(http.StatusBadRequest, member))
		configured := fullRequest
		configured.Omit = []string{member}
		wantAnswered(t, member+", by a setting", s, configured, takeBodies, 1)
	}
	t.Run("all members", func(t *testing.T) {
		s, takeBodies := serveModel(t, rejectMembers(http.StatusBadRequest, memberNames...))
		wantAnswered(t, "all", s, fullRequest, takeBodies, len(memberNames)+1)
		last := wantAnswered(t, "all, again", s, fullRequest, takeBodies, 1)[0]
		for name, words := range map[string][2]string{"a document": {"response_format responseMimeType", "JSON document"}, "an answer": {"tool_choice", "Use no tool any more"}} {
			omitted := slices.ContainsFunc(strings.Fields(words[0]), func(member string) bool { return slices.Contains(memberNames, member) })
			if omitted && !bytes.Contains(last, []byte(words[1])) {
				t.Errorf("without the member that asks for %s, the model is not told: %s", name, last)
			}
		}
	})
	t.Run("other refusals", func(t *testing.T) {
		for name, tt := range map[string]struct {
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
			s, takeBodies := serveModel(t, func([]byte) (int, string) { return tt.status, tt.said })
			_, err := substrate.ReadAnswer(s.Infer(t.Context(), fullRequest))
			if n := len(takeBodies()); !problem.Is(err, tt.want) || n != tt.n {
				t.Errorf("%s: %v after %d requests, want %s after %d", name, err, n, tt.want, tt.n)
			}
			if agentErr := new(call.AgentError); tt.said != "" && (!errors.As(err, &agentErr) || agentErr.Status != tt.status || agentErr.Body == "") {
				t.Errorf("%s: the operator sees %+v", name, agentErr)
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
			s, _ := serveModel(t, func([]byte) (int, string) { return http.StatusBadRequest, string(body) })
			_, err := substrate.ReadAnswer(s.Infer(t.Context(), r))
			if cause := call.NewCause(err, 0); strings.Contains(cause.Text, "names the tool mcp__files__look_for_a_document_3:") != want || cause.Status != http.StatusBadRequest {
				t.Errorf("%q: the log says %q, want the tool: %t", message, cause, want)
			}
		}
	})
	t.Run("a server that changes", func(t *testing.T) {
		judge := rejectMembers(http.StatusBadRequest, memberNames[0])
		s, takeBodies := serveModel(t, func(body []byte) (int, string) { return judge(body) })
		wantAnswered(t, "before", s, fullRequest, takeBodies, 2)
		judge = func(body []byte) (int, string) {
			if !hasMember(body, memberNames[0]) {
				return http.StatusBadRequest, `{"message":"something is missing"}`
			}
			return 0, ""
		}
		if _, err := substrate.ReadAnswer(s.Infer(t.Context(), fullRequest)); !problem.Is(err, problem.SubstrateMisconfigured) || len(takeBodies()) != 1 {
			t.Errorf("Infer() = %v, want the refusal", err)
		}
		wantAnswered(t, "after", s, fullRequest, takeBodies, 1)
	})
	t.Run("no time is left", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s, takeBodies := serveModel(t, func(body []byte) (int, string) {
			cancel()
			return rejectMembers(http.StatusBadRequest, memberNames[0])(body)
		})
		if _, err := substrate.ReadAnswer(s.Infer(ctx, fullRequest)); !problem.Is(err, problem.Canceled) || len(takeBodies()) != 1 {
			t.Errorf("Infer() of an ended context = %v, want Canceled after one request", err)
		}
	})
}
