// Package clitest compares the output of commands with golden files.
package clitest

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
)

var update = flag.Bool("update", false, "write the golden files again")

// Golden compares output with a golden file in testdata. It ignores the values of keys, hashes and
// other parts that differ between runs.
func Golden(t *testing.T, name, got string) {
	t.Helper()
	File(t, filepath.Join("testdata", name+".golden"), stable(got))
}

// File compares got with the file at path. If -update is set, it first writes got to the file.
func File(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; make it with: go test -update", err)
	}
	if diff := gocmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}

// varies matches the parts of an output that depend on keys, random numbers or free ports.
var varies = regexp.MustCompile(`[0-9a-f]{128}|[0-9a-f]{64}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{12}\b|did:key:z[0-9A-Za-z]+|127\.0\.0\.1:[0-9]{4,}`)

// stable replaces each varying part of s with its kind and a number. Equal parts get the same
// number.
func stable(s string) string {
	seen := map[string]string{}
	return varies.ReplaceAllStringFunc(s, func(v string) string {
		if seen[v] != "" || v == kit.DefaultListen {
			return cmp.Or(seen[v], v)
		}
		form := map[int]string{128: "signature", 64: "hex", 36: "uuid", 12: "short"}[len(v)]
		switch {
		case strings.HasPrefix(v, "did"):
			form = "did"
		case strings.HasPrefix(v, "127."): // a hash may also begin with 127
			form = "address"
		}
		seen[v] = fmt.Sprintf("<%s %d>", form, len(seen)+1)
		return seen[v]
	})
}
