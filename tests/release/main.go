// Command release builds the files of a release: an archive of the programs for each system, an
// image for each architecture of Linux, and their checksums.
//
//	go run ./tests/release DIR
//
// The version is the tag of the commit, which Go stamps into the programs. The same commit and the
// same version of Go produce the same bytes on every machine, because the times in archives and
// images are the time of the commit.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// system is an operating system and an architecture, as Go names them.
type system struct{ os, arch string }

func (s system) String() string { return s.os + "_" + s.arch }

// program returns the file name of a program.
func (s system) program(name string) string {
	if s.os == "windows" {
		return name + ".exe"
	}
	return name
}

// systems have an archive each. A system of Linux has an image, too.
var systems = []system{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"}}

// programs are the commands in an archive. An image has only the first.
var programs = []string{"vacancy", "vacancy-aws"}

// documents are the files beside the programs in an archive.
var documents = []string{"README.md", "CHANGELOG.md", "LICENSE"}

// checksums is the file with the SHA-256 of all others, as sha256sum prints and checks them.
const checksums = "SHA256SUMS"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./tests/release DIR, from the top of the repository; DIR must not exist yet")
		os.Exit(2)
	}
	if err := build(ctx, ".", os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// build builds the release of a source tree into the new directory dir.
func build(ctx context.Context, source, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "release-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for _, s := range systems {
		bin := filepath.Join(work, s.String())
		if err := compile(ctx, source, s, bin); err != nil {
			return err
		}
		fmt.Println("built for", s) // takes minutes with an empty cache
		b, err := stampOf(filepath.Join(bin, s.program(programs[0])))
		if err != nil {
			return err
		}
		files := filesOf(source, s, bin)
		if err := writeArchive(dir, s, b, files); err != nil {
			return err
		}
		if s.os == "linux" {
			if err := writeImage(dir, s, b, files[0].path); err != nil {
				return err
			}
		}
	}
	return sum(dir)
}

// compile builds the programs for a system, stamped with the commit.
func compile(ctx context.Context, source string, s system, into string) error {
	args := []string{"build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", into + string(filepath.Separator)}
	for _, p := range programs {
		args = append(args, "./cmd/"+p)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+s.os, "GOARCH="+s.arch, "GOAMD64=v1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build for %s: %w\n%s", s, err, out)
	}
	return nil
}

// stamp is the version and the time of the commit that a program was built from.
type stamp struct {
	version string
	time    time.Time
}

func stampOf(program string) (b stamp, err error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return b, err
	}
	b.version = info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			b.time, err = time.Parse(time.RFC3339, s.Value)
		}
	}
	if err == nil && (b.version == "" || b.time.IsZero()) {
		err = fmt.Errorf("%s has no version: build in a clone with its .git directory", filepath.Base(program))
	}
	return b, err
}

// file is a file of an archive.
type file struct {
	name, path string
	mode       int64
}

// filesOf returns the files of a system's archive, the programs first.
func filesOf(source string, s system, bin string) (files []file) {
	for _, p := range programs {
		files = append(files, file{s.program(p), filepath.Join(bin, s.program(p)), 0o755})
	}
	for _, d := range documents {
		files = append(files, file{d, filepath.Join(source, d), 0o644})
	}
	return files
}

// sum writes the checksums of the files in dir.
func sum(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var lines bytes.Buffer
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(b), e.Name())
	}
	return os.WriteFile(filepath.Join(dir, checksums), lines.Bytes(), 0o644)
}
