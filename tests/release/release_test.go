package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/vacancy-host/vacancy/shared/await"
)

const tag = "v0.0.1"

// TestAReleaseIsWhatItsFilesSay builds the release of the last commit as a tag, and uses its
// files as people do.
func TestAReleaseIsWhatItsFilesSay(t *testing.T) {
	source, dir := tagged(t), filepath.Join(t.TempDir(), "release")
	if err := build(t.Context(), source, dir); err != nil {
		t.Fatal(err)
	}
	if err := build(t.Context(), source, dir); !errors.Is(err, fs.ErrExist) {
		t.Errorf("build into a directory that exists = %v", err)
	}
	t.Run("checksums", func(t *testing.T) { checkSums(t, dir) })
	for _, s := range systems {
		t.Run(s.String(), func(t *testing.T) { checkArchive(t, dir, s) })
	}
	t.Run("same bytes", func(t *testing.T) { checkSameBytes(t, source, dir) })
	for _, s := range systems {
		if s.os == "linux" {
			t.Run("image_"+s.arch, func(t *testing.T) { checkImage(t, dir, s) })
		}
	}
}

// tagged returns a clone of the last commit with a tag.
func tagged(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "source")
	top := run(t, nil, "git", "rev-parse", "--show-toplevel")
	run(t, nil, "git", "clone", "-q", strings.TrimSpace(top), dir)
	run(t, nil, "git", "-C", dir, "tag", tag)
	return dir
}

// run runs a program to its end, and returns its standard output.
func run(t *testing.T, env []string, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = env
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
	return string(out)
}

func checkSums(t *testing.T, dir string) {
	lines, err := os.ReadFile(filepath.Join(dir, checksums))
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for line := range strings.Lines(string(lines)) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !ok || fmt.Sprintf("%x", sha256.Sum256(b)) != sum {
			t.Errorf("checksum %q: %v", line, err)
		}
		listed = append(listed, name)
	}
	want := []string{
		"vacancy_v0.0.1_darwin_amd64.tar.gz", "vacancy_v0.0.1_darwin_arm64.tar.gz",
		"vacancy_v0.0.1_linux_amd64.image.tar", "vacancy_v0.0.1_linux_amd64.tar.gz",
		"vacancy_v0.0.1_linux_arm64.image.tar", "vacancy_v0.0.1_linux_arm64.tar.gz",
		"vacancy_v0.0.1_windows_amd64.zip", "vacancy_v0.0.1_windows_arm64.zip",
	}
	if !slices.Equal(listed, want) {
		t.Errorf("the release has %q, want %q", listed, want)
	}
}

// checkArchive looks at the files of a system's archive, and runs the program of this system.
func checkArchive(t *testing.T, dir string, s system) {
	to := t.TempDir()
	top := archiveName(s, tag)
	if s.os == "windows" {
		unzip(t, filepath.Join(dir, top+".zip"), to)
	} else {
		untarGzip(t, filepath.Join(dir, top+".tar.gz"), to)
	}
	var names []string
	for _, f := range filesOf("", s, "") {
		names = append(names, f.name)
		if info, err := os.Stat(filepath.Join(to, top, f.name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", f.name, err)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(to, top)); err != nil || len(entries) != len(names) {
		t.Errorf("the archive has %v, want %q (%v)", entries, names, err)
	}
	for _, p := range programs {
		checkProgram(t, filepath.Join(to, top, s.program(p)), s)
	}
	if program := filepath.Join(to, top, "vacancy"); runsHere(s) {
		if out := run(t, nil, program, "version"); !strings.HasPrefix(out, "vacancy "+tag+" ") {
			t.Errorf("version prints %q", out)
		}
	}
}

// checkProgram reads a program's stamp.
func checkProgram(t *testing.T, path string, s system) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{"version": info.Main.Version}
	for _, one := range info.Settings {
		got[one.Key] = one.Value
	}
	for key, want := range map[string]string{"version": tag, "GOOS": s.os, "GOARCH": s.arch, "CGO_ENABLED": "0", "vcs.modified": "false"} {
		if got[key] != want {
			t.Errorf("%s: %s is %q, want %q", filepath.Base(path), key, got[key], want)
		}
	}
}

func runsHere(s system) bool {
	info, ok := goEnv()
	return ok && info == s
}

// goEnv returns the system of this test.
func goEnv() (s system, ok bool) {
	out, err := exec.Command("go", "env", "GOHOSTOS", "GOHOSTARCH").Output()
	f := strings.Fields(string(out))
	if err != nil || len(f) != 2 {
		return s, false
	}
	return system{f[0], f[1]}, true
}

// checkSameBytes builds one archive again.
func checkSameBytes(t *testing.T, source, dir string) {
	s, bin, again := systems[0], t.TempDir(), t.TempDir()
	if err := compile(t.Context(), source, s, bin); err != nil {
		t.Fatal(err)
	}
	b, err := stampOf(filepath.Join(bin, programs[0]))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(writeArchive(again, s, b, filesOf(source, s, bin)), writeImage(again, s, b, filepath.Join(bin, programs[0]))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{archiveName(s, tag) + ".tar.gz", archiveName(s, tag) + ".image.tar"} {
		first, err := os.ReadFile(filepath.Join(dir, name))
		second, err2 := os.ReadFile(filepath.Join(again, name))
		if err = errors.Join(err, err2); err != nil || !bytes.Equal(first, second) {
			t.Errorf("%s: two builds differ (%v)", name, err)
		}
	}
}

// checkImage reads an image's configuration, unpacks it and, on its own architecture, runs it
// as a container would.
func checkImage(t *testing.T, dir string, s system) {
	image, err := tarball.ImageFromPath(filepath.Join(dir, archiveName(s, tag)+".image.tar"), nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != s.os || config.Architecture != s.arch || config.Config.User != "65532:65532" {
		t.Errorf("the image is for %s/%s, user %s", config.OS, config.Architecture, config.Config.User)
	}
	root := t.TempDir()
	unpacked := mutate.Extract(image)
	defer unpacked.Close()
	untar(t, unpacked, root)
	pem, err := os.ReadFile(filepath.Join(root, imageRoots))
	if pool := x509.NewCertPool(); err != nil || !pool.AppendCertsFromPEM(pem) || strings.Count(string(pem), "BEGIN CERTIFICATE") < 100 {
		t.Errorf("the roots cannot be read, or are few (%v)", err)
	}
	if info, err := os.Stat(filepath.Join(root, imageHome)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%s: %v, %v", imageHome, info, err)
	}
	if runsHere(s) {
		c := container{root, config.Config}
		c.answersACall(t)
	}
}

// container runs the programs of an unpacked image. If the test runs as root, they see only
// the image, as its user; otherwise they see the machine's files, too.
type container struct {
	root   string
	config v1.Config
}

func (c container) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env, cmd.Dir = c.config.Env, c.config.WorkingDir
	if os.Geteuid() == 0 {
		cmd.Path, cmd.Err = args[0], nil
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: c.root, Credential: &syscall.Credential{Uid: user, Gid: user}}
		return cmd
	}
	cmd.Path, cmd.Err = filepath.Join(c.root, args[0]), nil
	cmd.Env = []string{"VACANCY_HOME=" + filepath.Join(c.root, imageHome)}
	return cmd
}

// answersACall starts the host, asks for its health before and after, and calls a vacant.
func (c container) answersACall(t *testing.T) {
	health := func() error { return c.command(t.Context(), c.config.Healthcheck.Test[1:]...).Run() }
	if health() == nil {
		t.Error("the health check succeeds before the host runs")
	}
	address := freeAddress(t)
	program := c.config.Entrypoint[0]
	host := c.command(t.Context(), program, "serve", "--listen", address, "--public-url", "http://"+address)
	var log bytes.Buffer
	host.Stdout, host.Stderr = &log, &log
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- host.Wait() }()
	running := true
	stop := func() {
		if running {
			running = false
			_ = host.Process.Signal(syscall.SIGTERM)
			if err := <-ended; err != nil {
				t.Errorf("the host ended with %v\n%s", err, log.String())
			}
		}
	}
	defer stop()
	await.Until(t, "the health check", func() bool {
		select {
		case err := <-ended:
			running = false
			t.Fatalf("the host ended: %v\n%s", err, log.String())
		default:
		}
		return health() == nil
	})
	for _, args := range [][]string{{"create", "echo", "--capability", "echo", "--substrate", "echo"}, {"call", "echo", "hi"}} {
		if out, err := c.command(t.Context(), append([]string{program}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	stop()
}

func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func untarGzip(t *testing.T, path, to string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	untar(t, z, to)
}

// untar unpacks files with their modes and, as root, their owners.
func untar(t *testing.T, r io.Reader, to string) {
	t.Helper()
	modes := map[string]int64{}
	for files := tar.NewReader(r); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(to, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			err = write(path, files)
		}
		if err == nil && os.Geteuid() == 0 {
			err = os.Chown(path, h.Uid, h.Gid)
		}
		if err != nil {
			t.Fatal(err)
		}
		modes[path] = h.Mode
	}
	for _, path := range slices.Sorted(maps.Keys(modes)) {
		if err := os.Chmod(path, os.FileMode(modes[path]&0o777)); err != nil {
			t.Fatal(err)
		}
	}
}

func unzip(t *testing.T, path, to string) {
	t.Helper()
	z, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for _, f := range z.File {
		r, err := f.Open()
		if err == nil {
			err = write(filepath.Join(to, f.Name), r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func write(path string, r io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}
