package workspace

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

const (
	Main = "main"
	// Test is the only workspace of test keys and test tasks.
	Test = "test"
	// Operator is the owner of the operator's workspaces.
	Operator = "operator"
)

var names = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

// Ref identifies a workspace. Owner is the hexadecimal id of an account, or Operator.
type Ref struct{ Owner, Name string }

// RefOf returns the workspace that a payer means by name, or an error if the payer may not use the
// name. If p is nil, the operator is the owner. An empty name means the default workspace.
func RefOf(p *call.Payer, name string) (Ref, error) {
	r := Ref{Operator, cmp.Or(name, Main)}
	if p != nil {
		r.Owner = p.Account
	}
	switch isTest := p != nil && p.Test; {
	case isTest && name == "":
		r.Name = Test
	case isTest && name != Test:
		return r, problem.New(problem.TestKey, "workspace: a test key has only the workspace %s, got %.40q", Test, name)
	case p != nil && !isTest && name == Test:
		return r, problem.New(problem.NotFound, "workspace: only test keys and test tasks have the workspace %s", Test)
	}
	if !names.MatchString(r.Name) {
		return r, problem.Invalid("workspace", "1 to 32 of a-z, 0-9, - and _, for example "+Main, fmt.Sprintf("%.80q", name))
	}
	return r, nil
}

// CheckPath returns the NFC form of a path. It returns an error if the path is not valid for a
// file.
func CheckPath(path string) (string, error) {
	bad := func(want string) (string, error) {
		return "", problem.Invalid("path", want, fmt.Sprintf("%.80q", path))
	}
	if !utf8.ValidString(path) {
		return bad("UTF-8")
	}
	normal := norm.NFC.String(path)
	switch {
	case normal == "" || len(normal) > MaxPath || len(Fold(normal)) > store.MaxKey:
		return bad(fmt.Sprintf("1 to %d bytes", MaxPath))
	case strings.Contains(normal, `\`):
		return bad("slashes between folders, and no backslash")
	case strings.ContainsFunc(normal, unicode.IsControl):
		return bad("no control characters")
	case strings.HasPrefix(normal, "/"):
		return bad("a path relative to the workspace, for example .vault/report.md")
	}
	for name := range strings.SplitSeq(normal, "/") {
		if name == "" || name == "." || name == ".." {
			return bad("names between single slashes, without . and ..")
		}
	}
	return normal, nil
}

// Fold returns the form that all spellings of a path share. Lists are sorted by this form.
func Fold(path string) string { return norm.NFC.String(cases.Fold().String(norm.NFC.String(path))) }
