// Package bundle builds the Lambda functions and packs each one into the zip file that is deployed.
//
// The same sources and the same release of Go produce the same bytes, so a second deployment makes
// no changes.
package bundle

import (
	"archive/zip"
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func FindCheckout(dir string) (string, error) {
	folder, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder, nil
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", fmt.Errorf("%s is not in a checkout of the project: expected a go.mod file in it or above it", dir)
		}
		folder = parent
	}
}

func WarmBuildCache(ctx context.Context, checkoutDir, arch string, environ []string) error {
	// The build cache then has the compiled packages, so BuildFunctions only links them.
	args := append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}}"}, compileFlags()...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./functions/...")...)
	cmd.Dir, cmd.Env = checkoutDir, buildEnvironment(environ, arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling the functions: %w\n%s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// BuildFunctions builds the named directories of functions/ for Linux on arch (arm64 or amd64), and
// writes NAME.zip for each into zipDir, which must exist.
func BuildFunctions(ctx context.Context, checkoutDir, arch string, names []string, zipDir string, environ []string) error {
	binaryDir, err := os.MkdirTemp("", "vacancy-functions-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(binaryDir)
	var programs []string
	for _, name := range names {
		programs = append(programs, "./functions/"+name)
	}
	if err := BuildPrograms(ctx, checkoutDir, arch, binaryDir+string(filepath.Separator), environ, programs...); err != nil {
		return fmt.Errorf("building the functions: %w", err)
	}
	for _, name := range names {
		if err := zipBinary(filepath.Join(binaryDir, name), filepath.Join(zipDir, name+".zip")); err != nil {
			return fmt.Errorf("packing function %s: %w", name, err)
		}
	}
	return nil
}

func BuildPrograms(ctx context.Context, checkoutDir, arch, out string, environ []string, packages ...string) error {
	args := append([]string{"build"}, compileFlags()...)
	// If out ends with a separator, it is a directory.
	args = append(args, "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", out)
	cmd := exec.CommandContext(ctx, "go", append(args, packages...)...)
	cmd.Dir, cmd.Env = checkoutDir, buildEnvironment(environ, arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// compileFlags excludes Lambda's old RPC entry point, and paths that differ between machines.
func compileFlags() []string { return []string{"-tags", "lambda.norpc", "-trimpath"} }

func buildEnvironment(environ []string, arch string) []string {
	// These variables could change the binary.
	fixed := []string{
		"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + arch, "GOARM64=v8.0", "GOAMD64=v1",
		"GOFLAGS=", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off",
	}
	out := slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.ContainsFunc(fixed, func(f string) bool { return strings.HasPrefix(f, name+"=") })
	})
	return append(out, fixed...)
}

func zipBinary(binary, path string) (err error) {
	in, err := os.Open(binary)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	w := zip.NewWriter(out)
	w.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestCompression)
	})
	// A fixed time and mode give equal zips for equal binaries.
	header := &zip.FileHeader{Name: "bootstrap", Method: zip.Deflate, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)}
	header.SetMode(0o755)
	file, err := w.CreateHeader(header)
	if err != nil {
		return err
	}
	if _, err := io.Copy(file, in); err != nil {
		return err
	}
	return w.Close()
}
