package cli

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/clitest"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/network/jws"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

var snippetLanguages = []string{"curl", "python", "js", "go", "openai", "mcp"}

func TestSnippetsAreShownAsWritten(t *testing.T) {
	s := newShell(t)
	s.must("create", "scribe", "--capability", "repeats")
	for _, lang := range snippetLanguages {
		clitest.CompareGolden(t, "snippet-"+lang, s.must("snippet", "scribe", "--lang", lang))
	}
	clitest.CompareGolden(t, "snippet.json", s.must("snippet", "scribe", "--json"))
	free := map[string]string{}
	for _, lang := range snippetLanguages {
		free[lang] = s.must("snippet", "scribe", "--lang", lang)
	}
	for _, price := range [][]string{{"0.002"}, {"0.002", "--free", "1"}} {
		s.must(append([]string{"price", "scribe"}, price...)...)
		for _, lang := range snippetLanguages {
			if lang == "mcp" {
				clitest.CompareGolden(t, "snippet-paid-mcp", s.must("snippet", "scribe", "--lang", lang))
			} else if got := s.must("snippet", "scribe", "--lang", lang); got != free[lang] {
				t.Errorf("at the price %s, the snippet in %s is another one:\n%s", price, lang, got)
			}
		}
	}
}

// hostileEndpoints lists bases of endpoints by which a hostile host may try to run commands.
var hostileEndpoints = []string{
	`https://evil.example/$(echo>pwned)`, "https://evil.example/`echo>pwned`", `https://evil.example/";echo>pwned;"`,
	`https://evil.example/';echo>pwned;'`, `https://$(>pwned).example`, `https://evil.example/'+process.exit()+'`,
	`https://evil.example/\");panic("`, `https://evil.example/${process.exit()}`, `https://evil.example/{{.Key}}`,
	"https://evil.example/\ntouch pwned\n#", "https://evil.example/\r\ntouch pwned", "https://evil.example/\u2028touch pwned", "javascript:alert(1)//", "javascript://evil.example/",
	`https://user:pass@evil.example`, `https://evil.example/?x=`, `https://evil.example/#`, `$(echo>pwned)`, ``,
	`https://"$(touch$IFS"pwned")".example`, `https://evil.example/%24%28echo>pwned%29`,
}

// A host that the operator talks to chooses the endpoint, the name and the texts of its
// vacants. Nothing of it gets out of its quotes in what is printed for a shell or a program.
func TestNothingOfAHostileHostRunsInWhatIsHandedOut(t *testing.T) {
	const id = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
	const text = "TEXT-OF-THE-VACANT"
	printed := 0
	for _, base := range hostileEndpoints {
		host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			v := map[string]any{
				"vacant_id": id, "name": "scribe", "state": "ACTIVE", "capability_text": text, "substrate": text, "tenant": "t", "created": "2026-05-06T00:00:00+00:00",
				"endpoint": base + "/v/" + id + "/a2a/message/send", "card": map[string]any{"capability_text": text},
			}
			_ = json.NewEncoder(w).Encode(v)
		}))
		s := newShell(t)
		s.env["VACANCY_OPERATOR_KEY"] = "key"
		dir := t.TempDir()
		var shown struct{ Address string }
		if code, out, _ := s.run("", "snippet", "scribe", "--json", "--host", host.URL); code == 0 {
			must(t, json.Unmarshal([]byte(out), &shown))
			printed++
		}
		for _, lang := range snippetLanguages {
			code, out, errs := s.run("", "snippet", "scribe", "--lang", lang, "--host", host.URL)
			if code != 0 {
				if code != problem.ExitUntrusted || out != "" || !strings.Contains(errs, "the host's answer has no URL of scribe") {
					t.Errorf("snippet of %q = exit %d, %q, %q", base, code, out, errs)
				}
				continue
			}
			if strings.Contains(out, text) {
				t.Errorf("snippet --lang %s has a text of the vacant:\n%s", lang, out)
			}
			if got, want := strings.Count(out, "\n"), len(snippetLines(t, lang)); got != want {
				t.Errorf("snippet --lang %s of %q has %d lines, want %d:\n%s", lang, base, got, want, out)
			}
			url := printedBy(t, dir, lang, out)
			if want := shown.Address; strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(url, "text"), "mcp"), "v1") != want || !strings.HasPrefix(want, "https://") || strings.ContainsAny(want, "@?#") || strings.ContainsAny(url, "\n\r ") {
				t.Errorf("snippet --lang %s of %q calls %q, want %q", lang, base, url, want)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "pwned*")); len(left) > 0 {
			t.Errorf("the snippet of %q ran a command of the host", base)
		}
		host.Close()
	}
	if printed < 8 {
		t.Errorf("%d of %d hostile hosts got a snippet printed: the others prove no quoting", printed, len(hostileEndpoints))
	}
}

// A card of a hostile host is signed by its vacant or refused, and nothing of the card gets into
// the program but the id: its name and address come from the URL that a person typed.
func TestNothingOfAHostileCardRunsInASnippet(t *testing.T) {
	key, err := identity.NewKey(rand.Reader)
	must(t, err)
	const text = `$(touch pwned) ' " \u2028`
	for _, tc := range []struct {
		name   string
		forged bool // the signature is of another card
		path   string
		want   string // the vacant's name in the program
	}{
		{"by its name", false, "/v/scribe/", "scribe"},
		{"by its id", false, "/v/" + key.ID().String(), key.ID().String()},
		{"by a name that is none", false, "/v/$(touch%20pwned)/", key.ID().String()},
		{"forged", true, "/v/scribe/", ""},
		{"of another vacant", false, "/v/" + strings.Repeat("ab", 32), ""},
	} {
		host := httptest.NewServer(nil)
		member := func(key, value string) canon.Member {
			return canon.Member{Key: key, Value: canon.NewString(value)}
		}
		object := func(key string, members ...canon.Member) canon.Member {
			return canon.Member{Key: key, Value: canon.NewArray(canon.NewObject(members...))}
		}
		members := []canon.Member{
			member("name", text), member("description", text), member("version", "1"),
			object("supportedInterfaces", member("url", host.URL+"/"+text), member("protocolBinding", "JSONRPC"), member("protocolVersion", "1.0")),
			{Key: "capabilities", Value: canon.NewObject(object("extensions", member("uri", a2awire.Extension),
				canon.Member{Key: "params", Value: canon.NewObject(member("vacant_id", key.ID().String()), member("price", "2000"))}))},
		}
		signed := canon.NewObject(members...).AppendJCS(nil)
		if tc.forged {
			signed = append(signed, ' ')
		}
		protected, signature, err := jws.Sign(t.Context(), key, signed)
		must(t, err)
		body := canon.NewObject(append(members, object("signatures", member("protected", protected), member("signature", signature)))...).AppendJCS(nil)
		host.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
		s, dir := newShell(t), t.TempDir()
		for _, lang := range []string{"curl", "python", "js", "go"} {
			code, out, errs := s.run("", "snippet", host.URL+tc.path, "--lang", lang)
			if tc.want == "" {
				if code != problem.ExitUntrusted || out != "" {
					t.Errorf("%s: snippet = exit %d, %q, %q; want a refusal", tc.name, code, out, errs)
				}
				continue
			}
			if code != 0 || strings.Contains(out, "touch") {
				t.Errorf("%s: snippet --lang %s = exit %d, %q:\n%s", tc.name, lang, code, errs, out)
			}
			if got, want := strings.TrimSuffix(printedBy(t, dir, lang, out), "text"), host.URL+"/v/"+tc.want+"/"; got != want {
				t.Errorf("%s: snippet --lang %s calls %q, want %q", tc.name, lang, got, want)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "pwned*")); len(left) > 0 {
			t.Errorf("%s: the snippet ran a command of the host", tc.name)
		}
		host.Close()
	}
}

// snippetLines returns the lines of the snippet that an honest host's vacant has.
func snippetLines(t *testing.T, lang string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "snippet-"+lang+".golden"))
	must(t, err)
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// printedBy returns the URL of a snippet as its language reads it. The shell's snippet is run
// with a curl that answers with its last argument; of the others, the line of the URL is run.
func printedBy(t *testing.T, dir, lang, program string) string {
	t.Helper()
	var literal string
	for line := range strings.Lines(program) {
		for _, begin := range []string{"URL = ", "const url = ", "\"url\": "} {
			if rest, ok := strings.CutPrefix(strings.TrimSpace(line), begin); ok {
				literal = strings.TrimSuffix(strings.TrimSpace(rest), ";")
			}
		}
	}
	var cmd *exec.Cmd
	switch lang {
	case "curl":
		fake := "#!/bin/sh\nfor last; do :; done\nprintf %s200 \"$last\"\n"
		must(t, os.WriteFile(filepath.Join(dir, "curl"), []byte(fake), 0o755))
		cmd = exec.Command("/bin/sh", "-c", program)
		cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin"}
	case "python", "openai":
		cmd = exec.Command("python3", "-c", "print("+literal+", end='')")
	case "js":
		cmd = exec.Command("node", "-e", "process.stdout.write("+literal+")")
	default: // a literal of Go is one of JSON here
		var url string
		if err := json.Unmarshal([]byte(literal), &url); err != nil {
			t.Errorf("%s: %v", literal, err)
		}
		return url
	}
	if _, err := exec.LookPath(cmd.Args[0]); err != nil {
		t.Skip("the program of this snippet is not installed: ", err)
	}
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", lang, err, out)
	}
	if lang == "curl" {
		out = bytes.TrimSuffix(out, []byte("\n"))
	}
	return string(out)
}
