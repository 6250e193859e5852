package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/scaffold"
	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/a2a"
	"github.com/vacancy-host/vacancy/tests/installed"
)

// The template of LangGraph passes its own test with the packages that it names, and the graph
// remembers the threads of a caller.
func TestTemplateOfLangGraph(t *testing.T) {
	if *at != "" {
		t.Skip("a host on Lambda does not reach this machine")
	}
	python := filepath.Join(installed.Python(t, files, "langgraph"), "env", "bin", "python")
	agent, err := scaffold.NewAgent("fox", "langgraph", "python", 0)
	must(t, err)
	dir := filepath.Join(t.TempDir(), "fox")
	must(t, agent.Write(dir))
	pinned, _ := files.ReadFile("testdata/langgraph/requirements.txt")
	named, err := os.ReadFile(filepath.Join(dir, "requirements.txt"))
	if err != nil || !slices.Contains(strings.Split(string(pinned), "\n"), strings.TrimSpace(string(named))) {
		t.Errorf("%v: the template names %q, which is not among the packages of this test", err, named)
	}
	run := func(ctx context.Context, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, python, args...)
		cmd.Dir = dir
		return cmd
	}
	if out, err := run(t.Context(), "-m", "unittest").CombinedOutput(); err != nil {
		t.Fatalf("its test: %v\n%s", err, out)
	}
	program := run(t.Context(), "agent.py")
	problems := new(await.Output)
	program.Stderr = problems
	lines, err := program.StdoutPipe()
	must(t, err)
	must(t, program.Start())
	t.Cleanup(func() {
		_ = program.Process.Kill()
		_ = program.Wait() // it was killed
	})
	line := await.ReadLine(t, "the agent", bufio.NewReader(lines), problems)
	url, ok := strings.CutPrefix(line, "listening at ")
	if !ok {
		t.Fatalf("the agent printed %q", line)
	}
	host := hostWith(t, map[string]string{"fox": url})
	ask := func(text, thread string) (answer, context string) {
		t.Helper()
		message := map[string]any{"messageId": text, "role": "ROLE_USER", "parts": []any{map[string]string{"text": text}}}
		if thread != "" {
			message["contextId"] = thread
		}
		body, _ := json.Marshal(map[string]any{"message": message}) // of texts: it cannot fail
		reply, err := http.Post(host+"/v/fox/message:send", "application/json", strings.NewReader(string(body)))
		must(t, err)
		defer reply.Body.Close()
		var sent a2a.Sent
		if err := json.NewDecoder(reply.Body).Decode(&sent); err != nil || sent.Task == nil || len(sent.Task.Artifacts) != 1 {
			t.Fatalf("%s: %+v, %v", reply.Status, sent, err)
		}
		for _, p := range sent.Task.Artifacts[0].Parts {
			answer += p.Text
		}
		return answer, sent.Task.Context
	}
	one, thread := ask("one", "")
	two, _ := ask("two", thread)
	if one != "You wrote: one" || two != "You wrote: two (and before: one)" {
		t.Errorf("answers %q and %q", one, two)
	}
}
