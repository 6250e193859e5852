package stacks_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/infra/settings"
	"github.com/vacancy-host/vacancy/infra/stacks"
)

var update = flag.Bool("update", false, "write the golden files again")

// The settings that the tests use, besides the defaults.
const (
	certificate = "arn:aws:acm:us-east-1:123456789012:certificate/0a1b2c3d-0000-0000-0000-000000000000"
	versionNow  = "0a1b2c3d-1111-1111-1111-111111111111"
	versionPast = "0a1b2c3d-2222-2222-2222-222222222222"
)

var (
	standard = map[string]any{}
	mailed   = map[string]any{"email": "ops@example.org"}
	full     = map[string]any{"email": "ops@example.org", "domain": "vacants.example.org", "certificate": certificate, "waf": true,
		"edgeSecretVersion": versionNow, "edgeSecretBefore": versionPast}
	bare = map[string]any{"edge": false, "keep": false, "hostKey": "software", "dashboard": false, "reserve": false}
)

// assembly is the output of a synthesis: files by name.
type assembly map[string][]byte

// synths caches the synthesized assemblies: each takes a second or two.
var synths = map[string]assembly{}

// synth synthesizes the app for a context, with cdk-nag's checks.
func synth(t *testing.T, context map[string]any) assembly {
	t.Helper()
	key := fmt.Sprint(context)
	if synths[key] == nil {
		synths[key] = freshly(t, context)
	}
	return synths[key]
}

func freshly(t *testing.T, context map[string]any) assembly {
	t.Helper()
	chosen, err := settings.Read(context, "us-east-1")
	if err != nil {
		t.Fatal(err)
	}
	zips, out := t.TempDir(), t.TempDir()
	app := stacks.NewApp(out)
	awscdk.Aspects_Of(app).Add(cdknag.NewAwsSolutionsChecks(&cdknag.NagPackProps{Reports: jsii.Bool(false), Verbose: jsii.Bool(true)}), nil)
	stacks.New(app, stacks.Input{Settings: chosen, Region: "us-east-1", Version: "v0.0.0-test", ZipPath: func(name string) string {
		path := filepath.Join(zips, name+".zip") // replaces the build, and differs by arch like a build
		if err := os.WriteFile(path, []byte(name+" for "+chosen.Arch), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}})
	app.Synth(nil)
	files := assembly{}
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(out, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// template is the decoded template of one stack.
type template struct {
	Resources map[string]resource
	Outputs   map[string]any
}

type resource struct {
	Type           string
	DeletionPolicy string
	Properties     map[string]any
}

// template reads the template of a stack of the stage dev.
func (a assembly) template(t *testing.T, stack string) template {
	t.Helper()
	var out template
	b, ok := a["vacancy-dev-"+stack+".template.json"]
	if !ok {
		t.Fatalf("there is no stack %s among %v", stack, a.stacks())
	}
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// stacks lists the names of the stacks.
func (a assembly) stacks() (names []string) {
	for name := range a {
		if stack, ok := strings.CutSuffix(name, ".template.json"); ok {
			names = append(names, stack)
		}
	}
	return names
}

// of lists a template's resources of a type.
func (t template) of(kind string) map[string]resource {
	found := maps.Clone(t.Resources)
	maps.DeleteFunc(found, func(_ string, r resource) bool { return r.Type != kind })
	return found
}

// at returns the value at a path of keys, or nil.
func at(v any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[step]
		case int:
			l, _ := v.([]any)
			if step >= len(l) {
				return nil
			}
			v = l[step]
		}
	}
	return v
}

// walk visits every string in a JSON value, with its key.
func walk(v any, key string, visit func(key, text string)) {
	switch v := v.(type) {
	case string:
		visit(key, v)
	case []any:
		for _, e := range v {
			walk(e, key, visit)
		}
	case map[string]any:
		for k, e := range v {
			walk(e, k, visit)
		}
	}
}

// pretty renders JSON for a person.
func pretty(t *testing.T, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// golden compares with a file, or writes it with -update.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got; go test ./infra/stacks -update writes it again):\n%s", path, diff)
	}
}

var asset = regexp.MustCompile(`[0-9a-f]{64}\.zip`)

// masked prepares a template for a golden file: without the digests of code,
// and without the check of the bootstrap's version, which is the same
// everywhere.
func (a assembly) masked(t *testing.T, stack string) []byte {
	t.Helper()
	var whole map[string]any
	if err := json.Unmarshal(asset.ReplaceAll(a["vacancy-dev-"+stack+".template.json"], []byte("ASSET.zip")), &whole); err != nil {
		t.Fatal(err)
	}
	delete(whole, "Parameters")
	delete(whole, "Rules")
	return pretty(t, whole)
}
