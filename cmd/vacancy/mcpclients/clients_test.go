package mcpclients

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
	"github.com/tailscale/hujson"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/clitest"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// entries are the kinds of entry.
var entries = []struct {
	what  string
	entry Entry
}{
	{"a guest", Entry{Name: "fox", URL: "https://agents.example.org/v/fox/mcp", Command: "/usr/bin/vacancy", Args: []string{"mcp", "fox", "--host", "https://agents.example.org"}}},
	{"a key of an account", Entry{Name: "fox", URL: "https://agents.example.org/v/fox/mcp", Command: "/usr/bin/vacancy", Args: []string{"mcp", "fox", "--host", "https://agents.example.org"}, KeyVariable: "VACANCY_KEY"}},
	{"an identity", Entry{Name: "fox", Command: "/usr/bin/vacancy", Args: []string{"mcp", "fox", "--host", "https://agents.example.org", "--as", "alice"}, KeyVariable: "VACANCY_KEY", Env: []Variable{{"VACANCY_HOME", "/home/a b/.vacancy"}}}},
}

// Each client's files are as its documentation has them.
func TestEachClientHasItsFile(t *testing.T) {
	for _, name := range MCP.Names() {
		c, err := MCP.Find(name)
		must(t, err)
		var b strings.Builder
		for _, os := range []string{"linux", "darwin", "windows"} {
			p := PathParams{OS: os, WorkingDir: "/project", HomeDir: "/home/me", Env: map[string]string{"APPDATA": "/home/me/AppData/Roaming"}}
			fmt.Fprintf(&b, "%-8s %s\n", os, filepath.ToSlash(c.Path(p)))
		}
		for _, one := range entries {
			fmt.Fprintf(&b, "\n--- %s: started %v, variable named %v ---\n%s", one.what, c.StartsServer(one.entry), one.entry.KeyVariable != "" && c.NamesVariable(one.entry), c.FormatFile(one.entry))
		}
		clitest.CompareGolden(t, name, b.String())
	}
	for _, name := range ACP.Names() {
		c, err := ACP.Find(name)
		must(t, err)
		var b strings.Builder
		for _, os := range []string{"linux", "darwin", "windows"} {
			p := PathParams{OS: os, HomeDir: "/home/me", Env: map[string]string{"APPDATA": "/home/me/AppData/Roaming", "LOCALAPPDATA": "/home/me/AppData/Local"}, EntryName: "fox"}
			fmt.Fprintf(&b, "%-8s %s\n", os, filepath.ToSlash(c.Path(p)))
		}
		for _, one := range entries {
			fmt.Fprintf(&b, "\n--- %s: variable named %v ---\n%s", one.what, one.entry.KeyVariable != "" && c.NamesVariable(one.entry), c.FormatFile(one.entry))
		}
		clitest.CompareGolden(t, "acp-"+name, b.String())
	}
	p := PathParams{OS: "linux", HomeDir: "/home/me", Env: map[string]string{"XDG_CONFIG_HOME": "/x", "CODEX_HOME": "/c"}}
	for name, want := range map[string]string{"zed": "/x/zed/settings.json", "vscode": "/x/Code/User/mcp.json", "codex": "/c/config.toml"} {
		c, _ := MCP.Find(name)
		if got := c.Path(p); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if _, err := MCP.Find("emacs"); !problem.Is(err, problem.Usage) || !strings.Contains(problem.AsError(err).Text(), "claude-code, claude-desktop, cursor, vscode, gemini, codex, zed") {
		t.Errorf("an unknown client: %v", err)
	}
	if got := SafeEntryName("übers/fox 1"); got != "-bers-fox-1" {
		t.Errorf("the name of an entry is %q", got)
	}
}

// fox is a short entry.
var fox = Entry{Name: "fox", URL: "https://h.example/v/fox/mcp"}

// merge is a file to which the entry fox is added.
type merge struct {
	old, want string
	replaced  bool
}

// checkMerges adds fox to the files of a client. A second merge changes nothing.
func checkMerges(t *testing.T, client string, merges map[string]merge) {
	t.Helper()
	c, err := MCP.Find(client)
	must(t, err)
	for name, tt := range merges {
		got, replaced, err := c.Merge([]byte(tt.old), fox)
		if diff := cmp.Diff(tt.want, string(got)); err != nil || replaced != tt.replaced || diff != "" {
			t.Errorf("%s: replaced %v, %v (-want +got):\n%s", name, replaced, err, diff)
			continue
		}
		again, _, err := c.Merge(got, fox)
		if diff := cmp.Diff(string(got), string(again)); err != nil || diff != "" {
			t.Errorf("%s, once more: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestJSONIsMergedInPlace(t *testing.T) {
	checkMerges(t, "cursor", map[string]merge{
		"an empty file":            {"", "{\n  \"mcpServers\": {\n    \"fox\": {\n      \"url\": \"https://h.example/v/fox/mcp\"\n    }\n  }\n}\n", false},
		"a blank file":             {" \n", "{\n  \"mcpServers\": {\n    \"fox\": {\n      \"url\": \"https://h.example/v/fox/mcp\"\n    }\n  }\n}\n", false},
		"an empty object":          {"{}", "{\n  \"mcpServers\": {\n    \"fox\": {\n      \"url\": \"https://h.example/v/fox/mcp\"\n    }\n  }\n}", false},
		"an object with a comment": {"{\n  // mine\n}\n", "{\n  // mine\n  \"mcpServers\": {\n    \"fox\": {\n      \"url\": \"https://h.example/v/fox/mcp\"\n    }\n  }\n}\n", false},
		"comments and other members": {
			"// about me\n{\n    \"theme\": \"dark\", // I like it\n    /* servers */ \"mcpServers\": {\n        \"owl\": {\"command\": \"owl\"} // the owl\n        // end\n    }\n}\n",
			"// about me\n{\n    \"theme\": \"dark\", // I like it\n    /* servers */ \"mcpServers\": {\n        \"owl\": {\"command\": \"owl\"}, // the owl\n        // end\n        \"fox\": {\n            \"url\": \"https://h.example/v/fox/mcp\"\n        }\n    }\n}\n", false,
		},
		"a trailing comma": {
			"{\n\t\"mcpServers\": {\n\t\t\"owl\": {},\n\t},\n}\n",
			"{\n\t\"mcpServers\": {\n\t\t\"owl\": {},\n\t\t\"fox\": {\n\t\t\t\"url\": \"https://h.example/v/fox/mcp\"\n\t\t},\n\t},\n}\n", false,
		},
		"no table of servers": {
			"{\n  \"a\": [1, 2.50, \"\\u00e9\"]\n}\n",
			"{\n  \"a\": [1, 2.50, \"\\u00e9\"],\n  \"mcpServers\": {\n    \"fox\": {\n      \"url\": \"https://h.example/v/fox/mcp\"\n    }\n  }\n}\n", false,
		},
		"one line": {
			`{"mcpServers": {"owl": {}}}`,
			"{\"mcpServers\": {\"owl\": {},\n    \"fox\": {\n      \"url\": \"https://h.example/v/fox/mcp\"\n    }\n  }}", false,
		},
		"an entry that is replaced": {
			"{\n  \"mcpServers\": {\n    // my fox\n    \"fox\": { \"command\": \"old\", /* gone */ \"args\": [] }, // stays\n    \"owl\": {}\n  }\n}\n",
			"{\n  \"mcpServers\": {\n    // my fox\n    \"fox\": {\n      \"url\": \"https://h.example/v/fox/mcp\"\n    }, // stays\n    \"owl\": {}\n  }\n}\n", true,
		},
		"lines of Windows": {
			"\xef\xbb\xbf{\r\n  \"mcpServers\": {\r\n    \"owl\": {}\r\n  }\r\n}\r\n",
			"\xef\xbb\xbf{\r\n  \"mcpServers\": {\r\n    \"owl\": {},\r\n    \"fox\": {\r\n      \"url\": \"https://h.example/v/fox/mcp\"\r\n    }\r\n  }\r\n}\r\n", false,
		},
	})
}

func TestTOMLIsMergedInPlace(t *testing.T) {
	const added = "[mcp_servers.fox]\nurl = \"https://h.example/v/fox/mcp\"\n"
	checkMerges(t, "codex", map[string]merge{
		"an empty file":  {"", added, false},
		"a comment only": {"# mine\n", "# mine\n\n" + added, false},
		"other tables": {
			"model = \"x\" # fast\n\n[mcp_servers.owl] # the owl\ncommand = \"owl\"\nargs = [ # all\n  \"a\",\n]\n\n\n",
			"model = \"x\" # fast\n\n[mcp_servers.owl] # the owl\ncommand = \"owl\"\nargs = [ # all\n  \"a\",\n]\n\n" + added, false,
		},
		"no newline at the end": {"a = 1", "a = 1\n\n" + added, false},
		"an entry that is replaced": {
			"[mcp_servers.fox]\ncommand = \"old\" # gone\ntext = '''\n[mcp_servers.fox]\n'''\n\n# about the owl\n[mcp_servers.owl]\ncommand = \"owl\"\n[mcp_servers.\"fox\".env]\nA = \"1\"\n# the end\n[other]\n",
			added + "\n# about the owl\n[mcp_servers.owl]\ncommand = \"owl\"\n# the end\n[other]\n", true,
		},
		"lines of Windows":             {"a = 1\r\n", "a = 1\r\n\r\n" + strings.ReplaceAll(added, "\n", "\r\n"), false},
		"a byte order mark":            {"\xef\xbb\xbfa = 1\n", "\xef\xbb\xbfa = 1\n\n" + added, false},
		"dotted keys of another entry": {"mcp_servers.owl.command = \"owl\"\n", "mcp_servers.owl.command = \"owl\"\n\n" + added, false},
	})
}

// A file that cannot be changed with certainty is refused, with the line.
func TestFilesThatAreRefused(t *testing.T) {
	for _, tt := range []struct{ client, old, want string }{
		{"cursor", "{\n  \"a\": 1\n  \"b\": 2\n}", "line 3, column 3: "},
		{"cursor", "{\n \"mcpServers\": [],\n}", "line 2: mcpServers: expected an object, got another value"},
		{"cursor", "{\n \"mcpServers\": null\n}", "line 2: mcpServers: expected an object"},
		{"cursor", "\n7", "line 2: the file: expected an object"},
		{"cursor", "{\"mcpServers\": {},\n\"mcpServers\": {}}", "line 2: mcpServers occurs twice"},
		{"cursor", "// only a comment", "line 1, column "},
		{"cursor", "{} {}", "line 1, column 4: "},
		{"zed", strings.Repeat("[", 2000), "line 1: more than 1000 brackets are open"},
		{"codex", "a = 1\nb = = 2", "line 2: "},
		{"codex", "[a]\n[a]\n", "line 2: "},
		{"codex", "\nmcp_servers = {}\n", "line 2: mcp_servers: expected tables such as [mcp_servers.fox], got a value"},
		{"codex", "[mcp_servers]\nfox = {url = \"x\"}\n", "line 2: expected a separate table for the entry fox"},
		{"codex", "[mcp_servers]\nfox.url = \"x\"\n", "line 2: expected a separate table for the entry fox"},
		{"codex", "[[mcp_servers]]\na = 1\n", "line 1: mcp_servers: expected a table, got a list of tables"},
		{"codex", "x = " + strings.Repeat("[", 2000), "line 1: more than 1000 brackets are open"},
	} {
		c, _ := MCP.Find(tt.client)
		got, _, err := c.Merge([]byte(tt.old), fox)
		if got != nil || !problem.Is(err, problem.Usage) || !strings.Contains(problem.AsError(err).Text(), tt.want) {
			t.Errorf("%.60q: %q, %v; want %q", tt.old, got, err, tt.want)
		}
	}
}

func TestASettingIsMergedInPlace(t *testing.T) {
	enable := func(old string, on bool) (string, error) {
		got, _, err := GeminiAgents.Merge([]byte(old), Entry{Name: "enableAgents", Value: on})
		return string(got), err
	}
	for old, want := range map[string]string{
		"": "{\n  \"experimental\": {\n    \"enableAgents\": true\n  }\n}\n",
		"{\n  // mine\n  \"theme\": \"x\",\n  \"experimental\": {\"a\": [1]}\n}\n":              "{\n  // mine\n  \"theme\": \"x\",\n  \"experimental\": {\"a\": [1],\n    \"enableAgents\": true\n  }\n}\n",
		"{\n  \"experimental\": {\n    \"enableAgents\": false, // off\n    \"b\": 1\n  }\n}\n": "{\n  \"experimental\": {\n    \"enableAgents\": true, // off\n    \"b\": 1\n  }\n}\n",
	} {
		got, err := enable(old, true)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", old, err, diff)
		}
		if again, err := enable(got, true); err != nil || again != got {
			t.Errorf("%q, once more: %q, %v", old, again, err)
		}
		if off, err := enable(got, false); err != nil || off != strings.Replace(got, "\"enableAgents\": true", "\"enableAgents\": false", 1) {
			t.Errorf("%q, switched off: %q, %v", old, off, err)
		}
	}
	for _, old := range []string{"{", "[]", "{\"experimental\": 1}", "{\"experimental\": {}, \"experimental\": {}}"} {
		if got, err := enable(old, true); !problem.Is(err, problem.Usage) {
			t.Errorf("%q: %q, %v", old, got, err)
		}
	}
}

func TestALuaFileIsReplacedOnlyIfItIsOurs(t *testing.T) {
	c, err := ACP.Find("neovim")
	must(t, err)
	odd := Entry{Name: "fox", Command: `C:\a "b"`, Args: []string{"é\n"}}
	first, replaced, err := c.Merge(nil, odd)
	if err != nil || replaced || !strings.Contains(string(first), `"command": "C:\\a \"b\""`) || !strings.Contains(string(first), `["é\n"]`) {
		t.Errorf("a new file: %s, %v, %v", first, replaced, err)
	}
	if got, replaced, err := c.Merge(first, fox); err != nil || !replaced || string(got) != c.FormatFile(fox) {
		t.Errorf("a file of this command: %s, %v, %v", got, replaced, err)
	}
	if got, _, err := c.Merge([]byte("return {}\n"), fox); got != nil || !problem.Is(err, problem.Usage) {
		t.Errorf("a file of the user: %s, %v", got, err)
	}
}

func TestAFileWithoutContentIsRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.md")
	remove := func(b []byte) ([]byte, bool, error) {
		if b != nil && string(b) != "ours" {
			return nil, false, problem.New(problem.Usage, "not ours")
		}
		return nil, false, nil
	}
	if w, err := UpdateFile(path, false, remove); !w.Unchanged || err != nil {
		t.Errorf("a missing file: %+v, %v", w, err)
	}
	must(t, os.WriteFile(path, []byte("theirs"), 0o600))
	if _, err := UpdateFile(path, false, remove); !problem.Is(err, problem.Usage) {
		t.Errorf("another file: %v", err)
	}
	must(t, os.WriteFile(path, []byte("ours"), 0o600))
	for _, dry := range []bool{true, false} {
		w, err := UpdateFile(path, dry, remove)
		if _, statErr := os.Stat(path); w.Unchanged || w.Content != nil || err != nil || (statErr == nil) != dry {
			t.Errorf("dry %v: %+v, %v, then %v", dry, w, err, statErr)
		}
	}
}

func TestAFileKeepsItsModeAndHasOneBackup(t *testing.T) {
	c, _ := MCP.Find("zed")
	path := filepath.Join(t.TempDir(), "zed", "settings.json")
	w, err := c.Write(path, fox)
	if err != nil || !w.Created || w.Backup != "" {
		t.Fatalf("a new file: %+v, %v", w, err)
	}
	must(t, os.WriteFile(path, []byte("{ // mine\n}\n"), 0o640))
	must(t, os.Chmod(path, 0o640))
	if w, err = c.Write(path, fox); err != nil || w.Created || w.Replaced || w.Backup != path+".before-vacancy" {
		t.Errorf("a file without the entry: %+v, %v", w, err)
	}
	first, _ := os.ReadFile(path)
	if w, err = c.Write(path, fox); err != nil || !w.Unchanged {
		t.Errorf("the same entry: %+v, %v", w, err)
	}
	other := fox
	other.URL = "https://other.example/mcp"
	if w, err = c.Write(path, other); err != nil || !w.Replaced {
		t.Errorf("another entry: %+v, %v", w, err)
	}
	kept, _ := os.ReadFile(w.Backup)
	if string(kept) != string(first) {
		t.Errorf("the backup is %q, want the file before the last change", kept)
	}
	for _, file := range []string{path, w.Backup} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
	if names := folder(t, filepath.Dir(path)); !slices.Equal(names, []string{"settings.json", "settings.json.before-vacancy"}) {
		t.Errorf("the folder has %v", names)
	}
}

func folder(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	must(t, err)
	for _, one := range all {
		names = append(names, one.Name())
	}
	return names
}

func TestLinksAndOtherFilesAreRefused(t *testing.T) {
	c, _ := MCP.Find("cursor")
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret.json")
	must(t, os.WriteFile(secret, []byte("{}"), 0o600))
	must(t, os.Symlink(secret, filepath.Join(dir, "link.json")))
	must(t, os.Symlink(dir, filepath.Join(dir, "folder")))
	must(t, os.Mkdir(filepath.Join(dir, "dir.json"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "big.json"), make([]byte, maxFileBytes+1), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "bad.json"), []byte("{\n,}"), 0o600))
	for name, want := range map[string]string{
		"link.json": "is a symbolic link", "folder/new.json": "folder is a symbolic link", "dir.json": "is not a file", "big.json": "has more than", "bad.json": "bad.json was not changed: line 2, column 1",
	} {
		if _, err := c.Write(filepath.Join(dir, name), fox); !problem.Is(err, problem.Usage) || !strings.Contains(problem.AsError(err).Text(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if os.Getuid() != 0 {
		must(t, os.WriteFile(filepath.Join(dir, "unreadable.json"), []byte("{}"), 0))
		if _, err := c.Write(filepath.Join(dir, "unreadable.json"), fox); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("a file that may not be read: %v", err)
		}
	}
	if b, _ := os.ReadFile(secret); string(b) != "{}" {
		t.Errorf("the target of the link is %q", b)
	}
}

// The program may die after each step: the file is then the old one or the new one, and the same
// command completes the change.
func TestACrashLeavesTheOldFileOrTheNewOne(t *testing.T) {
	c, _ := MCP.Find("gemini")
	const before = "{\n  // mine\n  \"a\": 1\n}\n"
	after, _, err := c.Merge([]byte(before), fox)
	must(t, err)
	for n := 1; ; n++ {
		path := filepath.Join(t.TempDir(), "settings.json")
		must(t, os.WriteFile(path, []byte(before), 0o600))
		steps, died := 0, ""
		func() {
			defer func() {
				if cause := recover(); cause != nil {
					died = cause.(string)
				}
			}()
			_, err = c.writeWithSteps(path, fox, func(step string) {
				if steps++; steps == n {
					panic(step)
				}
			})
		}()
		got, readErr := os.ReadFile(path)
		if readErr != nil || string(got) != before && string(got) != string(after) {
			t.Errorf("after %s: %q, %v", died, got, readErr)
		}
		if _, err := c.Write(path, fox); err != nil {
			t.Errorf("once more after %s: %v", died, err)
		}
		if got, _ = os.ReadFile(path); string(got) != string(after) {
			t.Errorf("once more after %s: %q", died, got)
		}
		if died == "" {
			if n < 7 {
				t.Errorf("there are only %d steps", n-1)
			}
			return
		}
	}
}

// The client itself may write its file at the same time: its change is not lost.
func TestAChangeOfTheClientIsNotLost(t *testing.T) {
	c, _ := MCP.Find("zed")
	path := filepath.Join(t.TempDir(), "settings.json")
	must(t, os.WriteFile(path, []byte("{}"), 0o600))
	const theirs = `{"theme": "dark"}`
	_, err := c.writeWithSteps(path, fox, func(step string) {
		if step == "backup" {
			_ = os.WriteFile(path, []byte(theirs), 0o600)
		}
	})
	if got, _ := os.ReadFile(path); !problem.Is(err, problem.Conflict) || string(got) != theirs {
		t.Errorf("%v, and the file is %q", err, got)
	}
}

// Whatever is in a file: a merge fails, or the file means what it meant, with the entry, and its comments are
// there. A second merge changes nothing.
func FuzzMerge(f *testing.F) {
	for _, s := range []string{
		"", "{}", "{\"mcpServers\":{\"fox\":{}}}", "{/*a*/\"x\"/*b*/:1,// c\n}", "{\"a\":{\"b\":[1,2,],},\r\n}", "\xef\xbb\xbf{}", "[mcp_servers.fox]\na=1\n[x]", "mcp_servers.a.b=1",
		"a='''\n[mcp_servers.fox]\n'''\n", "[mcp_servers]\n[mcp_servers.\"fox\"]#c\r\nb=1\r\n", "x=[\n#c\n1]", "{\"context_servers\":{}}", "[[a]]\n[[a]]\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, old []byte) {
		for _, name := range []string{"cursor", "zed", "codex"} {
			c, _ := MCP.Find(name)
			got, _, err := c.Merge(old, fox)
			if problem.Is(err, problem.Internal) {
				t.Fatalf("%s of %q: %v", name, old, err)
			}
			if err != nil {
				continue
			}
			again, _, err := c.Merge(got, fox)
			if err != nil || string(again) != string(got) {
				t.Errorf("%s: %q, then %q, %v", name, got, again, err)
			}
			for line := range strings.Lines(string(old)) {
				if line = strings.TrimSpace(line); (strings.HasPrefix(line, "//") && !c.TOML && !strings.Contains(string(old), "fox")) && !strings.Contains(string(got), line) {
					t.Errorf("%s: %q lost %q", name, got, line)
				}
			}
			var v map[string]any
			if c.TOML {
				err = toml.Unmarshal(got, &v)
			} else {
				var b []byte
				if b, err = hujson.Standardize(got[len(got)-len(strings.TrimPrefix(string(got), "\xef\xbb\xbf")):]); err == nil {
					err = json.Unmarshal(b, &v)
				}
			}
			if err != nil {
				t.Errorf("%s: %q: %v", name, got, err)
			}
		}
	})
}

// must ends the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
