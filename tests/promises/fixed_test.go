package promises

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// libraries are the modules that the product must use.
var libraries = []string{
	"github.com/aws/aws-lambda-go/", "github.com/aws/aws-sdk-go-v2/", "github.com/awslabs/aws-lambda-go-api-proxy/", "golang.org/x/crypto/", "github.com/aws/aws-cdk-go/",
}

// onStages are tests that must run against a deployed stage.
var onStages = []string{
	"TestOneOfThirtyTwoWritersTakesAPosition", "TestTheStateMachineDecidesAsEveryGateDoes", "TestCallsAreChargedAndRecountedOnTheStage", "TestCallsUnderLoadLeaveNoBreak", // runs verify on the stage
}

// topLevel lists the files and directories of the project besides dotfiles.
var topLevel = []string{"CHANGELOG.md", "LICENSE", "README.md", "cdk.json", "cmd", "events", "functions", "go.mod", "go.sum", "infra", "localstack", "shared", "tests"}

func TestTheProductUsesItsLibraries(t *testing.T) {
	used := map[string]bool{}
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "tests" || d.Name() == "cdk.out" || strings.HasPrefix(d.Name(), ".") && d.Name() != "..") {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, im := range f.Imports {
			for _, library := range libraries {
				if strings.HasPrefix(im.Path.Value, `"`+library) {
					used[library] = true
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, library := range libraries {
		if !used[library] {
			t.Errorf("no file of the product imports %s", library)
		}
	}
}

func TestTheTopLevelIsFixed(t *testing.T) {
	entries, err := os.ReadDir(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && e.Name() != "cdk.out" { // which git ignores
			got = append(got, e.Name())
		}
	}
	if !slices.Equal(got, topLevel) {
		t.Errorf("the top level has %q, want %q", got, topLevel)
	}
}

func TestStagesAreTestedOnLocalStack(t *testing.T) {
	for _, name := range onStages {
		if !has(t, "tests/integration", name) {
			t.Errorf("tests/integration has no %s", name)
		}
	}
}
