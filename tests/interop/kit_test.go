package interop

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/tests/installed"
)

// kitCommit is the commit of the compatibility kit of A2A 1.0, which has no releases.
const kitCommit = "357c4a87afa2818731590647cccbea31c31733a2"

// The agent under test passes A2A's compatibility kit. One requirement fails by the kit: it names the error
// that it wants only in words, and so takes the error for a failure.
func TestA2AKit(t *testing.T) {
	needsLocalHost(t)
	t.Parallel()
	python := filepath.Join("env", "bin", "python")
	dir := installed.In(t, files, "a2akit", filepath.Join("kit", "run_tck.py"), []string{"python3", "-m", "venv", "env"},
		[]string{python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "-r", "requirements.txt"},
		[]string{"git", "clone", "--quiet", "https://github.com/a2aproject/a2a-tck", "kit"}, []string{"git", "-C", "kit", "checkout", "--quiet", kitCommit})
	url := hostIn(t, filepath.Join(t.TempDir(), "host"), nil, func(h *standalone.Host) {
		r, err := h.Vacants.Create(t.Context(), vacants.CreateSpec{Name: "root", Capability: "is tested", Substrate: "conformance"})
		must(t, err)
		must(t, h.Vacants.SetRoot(t.Context(), &r.ID))
	})
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, python), "-m", "pytest", filepath.Join("tests", "compatibility"), "-q", "--tb=short", "-p", "no:cacheprovider",
		"--sut-host="+url, "--transport=jsonrpc,http_json", "--compatibility-report="+filepath.Join(t.TempDir(), "report"))
	cmd.Dir = filepath.Join(dir, "kit")
	out, _ := cmd.CombinedOutput() // it fails with a requirement that fails
	got := regexp.MustCompile(`(?m)^FAILED .*::(\S+)|^\d+ failed, \d+ passed, \d+ skipped`).FindAllString(string(out), -1)
	for i := range got {
		got[i] = got[i][strings.LastIndex(got[i], ":")+1:]
	}
	want := []string{"test_must_requirement[CORE-SEND-003-jsonrpc]", "test_must_requirement[CORE-SEND-003-http_json]", "2 failed, 175 passed, 88 skipped"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the kit (-want +got):\n%s\n%s", diff, out)
	}
}
