// Package scaffold writes the start of an agent from a template.
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

// Go files of templates end in .txt, so that the go command does not compile them with this module.
//
//go:embed files
var files embed.FS

type Agent struct {
	Name     string
	Template Template
	Language Language
	Port     int // port of the agent's program
}

// NewAgent returns an agent, or an error that names the invalid argument.
func NewAgent(name, template, language string, port int) (Agent, error) {
	if !namePattern.MatchString(name) {
		return Agent{}, problem.Invalid("NAME", "a lowercase letter, then up to 62 lowercase letters, digits and -", fmt.Sprintf("%.80q", name))
	}
	i := slices.IndexFunc(Templates(), func(t Template) bool { return t.Name == template })
	if i < 0 {
		return Agent{}, problem.Invalid("--template", strings.Join(TemplateNames(), ", "), fmt.Sprintf("%.40q", template))
	}
	t := Templates()[i]
	names := t.LanguageNames()
	j := slices.Index(names, language)
	if j < 0 {
		want := strings.Join(names, ", ")
		if len(names) == 1 {
			want += ", the only language of the template " + t.Name
		}
		return Agent{}, problem.Invalid("--lang", want, fmt.Sprintf("%.40q", language))
	}
	return Agent{name, t, t.languages[j], port}, nil
}

var namePattern = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)

func (a *Agent) Commands() ([]string, error) {
	text, err := a.executeTemplate("commands", strings.Join(a.Template.commands, "\n"))
	return strings.Split(string(text), "\n"), err
}

// Write writes the agent to dir, which must be missing or empty. If Write fails, it removes a
// directory that it created.
func (a *Agent) Write(dir string) error {
	entries, err := os.ReadDir(dir)
	isMissing := os.IsNotExist(err)
	switch {
	case isMissing:
	case err != nil:
		return problem.Wrap(problem.Unavailable, err, "%s: %v", dir, err)
	case len(entries) > 0:
		return problem.New(problem.Conflict, "%s is not empty; nothing was written", dir)
	}
	texts, err := a.renderFiles()
	if err != nil {
		return problem.Wrap(problem.Internal, err, "")
	}
	if err = os.MkdirAll(dir, 0o777); err == nil {
		for file, text := range texts {
			if err = os.WriteFile(filepath.Join(dir, file), text, 0o666); err != nil {
				break
			}
		}
	}
	if err != nil {
		if isMissing {
			_ = os.RemoveAll(dir)
		}
		return problem.Wrap(problem.Unavailable, err, "%s cannot be written: %v", dir, err)
	}
	return nil
}

func (a *Agent) renderFiles() (map[string][]byte, error) {
	texts := map[string][]byte{}
	for _, folder := range append([]string{"common"}, a.templateFolders()...) {
		entries, err := fs.ReadDir(files, path.Join("files", folder))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			text, err := fs.ReadFile(files, path.Join("files", folder, e.Name()))
			if err != nil {
				return nil, err
			}
			outputName := e.Name()
			if a.Language.Name == "go" {
				outputName = strings.TrimSuffix(outputName, ".txt")
			}
			if texts[outputName], err = a.executeTemplate(outputName, string(text)); err != nil {
				return nil, err
			}
		}
	}
	return texts, nil
}

func (a *Agent) templateFolders() []string {
	// A file replaces a file of the same name in an earlier folder.
	if len(a.Template.languages) > 1 {
		return []string{path.Join(a.Template.Name, a.Language.Name)}
	}
	return append(slices.Clone(a.Template.extraFolders), a.Template.Name)
}

func (a *Agent) executeTemplate(name, text string) ([]byte, error) {
	tmpl, err := template.New(name).Parse(text)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = tmpl.Execute(&b, a)
	return b.Bytes(), err
}
