package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// targets are the systems the command must compile for, beside the machine's own.
var targets = []string{"windows/amd64", "darwin/arm64", "linux/arm64"}

// programs are the programs that users run on their machines.
var programs = []string{"./cmd/vacancy", "./cmd/vacancy-aws"}

// compiles reports an error if the programs do not compile for another system. It checks
// types only, from source: nothing is compiled that no other stage needs, and a third of a
// minute is saved for each system. A deep run links the programs, too.
func compiles(ctx context.Context, target string, d depth) error {
	system, arch, _ := strings.Cut(target, "/")
	env := []string{"GOOS=" + system, "GOARCH=" + arch, "CGO_ENABLED=0"}
	if d == deep {
		return command(ctx, env, "go", append([]string{"build", "-o", os.DevNull}, programs...)...)
	}
	return checkTypes(ctx, env, arch, programs)
}

// listed is a package as go list describes it.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
}

// checkTypes checks the types of packages and of all they import. Of others' packages it
// leaves out what is within functions.
func checkTypes(ctx context.Context, env []string, arch string, patterns []string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap"}, patterns...)...)
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go list: %w\n%s", err, errs.Bytes())
	}
	known := map[string]*types.Package{"unsafe": types.Unsafe}
	files := token.NewFileSet()
	for all := json.NewDecoder(&out); ; { // a package comes after all that it imports
		var p listed
		if err := all.Decode(&p); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if p.ImportPath == "unsafe" {
			continue
		}
		checked, err := p.check(files, known, arch)
		if err != nil {
			return err
		}
		known[p.ImportPath] = checked
	}
}

func (p *listed) check(files *token.FileSet, known map[string]*types.Package, arch string) (*types.Package, error) {
	var parsed []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, f)
	}
	var wrong []error
	c := types.Config{
		Importer: importer(func(path string) (*types.Package, error) {
			if real, ok := p.ImportMap[path]; ok {
				path = real
			}
			if known[path] == nil {
				return nil, fmt.Errorf("no package %s", path)
			}
			return known[path], nil
		}),
		IgnoreFuncBodies: !strings.HasPrefix(p.ImportPath, module),
		Sizes:            types.SizesFor("gc", arch),
		Error:            func(err error) { wrong = append(wrong, err) },
	}
	checked, _ := c.Check(p.ImportPath, files, parsed, nil) // its error is the first of wrong
	return checked, errors.Join(wrong...)
}

// importer implements types.Importer.
type importer func(path string) (*types.Package, error)

func (i importer) Import(path string) (*types.Package, error) { return i(path) }
