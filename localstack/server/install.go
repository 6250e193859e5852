package server

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cache"
	"github.com/vacancy-host/vacancy/localstack/plugin"
	"github.com/vacancy-host/vacancy/tests/dynamolocal"
)

// pipArgs contains the arguments of pip. A change of pipArgs causes a new install.
var pipArgs = []string{"install", "--require-hashes", "--no-deps", "--no-input", "--disable-pip-version-check", "--quiet"}

type Installation struct {
	CacheDir    string
	PythonPath  string
	PluginDir   string // value for PYTHONPATH
	DynamoDBDir string
	JavaPath    string
}

// Install installs LocalStack, its plugin and DynamoDB Local into cacheDir. It is idempotent, safe
// for concurrent use, and repairs an interrupted install. If a tool is missing, the error is of
// kind NotFound.
func Install(ctx context.Context, cacheDir string, progress io.Writer) (*Installation, error) {
	cacheDir, err := filepath.Abs(cacheDir)
	if err != nil {
		return nil, err
	}
	java, err := findJava()
	if err != nil {
		return nil, err
	}
	installation := &Installation{CacheDir: cacheDir, JavaPath: java}
	venv, err := cache.Install{
		Name: "localstack-venv", Version: digest(plugin.Lock, pipArgs), MarkerFile: filepath.Join("bin", "python"),
		Build: func(folder string) error { return makeVenv(ctx, folder, progress) },
	}.EnsureIn(ctx, cacheDir)
	if err != nil {
		return nil, fmt.Errorf("installing LocalStack: %w", err)
	}
	installation.PythonPath = filepath.Join(venv, "bin", "python")
	source, err := sourceDigest()
	if err != nil {
		return nil, err
	}
	installation.PluginDir, err = cache.Install{
		Name: "localstack-plugin", Version: source,
		Build: func(folder string) error { return os.CopyFS(folder, plugin.Source) },
	}.EnsureIn(ctx, cacheDir)
	if err != nil {
		return nil, fmt.Errorf("installing the plugin: %w", err)
	}
	installation.DynamoDBDir, err = dynamolocal.Fetch(ctx, cacheDir)
	return installation, err
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func makeVenv(ctx context.Context, dir string, progress io.Writer) error {
	python, err := findPython(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(progress, "installing LocalStack (about 500 MB, once) with %s\n", python)
	if err := runCommand(ctx, python, "-m", "venv", dir); err != nil {
		return fmt.Errorf("%w (on Debian and Ubuntu, venv is a separate package: apt-get install python3.13-venv)", err)
	}
	lockFile := filepath.Join(dir, "localstack.lock")
	if err := os.WriteFile(lockFile, plugin.Lock, 0o644); err != nil {
		return err
	}
	// cache.Install renames dir later. That breaks the scripts in bin, but not "bin/python -m".
	args := append([]string{"-m", "pip"}, append(pipArgs, "-r", lockFile)...)
	return runCommand(ctx, filepath.Join(dir, "bin", "python"), args...)
}

func runCommand(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		const maxOutputBytes = 2 << 10
		return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, out[max(0, len(out)-maxOutputBytes):])
	}
	return nil
}

func digest(content []byte, parts []string) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%q %s", parts, content)))[:12]
}

func sourceDigest() (string, error) {
	var names []string
	var contents []byte
	err := fs.WalkDir(plugin.Source, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := plugin.Source.ReadFile(path)
		names, contents = append(names, fmt.Sprintf("%s %d", path, len(content))), append(contents, content...)
		return err
	})
	return digest(contents, names), err
}
