package mcpserver_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vacancy-host/vacancy/shared/front/mcpserver/mcptool"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
)

// ask takes files where the agent does, and says in its schema which.
func TestAskTakesFilesOfAnAgentThatTakesThem(t *testing.T) {
	var w *world
	w = newWorld(t, func(c *serve.Config) {
		c.Substrates[substrate.KindOllama] = func(string) (substrate.Substrate, error) { return w, nil }
	})
	for name, input := range map[string][]string{"viewer": {"image/png", "text/csv"}, "mind": nil} {
		_, err := w.Vacants.Create(t.Context(), vacants.CreateSpec{Name: name, Capability: "Repeats", Agent: &definition.Agent{Provider: substrate.KindOllama, Model: "m", Input: input}})
		w.Must(err)
	}
	for name, takes := range map[string]bool{"viewer": true, "mind": false} {
		tools, err := w.connect("/v/"+name+"/mcp", "", nil).ListTools(t.Context(), nil)
		w.Must(err)
		for _, one := range tools.Tools {
			b, _ := json.Marshal(one.InputSchema)
			if has := strings.Contains(string(b), `"enum":["image/png","text/csv"]`); has != (takes && one.Name == "ask") || strings.Contains(string(b), `"files"`) != has {
				t.Errorf("%s of %s has the schema %s", one.Name, name, b)
			}
		}
	}
	file := func(media, data string) map[string]any {
		return map[string]any{"name": "a.png", "mime_type": media, "data": data}
	}
	png := base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\n"))
	ask := func(name string, files ...any) (text string, isError bool) {
		res, err := w.connect("/v/"+name+"/mcp", "", nil).CallTool(t.Context(), &sdk.CallToolParams{Name: "ask", Arguments: map[string]any{"message": "see", "files": files}})
		w.Must(err)
		return res.Content[0].(*sdk.TextContent).Text, res.IsError
	}
	text, isError := ask("viewer", file("image/png", png), file("text/csv", "YTti"))
	if isError || !strings.HasPrefix(text, `see [file "a.png", image/png, 8 bytes, sha256 `) || !strings.Contains(text, `text/csv, 3 bytes`) {
		t.Errorf("the answer is %q", text)
	}
	for _, tt := range []struct{ vacant, media, data, want string }{
		{"viewer", "image/gif", png, "files[0].mime_type: expected a type that this agent reads: text, image/png, text/csv, got \"image/gif\""},
		{"viewer", "IMAGE/PNG", png, "files[0].mime_type: expected a type that this agent reads: text, image/png, text/csv, got \"IMAGE/PNG\""},
		{"viewer", "image/png", "?", `files[0].data: expected base64, got "?"`},
		{"viewer", "image/png", base64.StdEncoding.EncodeToString(make([]byte, 256<<10)), "expected at most 262144 bytes of texts and files together"},
		{"mind", "image/png", png, "files"},
	} {
		if text, isError := ask(tt.vacant, file(tt.media, tt.data)); !isError || !strings.Contains(text, tt.want) {
			t.Errorf("%s of %s for %s: %q, want %q", tt.data[:1], tt.media, tt.vacant, text, tt.want)
		}
	}
	if n := fmt.Sprint(w.turns.Load()); n != "1" {
		t.Errorf("agents ran %s times", n)
	}
}

// A repeated question of an account gets its stored answer, although the agent no longer takes its file.
func TestARepeatedQuestionWithAFileRunsOnce(t *testing.T) {
	var w *world
	w = newWorld(t, func(c *serve.Config) {
		c.Substrates[substrate.KindOllama] = func(string) (substrate.Substrate, error) { return w, nil }
	})
	agent := definition.Agent{Provider: substrate.KindOllama, Model: "m", Input: []string{"image/png", "text/csv"}}
	r, err := w.Vacants.Create(t.Context(), vacants.CreateSpec{Name: "viewer", Capability: "Repeats", Agent: &agent})
	w.Must(err)
	key := "Authorization: Bearer " + w.key("acme", billing.KeyOptions{})
	ask := func(id string) called {
		return w.callMeta("/v/viewer/mcp", "ask", `{"message":"see","files":[{"name":"a.png","mime_type":"image/png","data":"AAAA"}]}`, fmt.Sprintf(`{%q:%q}`, mcptool.MetaIdempotencyKey, id), key)
	}
	first := ask("k1")
	agent.Input = []string{"text/csv"}
	_, err = w.Vacants.Update(t.Context(), r.ID, vacants.Changes{Agent: &agent})
	w.Must(err)
	if again := ask("k1"); first.Is || again.Is || again.Data["task"] == nil || again.Data["task"] != first.Data["task"] || w.turns.Load() != 1 {
		t.Errorf("the answers are %s and %s after %d turns", first.text(), again.text(), w.turns.Load())
	}
	if other := ask("k2"); !other.Is || !strings.Contains(other.text(), "files[0].mime_type: expected a type that this agent reads") || w.turns.Load() != 1 {
		t.Errorf("a new question with a file that the agent does not take: %s", other.text())
	}
}
