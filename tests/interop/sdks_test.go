package interop

import (
	"bytes"
	"embed"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/vacancy-host/vacancy/tests/installed"
)

//go:embed testdata
var files embed.FS

// runs runs a client and compares what it saw. more are results that only it has.
func runs(t *testing.T, more map[string]string, without []string, command ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	var errors bytes.Buffer
	cmd.Stderr = &errors
	cmd.Env = os.Environ()
	if *at != "" {
		cmd.Env = append(cmd.Env, "A2A_UNARY=1")
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", command, err, out, errors.Bytes())
	}
	var got map[string]string
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v printed %q: %v", command, out, err)
	}
	for k, v := range more {
		if got[k] != v {
			t.Errorf("%s: got %q, want %q", k, got[k], v)
		}
		delete(got, k)
	}
	check(t, got, without...)
}

// verified is the scenario of clients that verify the card of each vacant.
func verified() map[string]string {
	if *at != "" { // without the vacant viewer
		return map[string]string{"signatures": "4 keys verified"}
	}
	return map[string]string{"signatures": "5 keys verified"}
}

// each runs a client over each binding that it speaks.
func each(t *testing.T, command ...string) {
	for _, binding := range []string{"JSONRPC", "HTTP+JSON"} {
		t.Run(binding, func(t *testing.T) { runs(t, verified(), nil, append(command, host(t), binding)...) })
	}
}

func TestPythonOf1(t *testing.T) {
	dir := installed.Python(t, files, "python1")
	each(t, filepath.Join(dir, "env", "bin", "python"), filepath.Join(dir, "client.py"))
}

func TestPythonOf03(t *testing.T) {
	dir := installed.Python(t, files, "python03")
	runs(t, verified(), []string{"list", "waiting"}, filepath.Join(dir, "env", "bin", "python"), filepath.Join(dir, "client.py"), host(t))
}

func TestNodeOf1(t *testing.T) {
	dir := installed.Node(t, files, "node1", "@a2a-js", "sdk")
	each(t, "node", filepath.Join(dir, "client.mjs"))
}

func TestNodeOf03(t *testing.T) {
	dir := installed.Node(t, files, "node03", "@a2a-js", "sdk")
	runs(t, nil, []string{"list", "waiting"}, "node", filepath.Join(dir, "client.mjs"), host(t))
}
