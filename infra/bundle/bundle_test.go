package bundle_test

import (
	"archive/zip"
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/infra/bundle"
)

// build packs the function message of this checkout.
func build(t *testing.T, top, arch string, environ []string) string {
	t.Helper()
	dir := t.TempDir()
	if err := bundle.BuildFunctions(t.Context(), top, arch, []string{"message"}, dir, environ); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "message.zip")
}

func top(t *testing.T) string {
	t.Helper()
	dir, err := bundle.FindCheckout(".")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func digest(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(b))
}

func TestBuildsInDifferentDirectoriesAreIdentical(t *testing.T) {
	here := top(t)
	first := digest(t, build(t, here, "amd64", os.Environ()))

	// The other checkout is a copy at another path, and its builder has
	// settings that would change the binary.
	elsewhere := filepath.Join(t.TempDir(), "a-checkout-of-another-name")
	for _, dir := range []string{"functions", "shared"} {
		if err := os.CopyFS(filepath.Join(elsewhere, dir), os.DirFS(filepath.Join(here, dir))); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		b, err := os.ReadFile(filepath.Join(here, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(elsewhere, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	environ := append(os.Environ(), "GOAMD64=v3", "GOFLAGS=-buildvcs=true", "CGO_ENABLED=1", "GOOS="+runtime.GOOS, "GOARCH=386")
	if second := digest(t, build(t, elsewhere, "amd64", environ)); second != first {
		t.Errorf("the second build is %s, want %s", second, first)
	}
}

func TestTheZipHoldsOnlyTheProgramLambdaStarts(t *testing.T) {
	z, err := zip.OpenReader(build(t, top(t), "amd64", os.Environ()))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	if len(z.File) != 1 || z.File[0].Name != "bootstrap" || z.File[0].Mode() != 0o755 {
		t.Fatalf("the zip holds %d files, the first %q of mode %v, want bootstrap alone, to be run", len(z.File), z.File[0].Name, z.File[0].Mode())
	}
	f, err := z.File[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	program, err := elf.NewFile(strings.NewReader(string(b)))
	if err != nil || program.Machine != elf.EM_X86_64 {
		t.Fatalf("bootstrap is %v, %v, want a program for amd64", program, err)
	}
	if libraries, err := program.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("bootstrap needs libraries %v, %v, want none", libraries, err)
	}
	if strings.Contains(string(b), top(t)) {
		t.Error("bootstrap holds the path of the checkout")
	}
}

func TestABuildThatFailsShowsWhatGoSaid(t *testing.T) {
	err := bundle.BuildFunctions(t.Context(), top(t), "amd64", []string{"nowhere"}, t.TempDir(), os.Environ())
	if err == nil || !strings.Contains(err.Error(), "functions/nowhere") {
		t.Errorf("BuildFunctions(nowhere) = %v, want the folder that is missing", err)
	}
}

func TestAFolderOutsideOfACheckoutIsRefused(t *testing.T) {
	dir := t.TempDir()
	if _, err := bundle.FindCheckout(dir); err == nil || !strings.Contains(err.Error(), "expected a go.mod") {
		t.Errorf("FindCheckout(%s) = %v, want a word on go.mod", dir, err)
	}
}
