package documents_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/documents"
	"github.com/vacancy-host/vacancy/shared/store"
)

// declared are the variables of type store.DocKind below shared, as package.Name.
func declared(t *testing.T) (all []string) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, e os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				s := s.(*ast.ValueSpec)
				for i, v := range s.Values {
					if isKind(v) {
						all = append(all, f.Name.Name+"."+s.Names[i].Name)
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// isKind reports whether an expression is store.DocKind[T]{...}.
func isKind(e ast.Expr) bool {
	lit, ok := e.(*ast.CompositeLit)
	if !ok {
		return false
	}
	index, ok := lit.Type.(*ast.IndexExpr)
	if !ok {
		return false
	}
	name, ok := index.X.(*ast.SelectorExpr)
	return ok && name.Sel.Name == "DocKind"
}

func TestAllKindsAreListed(t *testing.T) {
	source, err := os.ReadFile("documents.go")
	if err != nil {
		t.Fatal(err)
	}
	kinds := declared(t)
	for _, name := range kinds {
		if !regexp.MustCompile(`[\t ]` + regexp.QuoteMeta(name) + `[,.(]`).Match(source) {
			t.Errorf("documents.go does not list %s", name)
		}
	}
	if len(kinds) == 0 || len(kinds) > len(documents.All()) {
		t.Errorf("%d kinds are declared, and %d listed", len(kinds), len(documents.All()))
	}
}

// fill is a key of a shape: each star is a text of its own, without a '#'.
func fill(s store.Shape) store.Key {
	n := strings.Count(s.Partition+s.Sort, "*")
	parts := make([]string, n)
	for i := range parts {
		parts[i] = strings.Repeat(string(rune('a'+i)), 3)
	}
	return s.Key(parts...)
}

func TestEachKeyIsOfOneKind(t *testing.T) {
	names := map[string]bool{}
	for _, kind := range documents.All() {
		s := kind.Shape
		if s.Verify == 0 {
			t.Errorf("%s does not set Verify to VerifySkip, VerifyParse or VerifyWithRows", s.Name)
		}
		if names[s.Name] {
			t.Errorf("two kinds are named %s", s.Name)
		}
		names[s.Name] = true
		k := fill(s)
		if of, ok := documents.Find(k); !ok || of.Shape != s {
			t.Errorf("%s, the key of a %s, is taken for another", k, s.Name)
		}
		if parts, ok := s.Parts(k); !ok || s.Key(parts...) != k {
			t.Errorf("Parts(%s) of a %s = %q, %t", k, s.Name, parts, ok)
		}
	}
	if of, ok := documents.Find(store.Key{Partition: "nowhere", Sort: "x"}); ok {
		t.Errorf("a key of no kind is of %s", of.Name)
	}
}

// Listing a kind must list no document of a kind that is not exported.
func TestAListOfAKindHasNoUnreadDocuments(t *testing.T) {
	for _, kind := range documents.All() {
		s := kind.Shape
		if s.Verify == store.VerifySkip {
			continue
		}
		r := s.Range(stars(s.Partition)...)
		if !documents.IsListed(r) {
			t.Errorf("the documents of each %s are not listed", s.Name)
		}
		for _, other := range documents.All() {
			o := other.Shape
			k := fill(o)
			if o.Verify == store.VerifySkip && k.Partition == r.Partition && k.Sort >= r.Start && (r.End == "" || k.Sort < r.End) {
				t.Errorf("the list of each %s has each %s", s.Name, o.Name)
			}
			if other := o.Range(stars(o.Partition)...); o.Verify == store.VerifySkip && s.HasRange(other) && documents.IsListed(other) {
				t.Errorf("the documents of each %s are listed like those of each %s", o.Name, s.Name)
			}
		}
	}
}

// stars are the parts that fill uses for a partition.
func stars(partition string) []string {
	parts := make([]string, strings.Count(partition, "*"))
	for i := range parts {
		parts[i] = strings.Repeat(string(rune('a'+i)), 3)
	}
	return parts
}

// Verify finds the documents of kinds with store.VerifyParse by their owner: by the host's
// partition, or by the id of a vacant or an account that it meets.
func TestVerifyMeetsTheOwnersOfWhatItChecksAlone(t *testing.T) {
	for _, kind := range documents.All() {
		s := kind.Shape
		if s.Verify != store.VerifyParse {
			continue
		}
		if stars := strings.Count(s.Partition, "*"); s.Owner == store.OwnedByHost && stars != 0 || s.Owner != store.OwnedByHost && stars != 1 || s.Owner == store.OwnedByTenant {
			t.Errorf("verify does not meet the owners of each %s", s.Name)
		}
	}
	if !slices.ContainsFunc(documents.All(), func(k store.AnyDocKind) bool { return k.Verify == store.VerifyParse }) {
		t.Error("no kind is checked alone")
	}
}
