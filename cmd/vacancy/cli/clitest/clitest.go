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

// CompareGolden compares output with a golden file in testdata. It ignores keys, hashes and other
// parts that differ between runs.
func CompareGolden(t *testing.T, name, got string) {
	t.Helper()
	CompareFile(t, filepath.Join("testdata", name+".golden"), replaceVarying(got))
}

// CompareFile compares got with the file at path, or writes got to the file if -update is set.
func CompareFile(t *testing.T, path, got string) {
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
		t.Fatalf("%v; create it with: go test -update", err)
	}
	if diff := gocmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}

var varyingText = regexp.MustCompile(`[0-9a-f]{128}|[0-9a-f]{64}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{12}\b|did:key:z[0-9A-Za-z]+|127\.0\.0\.1:[0-9]{4,}`)

func replaceVarying(s string) string {
	placeholders := map[string]string{}
	return varyingText.ReplaceAllStringFunc(s, func(match string) string {
		if placeholders[match] != "" || match == kit.DefaultListen {
			return cmp.Or(placeholders[match], match)
		}
		kind := map[int]string{128: "signature", 64: "hex", 36: "uuid", 12: "short"}[len(match)]
		switch {
		case strings.HasPrefix(match, "did"):
			kind = "did"
		case strings.HasPrefix(match, "127."):
			kind = "address"
		}
		placeholders[match] = fmt.Sprintf("<%s %d>", kind, len(placeholders)+1)
		return placeholders[match]
	})
}
