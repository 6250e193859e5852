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

// program lists the folders that contain the program's Go files.
var program = []string{"..", "../../../shared"}

// errorFunctions matches the functions whose first text is the text of an error.
var errorFunctions = regexp.MustCompile(`^(New|Wrap|Invalid|newStuck)$`)

// texts calls f with each text that a call of a function has as an argument, in the Go files of folders. Number 0 is
// the first text of the call.
func texts(t *testing.T, folders []string, f func(function string, number int, text, where string)) {
	t.Helper()
	set := token.NewFileSet()
	for _, dir := range folders {
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
				number := 0
				for _, arg := range call.Args {
					if lit, ok := arg.(*ast.BasicLit); ok && lit.Kind == token.STRING {
						text, _ := strconv.Unquote(lit.Value)
						f(name, number, text, set.Position(lit.Pos()).String())
						number++
					}
				}
				return true
			})
			return nil
		})
		must(t, err)
	}
}

// A hint is a command that exists, with flags that it has.
func TestHintsNameCommandsAndFlagsThatExist(t *testing.T) {
	root := rootCommand(&kit.App{})
	suggested := regexp.MustCompile(`(?:^|[\s(=])vacancy ([a-z][^,:;<#()` + "`" + `]*)`)
	count := 0
	texts(t, program, func(function string, number int, text, where string) {
		if function != "WithHint" || number > 0 {
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
	texts(t, program, func(function string, number int, text, where string) {
		if !errorFunctions.MatchString(function) || number > 0 {
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

// A result that prints a command takes it from kit, because "vacancy" need not be in PATH.
// Help texts name the program and are not typed as they are.
func TestResultsPrintCommandsAsTheProgramIsStarted(t *testing.T) {
	var names []string
	for _, c := range rootCommand(&kit.App{}).Commands() {
		names = append(names, c.Name())
	}
	command := regexp.MustCompile("(^|[\\s\"'`(])vacancy (" + strings.Join(names, "|") + `)\b`)
	folders, err := filepath.Glob("*cmd")
	if err != nil || len(folders) < 7 {
		t.Fatalf("found the folders %q, %v", folders, err)
	}
	count := 0
	texts(t, folders, func(function string, _ int, text, where string) {
		if !strings.HasPrefix(function, "Fprint") {
			return
		}
		if count++; command.MatchString(text) {
			t.Errorf("%s prints %q; use App.Command", where, text)
		}
	})
	if count < 100 {
		t.Errorf("found %d printed texts, want all of them", count)
	}
}
