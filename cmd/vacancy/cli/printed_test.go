package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
)

// A result that prints a command takes it from kit, because "vacancy" need not be in PATH.
// Help texts name the program and are not typed as they are.
func TestResultsPrintCommandsAsTheProgramIsStarted(t *testing.T) {
	var names []string
	for _, c := range rootCommand(&kit.App{}).Commands() {
		names = append(names, c.Name())
	}
	command := regexp.MustCompile("(^|[\\s\"'`(])vacancy (" + strings.Join(names, "|") + `)\b`)
	files, err := filepath.Glob("*/*.go")
	if err != nil || len(files) < 50 {
		t.Fatalf("found %d files, %v", len(files), err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if f, ok := call.Fun.(*ast.SelectorExpr); !ok || !strings.HasPrefix(f.Sel.Name, "Fprint") {
				return true
			}
			for _, arg := range call.Args {
				if text, ok := arg.(*ast.BasicLit); ok && text.Kind == token.STRING {
					if s, _ := strconv.Unquote(text.Value); command.MatchString(s) {
						t.Errorf("%s prints %q; use App.Command", set.Position(text.Pos()), s)
					}
				}
			}
			return true
		})
	}
}
