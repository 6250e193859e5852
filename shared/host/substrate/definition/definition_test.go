package definition_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const whole = `{"description":"Answers","provider":"openai","base_url":"http://127.0.0.1:8000/v1","model":"m","fallback_model":"n",` +
	`"system":"You\nare","max_tokens":9,"max_turns":2,"timeout":3,"effort":"low","output_format":"json","omit":["stream_options"],"memory":true,"input":["image/png"],"mode":"read-write",` +
	`"allowed_tools":["a"],"disallowed_tools":["b"],"vacants":["clerk"],"mcp_servers":[{"name":"files","url":"http://127.0.0.1:9/mcp"}],"allow":["openai"],"warnings":["w"]}`

func TestAnAgentHasOneForm(t *testing.T) {
	for _, in := range []string{whole, `{"model":"m"}`, `{"provider":"echo"}`, `{"provider":"mock","model":"x","effort":"high"}`, `{"provider":"http","base_url":"http://127.0.0.1:9/a?b#c"}`} {
		a, err := definition.Parse([]byte(in))
		if err != nil {
			t.Fatalf("Parse(%s) = %v", in, err)
		}
		if diff := cmp.Diff(in, string(a.Blob())); diff != "" {
			t.Errorf("Blob() (-want +got):\n%s", diff)
		}
	}
}

func TestWhatAnAgentMayNotSayIsNamed(t *testing.T) {
	for _, tt := range []struct {
		in, field string
		kind      problem.Kind
	}{
		{`[]`, "", problem.NotJSON},
		{`{"model":"m","modle":"n"}`, "modle", problem.Malformed},
		{`{"model":"m","model":"m"}`, "model", problem.Malformed},
		{`{}`, "model", problem.Malformed},
		{`{"provider":"ollama","model":"m","base_url":"http://x.example/v1"}`, "base_url", problem.Malformed},
		{`{"provider":"openai","model":"http://x.example/v1"}`, "model", problem.Malformed},
		{`{"provider":"anthropic","model":"m#n"}`, "model", problem.Malformed},
		{`{"provider":"anthropic","tier":"BEST"}`, "tier", problem.Malformed},
		{`{"provider":"anthropic","tier":"LOW","model":"m"}`, "tier", problem.Malformed},
		{`{"provider":"ollama","tier":"LOW"}`, "provider", problem.Malformed},
		{`{"tier":"LOW"}`, "provider", problem.Malformed},
		{`{"model":"claude-opus-4-6","price":{"input":-1,"output":1}}`, "price.input", problem.Malformed},
		{`{"model":"claude-opus-4-6","price":{"input":1,"output":1,"x":1}}`, "price.x", problem.Malformed},
		{`{"model":"claude-opus-4-6","price":{"input":1}}`, "price.output", problem.Malformed}, // not free
		{`{"model":"claude-opus-4-6","price":{}}`, "price.input", problem.Malformed},
		{`{"model":"claude-opus-4-6","price":{"input":1,"output":2000000000}}`, "price.output", problem.Malformed},
		{`{"provider":"echo","price":{"input":1,"output":1}}`, "price", problem.Malformed},
		{`{"model":"m","budget":5}`, "budget", problem.Malformed}, // ollama costs nothing
		{`{"model":"claude-opus-4-6","budget":-1}`, "budget", problem.Malformed},
		{`{"model":"claude-opus-4-6","daily_budget":1.5}`, "daily_budget", problem.Malformed},
		{`{"model":"m","secret":"key"}`, "secret", problem.Malformed}, // ollama takes none
		{`{"provider":"mcp","base_url":"http://x.example","model":"m","secret":"key"}`, "secret", problem.Malformed},
		{`{"provider":"openai","model":"m","secret":"a key"}`, "secret", problem.Malformed},
		{`{"provider":"openai","model":"m","secret":"sk/live"}`, "secret", problem.Malformed},
		{`{"model":"claude-opus-4-6","fallback_model":"gpt-5"}`, "fallback_model", problem.Malformed},
		{`{"model":"mistral-small-latest","effort":"low"}`, "effort", problem.Malformed},
		{`{"base_url":"http://x.example/v1"}`, "model", problem.Malformed},
		{`{"base_url":"http://x.example/v1#a","model":"m"}`, "base_url", problem.Malformed},
		{`{"provider":"echo","model":"m"}`, "model", problem.Malformed},
		{`{"provider":"echo","max_tokens":5}`, "max_tokens", problem.Malformed},
		{`{"provider":"http","base_url":"http://x.example","effort":"low"}`, "effort", problem.Malformed},
		{`{"provider":"http","base_url":"http://x.example","fallback_model":"m"}`, "fallback_model", problem.Malformed},
		{`{"model":"m","max_turns":0}`, "max_turns", problem.Malformed},
		{`{"model":"m","max_turns":65}`, "max_turns", problem.Malformed},
		{`{"model":"m","max_turns":"8"}`, "max_turns", problem.Malformed},
		{`{"model":"m","timeout":901}`, "timeout", problem.Malformed},
		{`{"model":"m","effort":"max"}`, "effort", problem.Malformed},
		{`{"model":"m","output_format":"xml"}`, "output_format", problem.Malformed},
		{`{"model":"m","mode":"yolo"}`, "mode", problem.Malformed},
		{`{"model":"m","omit":["stream_options","messages"]}`, "omit[1]", problem.Malformed},
		{`{"model":"m","omit":["stream_options","stream_options"]}`, "omit[1]", problem.Malformed},
		{`{"provider":"echo","omit":["stream_options"]}`, "omit", problem.Malformed},
		{`{"model":"m","memory":"on"}`, "memory", problem.Malformed},
		{`{"model":"m","vacants":["a","a"]}`, "vacants[1]", problem.Malformed},
		{`{"model":"m","vacants":[" "]}`, "vacants[0]", problem.Malformed},
		{`{"model":"m","system":"\u0000"}`, "system", problem.Malformed},
		{`{"model":"m","allow":["openai","ollama:n"]}`, "allow", problem.Malformed},
		{`{"model":"m","fallback_model":"n","allow":["ollama:m"]}`, "allow", problem.Malformed},
		{`{"provider":"echo","allow":["mock"]}`, "allow", problem.Malformed},
		{`{"model":"m","mcp_servers":[{"name":"a","url":"http://x.example"},{"name":"a","url":"http://y.example"}]}`, "mcp_servers[1].name", problem.Malformed},
		{`{"model":"m","mcp_servers":[{"name":"a b","url":"http://x.example"}]}`, "mcp_servers[0].name", problem.Malformed},
		{`{"model":"m","mcp_servers":[{"name":"a","url":"file:///etc"}]}`, "mcp_servers[0].url", problem.Malformed},
		{`{"model":"m","mcp_servers":[{"name":"a","url":"http://me:secret@x.example"}]}`, "mcp_servers[0].url", problem.Malformed},
		{`{"model":"m","mcp_servers":[{"name":"a","command":"sh"}]}`, "mcp_servers[0].command", problem.Malformed},
		{`{"model":"` + strings.Repeat("m", 2000) + `"}`, "model", problem.Malformed},
		{`{"model":"m","system":"` + strings.Repeat("x", definition.MaxBlobBytes) + `"}`, "agent", problem.TooLarge},
		// Small as it came, large in its own form.
		{`{"model":"m","system":"` + strings.Repeat("<", definition.MaxBlobBytes-100) + `"}`, "agent", problem.TooLarge},
	} {
		_, err := definition.Parse([]byte(tt.in))
		if p := problem.AsError(err); err == nil || p.Kind != tt.kind || tt.field != "" && p.Field != tt.field {
			t.Errorf("Parse(%.80s) = %v, want %s of %q", tt.in, err, tt.kind, tt.field)
		}
	}
}

func TestAnAgentNamesItsSubstrate(t *testing.T) {
	for in, want := range map[string][2]string{
		`{"model":"qwen3"}`: {"ollama:qwen3", ""},
		`{"base_url":"http://127.0.0.1:8000/v1","model":"qwen3","fallback_model":"q"}`: {"openai:http://127.0.0.1:8000/v1#qwen3", "openai:http://127.0.0.1:8000/v1#q"},
		`{"provider":"http","base_url":"https://a.example/x"}`:                         {"http:https://a.example/x", ""},
		`{"provider":"mock"}`: {"mock", ""},
		`{"provider":"mcp","base_url":"https://a.example/x","model":"answer"}`: {"mcp:https://a.example/x#answer", ""},
		`{"provider":"echo"}`: {"echo", ""},
		`{"model":"claude-opus-4-6","fallback_model":"claude-haiku-4-5"}`: {"anthropic:claude-opus-4-6", "anthropic:claude-haiku-4-5"},
		`{"model":"gemini-2.5-flash"}`:                                    {"gemini:gemini-2.5-flash", ""},
		`{"model":"gpt-5-mini"}`:                                          {"openai:gpt-5-mini", ""},
		`{"model":"o3"}`:                                                  {"openai:o3", ""},
		`{"model":"ministral-8b-2410"}`:                                   {"mistral:ministral-8b-2410", ""},
		`{"model":"gpt-oss"}`:                                             {"ollama:gpt-oss", ""},
		`{"model":"gpt-oss:20b"}`:                                         {"ollama:gpt-oss:20b", ""},
		`{"model":"mistral"}`:                                             {"ollama:mistral", ""},
		`{"model":"claude-like:7b"}`:                                      {"ollama:claude-like:7b", ""},
		`{"provider":"ollama","model":"o3"}`:                              {"ollama:o3", ""},
		`{"provider":"anthropic","base_url":"https://a.example/v1","model":"m"}`: {"anthropic:https://a.example/v1#m", ""},
	} {
		a, err := definition.Parse([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		spec, err := a.Spec()
		other, _ := a.Fallback()
		got := [2]string{spec.String(), ""}
		if other.Kind != "" {
			got[1] = other.String()
		}
		if got != want || err != nil {
			t.Errorf("%s: substrates %q, %v; want %q", in, got, err, want)
		}
		if of, ok := definition.DefaultAgent(spec); !ok {
			t.Errorf("Of(%s) is none", spec)
		} else if back, err := of.Spec(); err != nil || back != spec {
			t.Errorf("Of(%s) is of %s, %v", spec, back, err)
		}
	}
	if a, ok := definition.DefaultAgent(substrate.Spec{Kind: "openai", Argument: "http://x.example"}); ok {
		t.Errorf("Of(a server without a model) = %+v", a)
	}
}

func TestATiersModelIsChosenByATable(t *testing.T) {
	known := models.BuiltinTable()
	for in, want := range map[string]string{
		`{"provider":"anthropic","tier":"HIGH","max_tokens":5}`: `{"provider":"anthropic","model":"claude-opus-4-6","max_tokens":5}`,
		`{"provider":"mistral","tier":"LOW"}`:                   `{"provider":"mistral","model":"mistral-small-latest"}`,
		`{"model":"m"}`:                                         `{"model":"m"}`,
	} {
		a, err := definition.Parse([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		if err := a.ResolveTier(&known); err != nil || string(a.Blob()) != want {
			t.Errorf("Choose(%s) = %s, %v; want %s", in, a.Blob(), err, want)
		}
	}
	a, err := definition.Parse([]byte(`{"provider":"gemini","tier":"LOW"}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.ResolveTier(&models.Table{}); problem.AsError(err).Field != "tier" {
		t.Errorf("Choose() from an empty table = %v, want it refused", err)
	}
}

func TestAnAgentKnowsItsSecretAndWhereThatGoes(t *testing.T) {
	for in, want := range map[string]struct {
		secret string
		urls   []string
	}{
		`{"model":"claude-opus-4-6","fallback_model":"claude-haiku-4-5"}`: {"anthropic", []string{"https://api.anthropic.com/v1/messages"}},
		`{"model":"gemini-2.5-pro","fallback_model":"gemini-2.5-flash","secret":"mine","mcp_servers":[{"name":"a","url":"http://x.example"}]}`: {"mine", []string{
			"https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
			"https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"}},
		`{"provider":"openai","model":"gpt-5"}`: {"openai", []string{"https://api.openai.com/v1/chat/completions"}},
		// Many servers that speak as OpenAI's ask for no key.
		`{"base_url":"http://127.0.0.1:8000/v1","model":"m"}`:                   {"", []string{"http://127.0.0.1:8000/v1/chat/completions"}},
		`{"base_url":"https://a.example/v1","model":"m","secret":"k"}`:          {"k", []string{"https://a.example/v1/chat/completions"}},
		`{"provider":"http","base_url":"https://a.example/agent","secret":"k"}`: {"k", []string{"https://a.example/agent"}},
		`{"model":"qwen3"}`:   {"", []string{"http://127.0.0.1:11434/v1/chat/completions"}},
		`{"provider":"echo"}`: {"", nil},
	} {
		a, err := definition.Parse([]byte(in))
		if err != nil || a.SecretName() != want.secret || !slices.Equal(a.SecretEndpoints(), want.urls) {
			t.Errorf("%s: %v, the secret %q for %q; want %q for %q", in, err, a.SecretName(), a.SecretEndpoints(), want.secret, want.urls)
		}
	}
}

func TestSettingsSayWhatIsInForce(t *testing.T) {
	a, err := definition.Parse([]byte(`{"model":"m","max_turns":3,"omit":["response_format","stream_options"],"memory":true,"vacants":["` + strings.Repeat("ab", 32) + `"]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []definition.Setting{
		{Name: "provider", Value: "ollama", Origin: "default"}, {Name: "max_turns", Value: "3", Origin: "set"}, {Name: "timeout", Value: "the host's", Origin: "default"},
		{Name: "omit", Value: "response_format, stream_options", Origin: "set"},
		{Name: "memory", Value: "on", Origin: "set"}, {Name: "mode", Value: "read-only", Origin: "default"}, {Name: "vacants", Value: "abababababab", Origin: "set"},
	} {
		if !slices.Contains(a.Settings(""), want) {
			t.Errorf("Settings() = %v, want %v among them", a.Settings(""), want)
		}
	}
}

func TestSettingsOfAPaidModelSayWhatItMayCost(t *testing.T) {
	a, err := definition.Parse([]byte(`{"model":"claude-opus-4-6","budget":50000,"price":{"input":5000000,"output":25000000}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []definition.Setting{
		{Name: "max_tokens", Value: "8192", Origin: "default"}, {Name: "budget", Value: "$0.05", Origin: "set"}, {Name: "daily_budget", Value: "$1", Origin: "default"},
		{Name: "price", Value: "$5/$25/$5 per million tokens in/out/cached", Origin: "set"}, {Name: "secret", Value: "anthropic", Origin: "default"},
	} {
		if !slices.Contains(a.Settings(""), want) {
			t.Errorf("Settings() = %v, want %v among them", a.Settings(""), want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte(`{"provider":"mock","system":"<\u2028>"}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		a, err := definition.Parse(in)
		if err != nil {
			if k := problem.AsError(err).Kind; k != problem.Malformed && k != problem.NotJSON && k != problem.TooLarge {
				t.Errorf("Parse(%q) = %v of kind %s", in, err, k)
			}
			return
		}
		again, err := definition.Parse(a.Blob())
		if err != nil || !bytes.Equal(again.Blob(), a.Blob()) {
			t.Errorf("Parse(%q) = %s, which reads as %s, %v", in, a.Blob(), again.Blob(), err)
		}
	})
}
