// Package lint checks the golden templates and policies with linters of others.
package lint

import (
	"bytes"
	"embed"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/infra/policies"
	"github.com/vacancy-host/vacancy/tests/installed"
)

//go:embed testdata
var files embed.FS

// regions are those that every account has from the start, except ap-northeast-3, which has no budgets. A default run
// checks the first three: the oldest, a common one, and the dearest.
var regions = []string{
	"us-east-1", "eu-central-1", "sa-east-1",
	"us-east-2", "us-west-1", "us-west-2", "ca-central-1", "eu-north-1", "eu-west-1", "eu-west-2", "eu-west-3",
	"ap-northeast-1", "ap-northeast-2", "ap-south-1", "ap-southeast-1", "ap-southeast-2",
}

func TestCfnLintFindsNothingInTheTemplates(t *testing.T) {
	templates, err := filepath.Glob(filepath.Join("..", "testdata", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	in := regions
	if testing.Short() {
		in = regions[:3]
	}
	// W3005: the CDK writes dependencies that references already imply.
	args := append(append([]string{"-c", "from cfnlint.runner import main; main()", "--format", "parseable", "--ignore-checks", "W3005", "--regions"}, in...), "--")
	for _, path := range templates {
		if !strings.HasSuffix(path, ".asl.json") { // a state machine
			args = append(args, path)
		}
	}
	linter := filepath.Join(installed.Python(t, files, "lint"), "env", "bin", "python")
	out, err := exec.CommandContext(t.Context(), linter, args...).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		// The registry of cfn-lint lacks budgets here. A stage with a mail address has one.
		if !strings.Contains(line, "'AWS::Budgets::Budget' does not exist in 'eu-north-1'") {
			t.Error(strings.TrimSpace(line))
		}
	}
	if err != nil && len(out) == 0 {
		t.Fatalf("%s %s: %v", linter, strings.Join(args, " "), err)
	}
}

func TestParliamentFindsNothingInThePolicies(t *testing.T) {
	at := policies.Location{Partition: "aws", Region: "eu-west-1", Account: "123456789012"}
	all := map[string]json.RawMessage{}
	for _, function := range policies.Functions() {
		doc, err := policies.Document(function)
		if err != nil {
			t.Fatal(err)
		}
		all[function] = json.RawMessage(at.ReplaceNames(string(doc)))
	}
	in, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	folder := installed.Python(t, files, "lint")
	cmd := exec.CommandContext(t.Context(), filepath.Join(folder, "env", "bin", "python"), filepath.Join(folder, "parliament_findings.py"))
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("parliament: %v\n%s", err, out)
	}
}
