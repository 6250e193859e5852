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
	MainName      = "main"
	TestName      = "test"
	OperatorOwner = "operator"
)

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

type Ref struct{ Owner, Name string }

// ResolveRef returns an error if the payer may not use the name. If p is nil, the operator is the
// owner.
func ResolveRef(p *call.Payer, name string) (Ref, error) {
	r := Ref{OperatorOwner, cmp.Or(name, MainName)}
	if p != nil {
		r.Owner = p.Account
	}
	switch isTest := p != nil && p.Test; {
	case isTest && name == "":
		r.Name = TestName
	case isTest && name != TestName:
		return r, problem.New(problem.TestKeyNotAllowed, "workspace: a test key has only the workspace %s, got %.40q", TestName, name)
	case p != nil && !isTest && name == TestName:
		return r, problem.New(problem.NotFound, "workspace: only test keys and test tasks have the workspace %s", TestName)
	}
	if !namePattern.MatchString(r.Name) {
		return r, problem.Invalid("workspace", "1 to 32 of a-z, 0-9, - and _, for example "+MainName, fmt.Sprintf("%.80q", name))
	}
	return r, nil
}

func NormalizePath(path string) (string, error) {
	pathError := func(want string) (string, error) {
		return "", problem.Invalid("path", want, fmt.Sprintf("%.80q", path))
	}
	if !utf8.ValidString(path) {
		return pathError("UTF-8")
	}
	normalized := norm.NFC.String(path)
	switch {
	case normalized == "" || len(normalized) > MaxPathBytes || len(FoldPath(normalized)) > store.MaxKey:
		return pathError(fmt.Sprintf("1 to %d bytes", MaxPathBytes))
	case strings.Contains(normalized, `\`):
		return pathError("slashes between folders, and no backslash")
	case strings.ContainsFunc(normalized, unicode.IsControl):
		return pathError("no control characters")
	case strings.HasPrefix(normalized, "/"):
		return pathError("a path relative to the workspace, for example .vault/report.md")
	}
	for name := range strings.SplitSeq(normalized, "/") {
		if name == "" || name == "." || name == ".." {
			return pathError("names between single slashes, without . and ..")
		}
	}
	return normalized, nil
}

// FoldPath returns the form that all spellings of a path share.
func FoldPath(path string) string { return norm.NFC.String(cases.Fold().String(norm.NFC.String(path))) }
