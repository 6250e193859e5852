// Package layers checks the source code against shared/README §1: imports of packages, packages
// that open connections, and retired words.
package layers

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

const module = "github.com/vacancy-host/vacancy/"

// layer returns the layer of a package below shared/, from 1. It is 0 for the
// packages that every layer may import, and for packages outside shared/.
func layer(path string) int {
	rest, ok := strings.CutPrefix(path, module+"shared/")
	if !ok {
		return 0
	}
	name, _, _ := strings.Cut(rest, "/")
	return map[string]int{"vacant": 1, "trust": 2, "store": 3, "host": 4, "front": 5, "agent": 6}[name]
}

// common reports whether path is a package that every layer may import. Such a
// package imports no layer.
func common(path string) bool {
	return slices.Contains([]string{"problem", "obs", "durable", "retry", "ratelimit"}, strings.TrimPrefix(path, module+"shared/"))
}

// adapters are the only packages, with those below them, that may import the AWS
// SDK: the adapters, and the programs and tests that construct their clients.
var adapters = []string{
	"shared/store/dynamo", "shared/store/blob/s3", "shared/host/keys/custody/kms", "shared/host/queue/sqs", "shared/host/substrate/awsapi", "shared/host/substrate/bedrock", "shared/front/onlambda",
	"functions", "cmd/vacancy-aws", "cmd/vacancy/cloud/awscloud", "localstack", "tests",
}

func adapter(pkg string) bool {
	return slices.ContainsFunc(adapters, func(a string) bool {
		return pkg == module+a || strings.HasPrefix(pkg, module+a+"/")
	})
}

// infrastructure reports whether pkg is part of the CDK app.
func infrastructure(pkg string) bool {
	return pkg == module+"infra" || strings.HasPrefix(pkg, module+"infra/")
}

// cdk reports whether path is a package of the CDK. It takes minutes to build and
// a Node process to run, so only the CDK app may import it.
func cdk(path string) bool {
	return slices.ContainsFunc([]string{"aws/aws-cdk-go/", "aws/constructs-go/", "aws/jsii-runtime-go", "cdklabs/"}, func(p string) bool {
		return strings.HasPrefix(path, "github.com/"+p)
	})
}

type file struct {
	path    string // relative to the module's root
	src     []byte
	pkg     string
	test    bool
	imports []string
	doc     bool
}

// production reports whether f is neither a test nor in a package that only tests import.
func (f file) production() bool {
	return !f.test && !strings.HasPrefix(f.path, "tests/") && !strings.HasSuffix(filepath.Dir(f.path), "test")
}

var readSource = sync.OnceValues(func() (files []file, err error) {
	top := filepath.Join("..", "..")
	for _, dir := range []string{"cmd", "functions", "infra", "localstack", "shared", "tests"} {
		err := filepath.WalkDir(filepath.Join(top, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			src, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), path, src, parser.ImportsOnly|parser.ParseComments)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(top, path)
			if err != nil {
				return err
			}
			rel = filepath.ToSlash(rel)
			f := file{path: rel, src: src, pkg: module + filepath.ToSlash(filepath.Dir(rel)), test: strings.HasSuffix(rel, "_test.go"), doc: parsed.Doc != nil}
			for _, im := range parsed.Imports {
				name, err := strconv.Unquote(im.Path.Value)
				if err != nil {
					return err
				}
				f.imports = append(f.imports, name)
			}
			files = append(files, f)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
})

func source(t *testing.T) []file {
	t.Helper()
	files, err := readSource()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 50 {
		t.Fatalf("found %d files, want the whole project", len(files))
	}
	return files
}

// imports yields each import of each file.
func imports(t *testing.T) iter.Seq2[file, string] {
	return func(yield func(file, string) bool) {
		for _, f := range source(t) {
			for _, im := range f.imports {
				if !yield(f, im) {
					return
				}
			}
		}
	}
}

func TestAPackageImportsItsOwnLayerOrALowerOne(t *testing.T) {
	for f, im := range imports(t) {
		switch {
		case f.test: // a test may import a user of its package
		case layer(f.pkg) > 0 && layer(im) > layer(f.pkg):
			t.Errorf("%s (layer %d) imports %s (layer %d)", f.path, layer(f.pkg), im, layer(im))
		case common(f.pkg) && strings.HasPrefix(im, module) && !common(im):
			t.Errorf("%s imports %s, although every layer may import it", f.path, im)
		case strings.HasPrefix(f.pkg, module+"shared/") && strings.HasPrefix(im, module) && !strings.HasPrefix(im, module+"shared/"):
			t.Errorf("%s imports %s, and the core imports only the core", f.path, im)
		}
	}
}

func TestOnlyAdaptersImportTheAWSSDK(t *testing.T) {
	for f, im := range imports(t) {
		if strings.HasPrefix(im, "github.com/aws/") && !cdk(im) && !adapter(f.pkg) {
			t.Errorf("%s imports %s", f.path, im)
		}
	}
}

// dependencies are the packages that a package's program is made of.
func dependencies(t *testing.T, pkg string) map[string]bool {
	t.Helper()
	imports := map[string][]string{}
	for _, f := range source(t) {
		if !f.test {
			imports[f.pkg] = append(imports[f.pkg], f.imports...)
		}
	}
	seen := map[string]bool{}
	var visit func(pkg string)
	visit = func(pkg string) {
		for _, im := range imports[pkg] {
			if !seen[im] {
				seen[im] = true
				visit(im)
			}
		}
	}
	visit(pkg)
	if !seen[module+"shared/host/call"] {
		t.Errorf("%s does not import shared/host/call: nothing is proved", pkg)
	}
	return seen
}

// The AWS SDK is nearly half of the code to compile, and a newcomer's first
// command waits for the compiler.
func TestTheCommandIsCompiledWithoutTheAWSSDK(t *testing.T) {
	for im := range dependencies(t, module+"cmd/vacancy") {
		if strings.HasPrefix(im, "github.com/aws/") {
			t.Errorf("cmd/vacancy needs %s", im)
		}
	}
}

// Functions that answer the public, or whose keys open seeds, neither open agents'
// secrets nor contain what sends them.
func TestOnlyThinkContainsProviders(t *testing.T) {
	providers := regexp.MustCompile(`/substrate/(anthropic|bedrock|gemini|mcp|mock|openai)$|modelcontextprotocol|bedrockruntime`)
	for _, function := range []string{"message", "admin"} {
		for im := range dependencies(t, module+"functions/"+function) {
			if providers.MatchString(im) {
				t.Errorf("functions/%s needs %s", function, im)
			}
		}
	}
	for _, one := range []string{"anthropic", "bedrock", "gemini", "mcp", "openai"} {
		if !dependencies(t, module+"functions/think")[module+"shared/host/substrate/"+one] {
			t.Errorf("functions/think does not contain %s", one)
		}
	}
}

// Only gateway opens keys of payments, so no other function has a use for Stripe.
func TestOnlyGatewayContainsStripe(t *testing.T) {
	all, err := os.ReadDir(filepath.Join("..", "..", "functions"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if got := dependencies(t, module+"functions/"+f.Name())["github.com/stripe/stripe-go/v84"]; got != (f.Name() == "gateway") {
			t.Errorf("functions/%s contains Stripe's library: %t", f.Name(), got)
		}
	}
}

// engines are libraries that only one package imports, or two, so that programs without
// these packages do not contain them.
var engines = map[string]string{
	"github.com/blevesearch/bleve":     "shared/host/registry/search/bleve", // and bleve_index_api
	"github.com/blevesearch/scorch":    "shared/host/registry/search/bleve",
	"github.com/blevesearch/snowball":  "shared/host/registry/search",
	"github.com/RoaringBitmap/":        "shared/host/registry/search/bleve",
	"github.com/opensearch-project/":   "shared/host/registry/search/opensearch",
	"github.com/transparency-dev/":     "shared/host/registry/translog",
	"golang.org/x/mod/sumdb":           "shared/host/registry/translog",
	"go.yaml.in/":                      "cmd/vacancy/yamldoc",
	"github.com/modelcontextprotocol/": "shared/host/substrate/mcp shared/front/mcpserver", // a client, and servers
	"github.com/coder/acp-go-sdk":      "cmd/vacancy/acpbridge cmd/vacancy/acpclient",      // an agent, and a client
	"github.com/stripe/stripe-go/":     "shared/host/billing/stripe",
	"github.com/chromedp/":             "tests/web",

	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime": "shared/host/substrate/bedrock",
}

func TestOnlyTheCDKAppImportsTheCDK(t *testing.T) {
	withoutCDK := []string{module + "infra/bundle", module + "infra/policies"}
	for f, im := range imports(t) {
		if !infrastructure(f.pkg) && (cdk(im) || infrastructure(im) && !slices.Contains(withoutCDK, im)) {
			t.Errorf("%s imports %s", f.path, im)
		}
	}
}

func TestOnlyItsAdapterImportsAnEngine(t *testing.T) {
	for f, im := range imports(t) {
		for engine, homes := range engines {
			isHome := func(home string) bool { return f.pkg == module+home || strings.HasPrefix(f.pkg, module+home+"/") }
			if !f.test && !strings.HasPrefix(f.path, "tests/") && strings.HasPrefix(im, engine) && !slices.ContainsFunc(strings.Fields(homes), isHome) {
				t.Errorf("%s imports %s, which is for %s", f.path, im, homes)
			}
		}
	}
}

func TestFunctionsAreSmallAndImportNoFunction(t *testing.T) {
	for _, f := range source(t) {
		if !strings.HasPrefix(f.path, "functions/") {
			continue
		}
		for _, im := range f.imports {
			if strings.HasPrefix(im, module+"functions/") {
				t.Errorf("%s imports %s", f.path, im)
			}
		}
		if n := bytes.Count(f.src, []byte("\n")); !f.test && n > 60 {
			t.Errorf("%s has %d lines, want at most 60", f.path, n)
		}
	}
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	said := map[string]bool{}
	for _, f := range source(t) {
		if !f.test {
			said[f.pkg] = said[f.pkg] || f.doc
		}
	}
	for pkg, ok := range said {
		if !ok {
			t.Errorf("%s has no package comment", pkg)
		}
	}
}

// The handlers render errors with httpapi, so only programs and the assemblies
// of a host need the admin API, and the list of all operations.
func TestNoHandlerImportsTheAdminAPI(t *testing.T) {
	assemblies := []string{module + "shared/front/serve", module + "shared/front/standalone", module + "shared/front/onlambda", module + "shared/front/operations"}
	for f, im := range imports(t) {
		if im == module+"shared/front/admin" && !f.test && strings.HasPrefix(f.path, "shared/") && !slices.Contains(assemblies, f.pkg) {
			t.Errorf("%s imports the admin API", f.path)
		}
	}
}

// Protocols have what they share in front/plain, so that a protocol can be added and removed by itself.
func TestNoProtocolImportsAnother(t *testing.T) {
	protocols := []string{"agp"}
	for f, im := range imports(t) {
		name, ok := strings.CutPrefix(im, module+"shared/front/")
		if ok && !f.test && f.pkg == module+"shared/front/handlers" && !slices.Contains([]string{"op", "openapi", "plain", "protocol", "serve"}, name) {
			protocols = append(protocols, name)
		}
	}
	if len(protocols) < 5 {
		t.Errorf("front/handlers imports the protocols %v, want at least four beside agp", protocols)
	}
	protocol := func(pkg string) string {
		name, _, _ := strings.Cut(strings.TrimPrefix(pkg, module+"shared/front/"), "/")
		if !slices.Contains(protocols, name) {
			return ""
		}
		return name
	}
	for f, im := range imports(t) {
		if from, to := protocol(f.pkg), protocol(im); !f.test && from != "" && to != "" && from != to {
			t.Errorf("%s imports %s", f.path, im)
		}
	}
}

// A caller gets its target; only discovery asks registries.
func TestTheCallersPackageKnowsNoRegistry(t *testing.T) {
	dispatch := module + "shared/host/client/dispatch"
	for f, im := range imports(t) {
		if !f.test && f.pkg == dispatch && (strings.Contains(im, "/registry") || strings.HasSuffix(im, "/discovery")) {
			t.Errorf("%s imports %s", f.path, im)
		}
	}
}

func TestTheFrontREADMEIsShort(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), "\n"); n > 139 {
		t.Errorf("README.md has %d lines, want at most 139", n)
	}
	for line := range strings.Lines(string(b)) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 110 {
			t.Errorf("README.md has a line of %d columns, want at most 110:\n%s", n, line)
		}
	}
}

// committers commit to the store without store.Updater: the call pipeline has its
// own two writes; callstats must not count twice after an unknown outcome; of
// two text keys of a day the first counts; notifier is a store itself.
var committers = []string{
	"shared/host/call/send.go", "shared/host/registry/callstats/callstats.go", "shared/host/keys/textkeys/daykey.go", "shared/front/serve/notifier.go",
}

var commit = regexp.MustCompile(`(\w+(?:\(\))?)\.Commit\(`)

func TestAHostCommitsByTheUpdater(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range source(t) {
		host := strings.HasPrefix(f.path, "shared/host/") || strings.HasPrefix(f.path, "shared/front/")
		if f.test || !host || strings.HasSuffix(filepath.Dir(f.path), "test") {
			continue
		}
		for _, m := range commit.FindAllStringSubmatch(string(f.src), -1) {
			seen[f.path] = true
			if m[1] != "updater()" && !slices.Contains(committers, f.path) {
				t.Errorf("%s commits by %s; store.Updater retries and settles unknown outcomes", f.path, m[1])
			}
		}
	}
	for _, path := range committers {
		if !seen[path] {
			t.Errorf("%s is excepted and commits nothing", path)
		}
	}
}
