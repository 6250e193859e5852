// Package assembly reads the output of `cdk synth`, called an assembly, and compares it with the
// deployed templates before a deployment starts.
//
// A comparison errs on the side of safety: it reports every table, key and bucket that a deployment
// might replace or remove.
package assembly

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

	"github.com/vacancy-host/vacancy/shared/problem"
)

type Assembly struct {
	Dir    string
	Stacks []Stack // in deployment order
}

type Stack struct {
	ID       string // CDK's name, for CDK's command line
	Name     string // CloudFormation's name
	Template []byte

	dependencies []string // ids of artifacts that must be deployed first
}

func Read(dir string) (*Assembly, error) {
	var manifest struct {
		Artifacts map[string]struct {
			Type         string   `json:"type"`
			DisplayName  string   `json:"displayName"`
			Dependencies []string `json:"dependencies"`
			Properties   struct {
				TemplateFile string `json:"templateFile"`
				StackName    string `json:"stackName"`
			} `json:"properties"`
		} `json:"artifacts"`
	}
	if err := readJSON(filepath.Join(dir, "manifest.json"), &manifest); err != nil {
		return nil, err
	}
	stacks := map[string]Stack{}
	for id, a := range manifest.Artifacts {
		if a.Type != "aws:cloudformation:stack" {
			continue
		}
		template, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(a.Properties.TemplateFile)))
		if err != nil {
			return nil, problem.Wrap(problem.Damaged, err, "CDK's output has no template for %s", id)
		}
		s := Stack{ID: id, Name: id, Template: template, dependencies: a.Dependencies}
		if a.DisplayName != "" {
			s.ID = a.DisplayName
		}
		if a.Properties.StackName != "" {
			s.Name = a.Properties.StackName
		}
		stacks[id] = s
	}
	return &Assembly{dir, sortStacks(stacks)}, nil
}

func readJSON(path string, target any) error {
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, target)
	}
	if err != nil {
		return problem.Wrap(problem.Damaged, err, "CDK's output cannot be read: %s", filepath.Base(path))
	}
	return nil
}

// sortStacks sorts stacks by name and puts each stack after the stacks that it needs.
func sortStacks(stacks map[string]Stack) []Stack {
	var ids []string
	for id := range stacks {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	var sorted []Stack
	visited := map[string]bool{}
	var visit func(id string)
	visit = func(id string) {
		s, ok := stacks[id]
		if !ok || visited[id] {
			return
		}
		visited[id] = true
		dependencies := slices.Sorted(slices.Values(s.dependencies))
		for _, n := range dependencies {
			visit(n)
		}
		sorted = append(sorted, s)
	}
	for _, id := range ids {
		visit(id)
	}
	return sorted
}
