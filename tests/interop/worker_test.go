package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/tests/installed"
)

// scriptedGemini serves Gemini's API with a model that does what the caller's last words say: it writes a file, waits,
// or greets. After a tool it repeats what the tool said.
func scriptedGemini(t *testing.T) (url string, waiting chan struct{}) {
	t.Helper()
	waiting = make(chan struct{}, 8)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Contents []struct {
				Parts []struct {
					Text             string
					FunctionResponse *struct{ Response json.RawMessage }
				}
			}
		}
		_ = json.NewDecoder(r.Body).Decode(&q) // Gemini CLI sends JSON
		text, tool := "", ""
		if n := len(q.Contents); n > 0 {
			for _, p := range q.Contents[n-1].Parts {
				text += p.Text + "\n"
				if p.FunctionResponse != nil {
					tool = string(p.FunctionResponse.Response)
				}
			}
		}
		part := map[string]any{"text": "hello from the model"}
		_, path, writes := strings.Cut(text, "write ")
		switch {
		case tool != "":
			part = map[string]any{"text": "the tool said " + tool}
		case writes:
			part = map[string]any{"functionCall": map[string]any{"name": "write_file", "args": map[string]any{"file_path": strings.Fields(path)[0], "content": "by the model"}}}
		case strings.Contains(text, "wait"):
			waiting <- struct{}{}
			<-r.Context().Done()
			return
		}
		b, _ := json.Marshal(map[string]any{
			"candidates":    []any{map[string]any{"content": map[string]any{"role": "model", "parts": []any{part}}, "finishReason": "STOP"}},
			"usageMetadata": map[string]any{"promptTokenCount": 7, "candidatesTokenCount": 5, "totalTokenCount": 12},
		})
		if strings.Contains(r.URL.Path, "stream") {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: %s\r\n\r\n", b)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(b)
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL, waiting
}

// Gemini CLI does the turns of a vacant: a text, a file that may be written, one that may not, and a cancellation.
func TestGeminiCLIIsAWorker(t *testing.T) {
	needsLocalHost(t)
	t.Parallel()
	gemini := filepath.Join(installed.Node(t, files, "nodegeminicli", "@google", "gemini-cli"), "node_modules", "@google", "gemini-cli", "bundle", "gemini.js")
	key, work := "", ""
	url := hostIn(t, filepath.Join(t.TempDir(), "host"), nil, func(host *standalone.Host) {
		a, _ := openAcme(t, host, money.Dollar)
		_, secret, err := host.Billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeCall, billing.ScopeAgents, billing.ScopeRead}})
		must(t, err)
		_, work, err = host.Billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeWork}})
		must(t, err)
		key = secret
		must(t, errorOf(host.Vacants.Create(t.Context(), vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "fox", Capability: "works", Substrate: "worker", Tenant: "acme"})))
	})
	model, waiting := scriptedGemini(t)
	home, root := t.TempDir(), t.TempDir()
	must(t, os.MkdirAll(filepath.Join(home, ".gemini"), 0o755))
	must(t, os.WriteFile(filepath.Join(home, ".gemini", "settings.json"), []byte(`{"security":{"auth":{"selectedType":"gemini-api-key"},"folderTrust":{"enabled":false}}}`), 0o600))
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), self, "worker", "fox", "--host", url, "--root", root, "--mode", "read-only", "--approval", "yolo",
		"--env", "HOME="+home, "--env", "GEMINI_API_KEY=k", "--env", "GOOGLE_GEMINI_BASE_URL="+model, "--", "node", gemini, "--acp", "--model", "gemini-2.5-flash")
	cmd.Env = append(os.Environ(), programVariable+"=1", "VACANCY_HOME="+filepath.Join(home, "vacancy"), "VACANCY_KEY="+work)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var problems bytes.Buffer
	cmd.Stderr, cmd.WaitDelay = &problems, 20*time.Second
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		t.Log(problems.String())
	})
	type task struct {
		TaskID, Status, Error string
		Result                struct{ Response string }
	}
	do := func(method, path, body string) (s task) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
		must(t, err)
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(r)
		must(t, err)
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		must(t, err)
		if err := json.Unmarshal(b, &s); err != nil || res.StatusCode > 299 {
			t.Fatalf("%s %s = %d %s", method, path, res.StatusCode, b)
		}
		return s
	}
	dispatch := func(text string) string {
		t.Helper()
		return do("POST", "/v1/tasks", fmt.Sprintf(`{"agent":"fox","task":%q}`, text)).TaskID
	}
	for text, want := range map[string]string{"say hello": "hello from the model", "write .vault/a.md": "the tool said ", "write src/b.md": "the tool said "} {
		id, s := dispatch(text), task{Status: "working"}
		for s.Status == "working" || s.Status == "pending" {
			s = do("GET", "/v1/tasks/"+id+"?wait=20", "")
		}
		t.Logf("%s: %s", text, s.Result.Response)
		if s.Status != "completed" || !strings.Contains(s.Result.Response, want) {
			t.Errorf("%s = %+v, want %q", text, s, want)
		}
	}
	if b, err := os.ReadFile(filepath.Join(root, ".vault", "a.md")); string(b) != "by the model" {
		t.Errorf("the file below .vault = %q, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(root, "src", "b.md")); err == nil {
		t.Error("a file outside of .vault was written")
	}
	id := dispatch("wait")
	<-waiting
	if s := do("POST", "/v1/tasks/"+id+"/cancel", ""); s.Status != "cancelled" {
		t.Errorf("cancel = %+v", s)
	}
	if logs, err := filepath.Glob(filepath.Join(root, ".vaultspec", "logs", "*.log")); err != nil || len(logs) == 0 {
		t.Errorf("the logs of the sessions = %q, %v", logs, err)
	}
}
