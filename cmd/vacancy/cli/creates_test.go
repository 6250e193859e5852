package cli

import (
	"bufio"
	"bytes"
	"context"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// creators are the command lines of this test that create files on a machine without a host, with
// the folder that they create, and why.
var creators = map[string]struct{ folder, why string }{
	"init x":                  {"home/identities", "creates an identity"},
	"new x":                   {"cwd/x", "creates a program"},
	"create x --capability y": {"home/host", "stores a vacant"},
	"agents import IN/mixed":  {"home/host", "stores the vacant of the file that can be read"},
}

// servers are command lines that run until they are interrupted.
var servers = []string{"dev", "a2a serve"}

// failing are command lines that fail or only read in other ways than commandLines. IN is a folder
// with files, and TAKEN an address at which another program listens.
var failing = []string{
	"create x --capability y --substrate foo:bar", "create a/b --capability y", "create x --capability y --tenant a/b",
	"create x --capability y --import IN/none", "create x --capability y --import IN/text", "create x --capability y work=1h",
	"create --from IN/bad/bad.md", "create --from IN/none.md", "create x --capability y --data IN/text",
	"agents import IN/bad", "agents import IN/none", "agents import IN", "agents import IN/mixed --substrate foo:bar",
	"dev --listen TAKEN", "dev --listen nowhere", "dev --witness x", "dev --opensearch http://TAKEN/%", "dev --log x", "dev --work 1h", "dev --fee x",
	"serve --public-url http://127.0.0.1:1 --listen TAKEN", "serve --public-url http://127.0.0.1:1 --listen 127.0.0.1:0 --witness x",
	"serve --public-url https://x.example --tls-cert IN/text --tls-key IN/text --listen 127.0.0.1:0",
	"serve --tls-domain x.example --acme-url nowhere --listen 127.0.0.1:0 --witness x",
	"a2a serve --substrate foo:bar", "a2a serve --from IN/bad/bad.md --port 0",
	"new x --template y", "new x --lang y", "new a/b", "watch IN/none", "watch IN/text", "watch IN/bad/bad.md", "watch IN/mixed/good.md --listen TAKEN",
	"init a/b", "init x --import IN/none", "init x --import IN/text", "id use x", "id export x",
	"call http://TAKEN/v/x hi", "call x hi --max-price y", "call http://127.0.0.1:1/v/x hi", "call x --ask", "call x --accept IN/text",
	"call --capability x hi", "call --capability x hi --registry http://127.0.0.1:1", "call --peer x hi", "call x --reset --max-price y", "call x hi --as y",
	"receipt http://127.0.0.1:1/v/x", "receipt IN/text", "log cosign http://127.0.0.1:1", "log verify http://127.0.0.1:1", "mcp --as x", "mcp http://127.0.0.1:1",
	"issuer check http://127.0.0.1:1", "restore IN/text", "restore IN/none", "backup IN/none.age", "reindex --opensearch http://127.0.0.1:1",
	"publish x --registry http://127.0.0.1:1", "price x 0.01", "verify IN/text", "export x", "list --json", "doctor --json", "status --json",
}

func TestACallThatIsNotSignedCreatesNoIdentity(t *testing.T) {
	url := newShell(t).dev()
	s := newShell(t)
	for _, line := range []string{
		"call URL --ask", "call URL --accept none", "call URL hi --max-price x", "call --capability nonsense hi --registry URL",
		"route nonsense --registry URL", "receipt URL", "log cosign URL", "log verify URL", "search --registry URL", "mcp URL", "card URL",
	} {
		code, _, errs := s.run("", strings.Fields(strings.ReplaceAll(line, "URL", url))...)
		if files := filesBelow(t, s.dataHome); slices.Contains(files, "identities") {
			t.Fatalf("vacancy %s = exit %d, %s and created %q", line, code, errs, files)
		}
	}
}

// A program that was killed between creating the data file and its first write leaves such files.
func TestADataFileWithoutRowsIsNoHostForRestore(t *testing.T) {
	s := newShell(t)
	dir := filepath.Join(s.dataHome, "host")
	a := &kit.App{Now: s.clock, Rand: s.rand, Env: s.env}
	host, err := a.OpenHost(dir)
	must(t, err)
	must(t, host.Close())
	s.fails(problem.ExitNotFound, "none cannot be read", "restore", "none")
	s.must("create", "x", "--capability", "y")
	s.fails(problem.ExitConflict, "is not replaced", "restore", "none")
}

// commandLines returns command lines of a command that fail, only read, or name things that do not
// exist.
func commandLines(path []string) (lines []string) {
	for _, args := range [][]string{{}, {"x"}, {"x", "x"}, slices.Repeat([]string{"x"}, 30), {"--nonsense"}} {
		if line := strings.Join(append(slices.Clone(path), args...), " "); !slices.Contains(servers, line) {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestOnlyCommandsThatStoreCreateFiles(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	go func() {
		for {
			c, err := taken.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	in := t.TempDir()
	for name, text := range map[string]string{
		"text": "text", "bad/bad.md": "---\nnonsense: [\n---\n", "mixed/bad.md": "---\nnonsense: [\n---\n",
		"mixed/good.md": "---\ndescription: answers\nprovider: echo\n---\n",
	} {
		path := filepath.Join(in, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	var lines []string
	for _, path := range commands() {
		lines = append(lines, commandLines(path)...)
	}
	for line := range creators {
		lines = append(lines, line)
	}
	lines = append(lines, failing...)
	slices.Sort(lines)
	replace := strings.NewReplacer("IN", in, "TAKEN", taken.Addr().String())
	for _, line := range slices.Compact(lines) {
		t.Run(line, func(t *testing.T) {
			dir := t.TempDir()
			cwd := filepath.Join(dir, "cwd")
			must(t, os.Mkdir(cwd, 0o700))
			t.Chdir(cwd)
			// A command that hangs would start something: no line here does.
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var out, errs bytes.Buffer
			a := &kit.App{
				Piped: true, In: bufio.NewReader(strings.NewReader("a.b.c")), Out: &out, Err: &errs, Now: time.Now, Rand: newShell(t).rand,
				Env: map[string]string{"VACANCY_HOME": filepath.Join(dir, "home"), "HOME": dir}, Seams: kit.Seams{OpenCloud: noCloud},
			}
			code := a.Run(ctx, rootCommand(a), strings.Fields(replace.Replace(line)))
			if ctx.Err() != nil {
				t.Fatalf("vacancy %s did not end", line)
			}
			want := creators[line].folder
			made := want == ""
			for _, file := range filesBelow(t, dir) {
				made = made || file == want
				if file != "cwd" && (want == "" || !strings.HasPrefix(file, want) && !strings.HasPrefix(want, file)) {
					t.Errorf("vacancy %s = exit %d, %s and created %s", line, code, errs.String(), file)
				}
			}
			if !made {
				t.Errorf("vacancy %s = exit %d, %s and did not create %s, although it %s", line, code, errs.String(), want, creators[line].why)
			}
		})
	}
}

// noCloud is an AWS without credentials.
func noCloud(context.Context, string) (cloud.Cloud, error) {
	return nil, &cloud.OpenError{Err: problem.New(problem.Unauthorized, "no credentials")}
}

// filesBelow lists the files and folders below a folder.
func filesBelow(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && path != dir {
			var rel string
			rel, err = filepath.Rel(dir, path)
			files = append(files, filepath.ToSlash(rel))
		}
		return err
	})
	must(t, err)
	return files
}
