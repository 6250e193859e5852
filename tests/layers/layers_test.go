// Package layers checks the server against its plan: who may import whom.
package layers

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/vacancy-host/vacancy/"

// floor of a package of shared/, from 1; 0 for the pipes that run through all
// floors, and for what is not of shared/.
func floor(path string) int {
	rest, ok := strings.CutPrefix(path, module+"shared/")
	if !ok {
		return 0
	}
	name, _, _ := strings.Cut(rest, "/")
	return map[string]int{"vacant": 1, "trust": 2, "store": 3, "host": 4, "front": 5}[name]
}

// pipes may be imported from anywhere, and import nothing of the floors.
func pipe(path string) bool {
	return slices.Contains([]string{"problem", "obs", "durable", "retry"}, strings.TrimPrefix(path, module+"shared/"))
}

// adapters are the only packages, with those below them, that may import the
// SDK of AWS: adapters, and what hands them their client.
var adapters = []string{
	"shared/store/dynamo", "shared/store/blob/s3", "shared/host/keys/custody/kms", "shared/front/onlambda",
	"functions", "cmd/vacancy/cloud", "localstack", "tests",
}

func adapter(pkg string) bool {
	return slices.ContainsFunc(adapters, func(a string) bool {
		return pkg == module+a || strings.HasPrefix(pkg, module+a+"/")
	})
}

// infrastructure reports whether pkg is of the CDK app.
func infrastructure(pkg string) bool {
	return pkg == module+"infra" || strings.HasPrefix(pkg, module+"infra/")
}

// cdk reports whether path is of the CDK, which takes minutes to build and a
// Node process to run: nothing that a host or its command needs may pull it in.
func cdk(path string) bool {
	return slices.ContainsFunc([]string{"aws/aws-cdk-go/", "aws/constructs-go/", "aws/jsii-runtime-go", "cdklabs/"}, func(p string) bool {
		return strings.HasPrefix(path, "github.com/"+p)
	})
}

type file struct {
	path    string // of the file, from the top
	pkg     string
	test    bool
	imports []string
	doc     bool
}

func source(t *testing.T) (files []file) {
	t.Helper()
	top := filepath.Join("..", "..")
	for _, dir := range []string{"cmd", "functions", "infra", "localstack", "shared", "tests"} {
		err := filepath.WalkDir(filepath.Join(top, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly|parser.ParseComments)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(top, path)
			if err != nil {
				return err
			}
			rel = filepath.ToSlash(rel)
			one := file{path: rel, pkg: module + filepath.ToSlash(filepath.Dir(rel)), test: strings.HasSuffix(rel, "_test.go"), doc: f.Doc != nil}
			for _, im := range f.Imports {
				name, err := strconv.Unquote(im.Path.Value)
				if err != nil {
					return err
				}
				one.imports = append(one.imports, name)
			}
			files = append(files, one)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(files) < 50 {
		t.Fatalf("found %d files, want the whole project", len(files))
	}
	return files
}

func TestAPackageImportsItsOwnFloorOrALowerOne(t *testing.T) {
	for _, f := range source(t) {
		if f.test {
			continue // a test may look up to see its package in use
		}
		for _, im := range f.imports {
			switch {
			case floor(f.pkg) > 0 && floor(im) > floor(f.pkg):
				t.Errorf("%s (floor %d) imports %s (floor %d)", f.path, floor(f.pkg), im, floor(im))
			case pipe(f.pkg) && strings.HasPrefix(im, module) && !pipe(im):
				t.Errorf("%s imports %s, and runs through all layers", f.path, im)
			case strings.HasPrefix(f.pkg, module+"shared/") && strings.HasPrefix(im, module) && !strings.HasPrefix(im, module+"shared/"):
				t.Errorf("%s imports %s, and the core imports only the core", f.path, im)
			}
		}
	}
}

func TestOnlyAdaptersImportTheSDKOfAWS(t *testing.T) {
	for _, f := range source(t) {
		for _, im := range f.imports {
			if strings.HasPrefix(im, "github.com/aws/") && !cdk(im) && !adapter(f.pkg) {
				t.Errorf("%s imports %s", f.path, im)
			}
		}
	}
}

// engines are libraries that are known to one package alone, so that what does
// without them does not carry them.
var engines = map[string]string{
	"github.com/blevesearch/":        "shared/host/registry/search/bleve",
	"github.com/RoaringBitmap/":      "shared/host/registry/search/bleve",
	"github.com/opensearch-project/": "shared/host/registry/search/opensearch",
	"github.com/transparency-dev/":   "shared/host/registry/translog",
	"golang.org/x/mod/sumdb":         "shared/host/registry/translog",
	"go.yaml.in/":                    "cmd/vacancy/cli",
}

func TestTheInfrastructureAndItsToolsStayApart(t *testing.T) {
	for _, f := range source(t) {
		for _, im := range f.imports {
			if infrastructure(f.pkg) {
				continue
			}
			if cdk(im) || infrastructure(im) {
				t.Errorf("%s imports %s", f.path, im)
			}
		}
	}
}

func TestEachEngineIsKnownToItsAdapterAlone(t *testing.T) {
	for _, f := range source(t) {
		for _, im := range f.imports {
			for engine, home := range engines {
				if strings.HasPrefix(im, engine) && f.pkg != module+home && !strings.HasPrefix(f.pkg, module+home+"/") {
					t.Errorf("%s imports %s, which is for %s", f.path, im, home)
				}
			}
		}
	}
}

func TestFunctionsImportNoFunctionAndHoldNoLogic(t *testing.T) {
	for _, f := range source(t) {
		if !strings.HasPrefix(f.path, "functions/") {
			continue
		}
		for _, im := range f.imports {
			if strings.HasPrefix(im, module+"functions/") {
				t.Errorf("%s imports %s", f.path, im)
			}
		}
		b, err := os.ReadFile(filepath.Join("..", "..", f.path))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(b), "\n"); !f.test && n > 60 {
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
