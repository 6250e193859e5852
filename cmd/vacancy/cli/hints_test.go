package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
)

// errorFunctions matches the functions whose first text is the text of an error.
var errorFunctions = regexp.MustCompile(`^(New|Wrap|Invalid|newStuck)$`)

// texts calls f with the first text of each call of a function in the program's Go files.
func texts(t *testing.T, f func(function, text, where string)) {
	t.Helper()
	set := token.NewFileSet()
	for _, dir := range []string{"..", "../../../shared"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				name := ""
				switch fun := call.Fun.(type) {
				case *ast.SelectorExpr:
					name = fun.Sel.Name
				case *ast.Ident:
					name = fun.Name
				}
				for _, arg := range call.Args {
					if lit, ok := arg.(*ast.BasicLit); ok && lit.Kind == token.STRING {
						text, _ := strconv.Unquote(lit.Value)
						f(name, text, set.Position(lit.Pos()).String())
						break
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A hint is a command that exists, with flags that it has.
func TestHintsNameCommandsAndFlagsThatExist(t *testing.T) {
	root := rootCommand(&kit.App{})
	suggested := regexp.MustCompile(`(?:^|[\s(=])vacancy ([a-z][^,:;<#()` + "`" + `]*)`)
	count := 0
	texts(t, func(function, text, where string) {
		if function != "WithHint" {
			return
		}
		for _, found := range suggested.FindAllStringSubmatch(text, -1) {
			words := strings.Fields(quoted.ReplaceAllString(found[1], "TEXT"))
			if strings.Contains(words[0], "%") {
				continue
			}
			cmd, rest, err := root.Find(words)
			if err != nil || !cmd.HasParent() && words[0] != "help" {
				t.Errorf("%s: %q names no command", where, text)
				continue
			}
			count++
			for _, word := range rest {
				name, isFlag := strings.CutPrefix(word, "--")
				name, _, _ = strings.Cut(name, "=")
				name, _, _ = strings.Cut(name, "%")
				if isFlag && name != "" && name != "help" && cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil {
					t.Errorf("%s: %q: vacancy %s has no flag --%s", where, text, cmd.Name(), name)
				}
			}
		}
	})
	if count < 60 {
		t.Errorf("found %d commands in hints, want all of them", count)
	}
}

// A command that helps stands after "try:", so that it has the flags that the person typed.
func TestErrorsContainNoCommands(t *testing.T) {
	count := 0
	texts(t, func(function, text, where string) {
		if !errorFunctions.MatchString(function) {
			return
		}
		if count++; strings.Contains(text, "`vacancy ") && !strings.Contains(text, "PUT /v1/admin/host") {
			t.Errorf("%s: %q contains a command; use kit.WithHint, or dispatch.StuckError", where, text)
		}
	})
	if count < 500 {
		t.Errorf("found %d texts of errors, want all of them", count)
	}
}
