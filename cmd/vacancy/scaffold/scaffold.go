// Package scaffold writes the beginning of an agent: a program, its test and a
// README, in one of several languages, with nothing but the standard library.
package scaffold

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// Files of Go end in .txt here, so that they are not part of this module.
//
//go:embed files
var files embed.FS

// Language is a language that agents are written in.
type Language struct {
	Name    string
	Program string // the file with the function answer
	Start   string // the command that runs it
	Test    string // the command that tests it
	// Marker is the file that shows that a folder is of the language. Once Installed
	// exists, Run starts the agent, unless Run is ""; otherwise Start does.
	Marker, Installed, Run string
}

// Languages are the languages by name.
func Languages() []Language {
	return []Language{
		{"go", "main.go", "go run .", "go test ./...", "go.mod", "", ""},
		{"python", "agent.py", "python3 agent.py", "python3 -m unittest", "agent.py", "", ""},
		{"typescript", "agent.ts", "npm install && npm start", "npm install && npm test", "package.json", "node_modules", "npm start"},
	}
}

var nameForm = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)

// Write writes an agent of a name that listens at a port into dir, which must be missing
// or empty, and returns its language. The error names the wrong part; nothing is left half
// written in a directory that was missing.
func Write(dir, name, language string, port int) (Language, error) {
	if !nameForm.MatchString(name) {
		return Language{}, problem.Invalid("NAME", "a letter and up to 62 letters, digits and -, all small", fmt.Sprintf("%.80q", name))
	}
	i := slices.IndexFunc(Languages(), func(l Language) bool { return l.Name == language })
	if i < 0 {
		names := []string{}
		for _, l := range Languages() {
			names = append(names, l.Name)
		}
		return Language{}, problem.Invalid("--lang", strings.Join(names, ", "), fmt.Sprintf("%.40q", language))
	}
	l := Languages()[i]
	there, err := os.ReadDir(dir)
	missing := os.IsNotExist(err)
	switch {
	case missing:
	case err != nil:
		return l, problem.Wrap(problem.Unavailable, err, "%s: %v", dir, err)
	case len(there) > 0:
		return l, problem.New(problem.Conflict, "%s is not empty; nothing was written", dir)
	}
	all, err := render(l, name, port)
	if err != nil {
		return l, problem.Wrap(problem.Internal, err, "")
	}
	if err = os.MkdirAll(dir, 0o777); err == nil {
		for file, text := range all {
			if err = os.WriteFile(filepath.Join(dir, file), text, 0o666); err != nil {
				break
			}
		}
	}
	if err != nil {
		if missing {
			_ = os.RemoveAll(dir) // nothing was there before
		}
		return l, problem.Wrap(problem.Unavailable, err, "%s cannot be written: %v", dir, err)
	}
	return l, nil
}

// render is the files of an agent by name.
func render(l Language, name string, port int) (map[string][]byte, error) {
	all := map[string][]byte{}
	add := func(file, as string) error {
		text, err := fs.ReadFile(files, file)
		if err != nil {
			return err
		}
		t, err := template.New(file).Parse(string(text))
		if err != nil {
			return err
		}
		var b bytes.Buffer
		values := struct {
			Name, Program, Start, Test string
			Port                       int
		}{name, l.Program, l.Start, l.Test, port}
		err = t.Execute(&b, values)
		all[as] = b.Bytes()
		return err
	}
	entries, err := fs.ReadDir(files, path.Join("files", l.Name))
	for _, common := range []string{"README.md", "agent.md"} {
		if err == nil {
			err = add("files/"+common, common)
		}
	}
	for _, e := range entries {
		if err == nil {
			err = add(path.Join("files", l.Name, e.Name()), strings.TrimSuffix(e.Name(), ".txt"))
		}
	}
	return all, err
}
