package agentfile_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/agentfile"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// write writes files below a new folder; a file named LINK->TARGET is a link.
func write(t testing.TB, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		name, target, isLink := strings.Cut(name, "->")
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil && isLink {
			err = os.Symlink(target, path)
		} else if err == nil {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// read reads clerk.md with a front matter and a body.
func read(t testing.TB, front, body string, o agentfile.Options) (agentfile.File, error) {
	t.Helper()
	return agentfile.Read(filepath.Join(write(t, map[string]string{"clerk.md": "---\n" + front + "\n---\n" + body}), "clerk.md"), o)
}

func TestAFileIsTheAgentThatItSays(t *testing.T) {
	for _, tt := range []struct{ what, front, substrate, want string }{
		{"a model", "model: qwen3", "", `{"provider":"ollama","model":"qwen3","system":"Be brief."}`},
		{"a server", "model: qwen3\nbase_url: http://127.0.0.1:8000/v1", "", `{"provider":"openai","base_url":"http://127.0.0.1:8000/v1","model":"qwen3","system":"Be brief."}`},
		{"everything", "description: Answers letters\ntier: LOW\nmode: read-write\ntools: Read, Glob\nmodel: m\nmax_turns: 3\nmax_tokens: 9\ntimeout: 5\nallowed_tools: [Grep, Read]\n" +
			"disallowed_tools: Bash\neffort: high\noutput_format: json\nomit: response_format\nfallback_model: n\nmemory: on\nvacants: [archive, mail]\nprovider: ollama\nallow: ollama, openai:m", "",
			`{"description":"Answers letters","provider":"ollama","model":"m","fallback_model":"n","system":"Be brief.","max_tokens":9,"max_turns":3,"timeout":5,"effort":"high","output_format":"json","omit":["response_format"],` +
				`"memory":true,"mode":"read-write","allowed_tools":["Grep","Read","Glob"],"disallowed_tools":["Bash"],"vacants":["archive","mail"],"allow":["ollama","openai:m"]}`},
		{"servers", "model: m\nmcp_servers:\n  files: http://127.0.0.1:9/mcp\n  a_B-1: {type: http, url: https://x.example, required: true}", "",
			`{"provider":"ollama","model":"m","system":"Be brief.","mcp_servers":[{"name":"a_B-1","url":"https://x.example","required":true},{"name":"files","url":"http://127.0.0.1:9/mcp"}]}`},
		{"the flag goes before the file, and that before the tier", "tier: HIGH\nmodel: m\nbase_url: http://127.0.0.1:8000/v1\neffort: low", "ollama:n", `{"provider":"ollama","model":"n","system":"Be brief.","effort":"low"}`},
		{"a tier of a provider", "tier: low\nprovider: gemini\nbudget: 1", "", `{"provider":"gemini","tier":"LOW","budget":1000000,"system":"Be brief."}`},
		{"a provider without a tier", "provider: anthropic", "", `{"provider":"anthropic","tier":"MEDIUM","system":"Be brief."}`},
		{"a provider of the flag", "tier: HIGH\nfallback_model: m", "mistral", `{"provider":"mistral","tier":"HIGH","system":"Be brief."}`},
		{"a tier that is none", "tier: BEST\nprovider: openai", "", `{"provider":"openai","tier":"MEDIUM","system":"Be brief.","warnings":["tier: \"BEST\" is unknown; MEDIUM is used"]}`},
		{"a model before its tier", "tier: HIGH\nprovider: openai\nmodel: gpt-5-nano", "", `{"provider":"openai","model":"gpt-5-nano","system":"Be brief."}`},
		{"the flag instead of a tier", "tier: HIGH", "ollama:n", `{"provider":"ollama","model":"n","system":"Be brief."}`},
		{"no model any more", "model: m\neffort: low\nomit: [stream_options]\nmax_tokens: 5\nfallback_model: n", "echo", `{"provider":"echo","system":"Be brief."}`},
		{"nulls", "model: m\neffort: ~\nvacants:\ntools: []", "", `{"provider":"ollama","model":"m","system":"Be brief."}`},
		{"files for a model", "model: m\ninput: text, image/PNG, application/json", "", `{"provider":"ollama","model":"m","system":"Be brief.","input":["image/png","application/json"]}`},
		{"only text", "model: m\ninput: text", "", `{"provider":"ollama","model":"m","system":"Be brief."}`},
		{"no files for an echo", "model: m\ninput: [image/png]", "echo", `{"provider":"echo","system":"Be brief."}`},
		{"any file for a program", "provider: http\nbase_url: http://127.0.0.1:9/\ninput: application/zip", "", `{"provider":"http","base_url":"http://127.0.0.1:9/","system":"Be brief.","input":["application/zip"]}`},
		{"memory off", "model: m\nmemory: off", "", `{"provider":"ollama","model":"m","system":"Be brief."}`},
		{"what nobody has", "model: m\napproval_mode: default\nbudget: 0.5\ndaily_budget: 1\neffort: max\noutput_format: stream-json\nname: x", "",
			`{"provider":"ollama","model":"m","system":"Be brief.","effort":"high","warnings":["approval_mode: not used, because no provider of this host supports it",` +
				`"effort: high is used, because the providers of this host do not support max","name: not used, because the name of the file is the name of the agent","output_format: not used, because stream-json applies to commands and not to answers",` +
				`"budget: not used, because the model is free","daily_budget: not used, because the model is free"]}`},
		{"money", "model: claude-opus-4-6\nbudget: 0.05\ndaily_budget: 2\nprice: 5/25/0.5", "",
			`{"provider":"anthropic","model":"claude-opus-4-6","budget":50000,"daily_budget":2000000,"price":{"input":5000000,"output":25000000,"cached":500000},"system":"Be brief."}`},
		{"a price without that of kept input", "model: m\nbase_url: https://x.example/v1\nsecret: k\nprice: 1/2", "",
			`{"provider":"openai","base_url":"https://x.example/v1","model":"m","secret":"k","price":{"input":1000000,"output":2000000,"cached":1000000},"system":"Be brief."}`},
		{"a server of one's own with a key", "model: m\nbase_url: https://x.example/v1\nsecret: k\nprice: 0\nbudget: 1", "",
			`{"provider":"openai","base_url":"https://x.example/v1","model":"m","secret":"k","price":{"input":0,"output":0,"cached":0},"system":"Be brief.","warnings":["budget: not used, because the model is free"]}`},
		{"another model without its money", "model: claude-opus-4-6\nbudget: 0.05\nprice: 5/25\nsecret: k", "echo", `{"provider":"echo","system":"Be brief."}`},
		{"a free model without a secret", "model: claude-opus-4-6\nbudget: 0.05\nsecret: k", "ollama:m",
			`{"provider":"ollama","model":"m","system":"Be brief.","warnings":["budget: not used, because the model is free"]}`},
		{"folders", "model: m\ninclude_dirs: .vault,../x,/etc", "",
			`{"provider":"ollama","model":"m","system":"Be brief.","include_dirs":[".vault"],"warnings":[` +
				`"include_dirs: path ../x is not used, because it is not below the root","include_dirs: path /etc is not used, because it is not below the root"]}`},
		{"no folder that is below the root", "model: m\ninclude_dirs: ../x", "", // must not read all folders
			`{"provider":"ollama","model":"m","system":"Be brief.","include_dirs":[".vault/"],"warnings":["include_dirs: path ../x is not used, because it is not below the root"]}`},
		{"files of a workspace", "model: m\nworkspace: second\ninclude_dirs: [docs/]\nlock_paths: src/,../y", "",
			`{"provider":"ollama","model":"m","system":"Be brief.","workspace":"second","include_dirs":["docs/"],"lock_paths":["src/"],"warnings":["lock_paths: path ../y is not used, because it is not below the root"]}`},
		{"a shell", "model: m\ntools: Read,Bash", "",
			`{"provider":"ollama","model":"m","system":"Be brief.","allowed_tools":["Read","Bash"],"warnings":["tools: Bash is not available, because a host does not run commands"]}`},
	} {
		f, err := read(t, tt.front, "\nBe brief.\n\n", agentfile.Options{Substrate: tt.substrate})
		if err != nil {
			t.Errorf("%s: %v", tt.what, err)
			continue
		}
		if diff := cmp.Diff(tt.want, string(f.Agent.Blob())); diff != "" || f.Name != "clerk" {
			t.Errorf("%s: %s (-want +got):\n%s", tt.what, f.Name, diff)
		}
	}
}

func TestWhatIsWrongInAFileIsNamed(t *testing.T) {
	for front, want := range map[string]string{
		"model: m\nmodle: n":                                                   `"modle" is not a setting of an agent; did you mean model?`,
		"model: m\nmodle: n\ncolour: red\nzzz: 1":                              `"colour", "modle", "zzz" are not settings of an agent; did you mean color, model?`,
		"model: [a]":                                                           "model: expected a string",
		"model: m\nmax_turns: 99":                                              "max_turns: expected 1 to 64, got 99",
		"model: m\nworkspace: Main":                                            `workspace: expected 1 to 32 of a-z, 0-9, - and _, for example main, got "Main"`,
		"model: m\nmax_turns: many":                                            "max_turns: expected",
		"model: m\neffort: huge":                                               "effort: expected one of low, medium, high",
		"model: m\nmemory: sometimes":                                          "memory: expected on or off",
		"model: m\nvacants: {a: b}":                                            "vacants: expected a list of strings",
		"model: m\nvacants: a, a":                                              "vacants[1]",
		"model: m\ninput: application/zip":                                     "input[0]: expected a type that ollama can read: image/png, image/jpeg, image/gif, image/webp, application/json, text/...",
		"model: gemini-3-pro\ninput: image/gif":                                "input[0]: expected a type that gemini can read: image/png, image/jpeg, image/webp, application/json",
		"model: m\ninput: image/png;q=1":                                       "input[0]: expected a media type in lower case without parameters, such as image/png",
		"model: m\ninput: image/png, image/png":                                "input[1]: expected a unique text",
		"provider: echo\ninput: image/png":                                     "input[0]: expected text, because echo reads only text",
		"model: m\nbudget: lots":                                               "budget: expected dollars",
		"model: m\nbudget: -1":                                                 "budget: expected dollars",
		"model: claude-opus-4-6\nbudget: 0.0000001":                            "budget: expected dollars",
		"model: claude-opus-4-6\nbudget: 9000000":                              "budget: expected 0 to",
		"model: m\nprice: 5":                                                   "price: expected dollars per million tokens as IN/OUT",
		"model: m\nprice: 1/2/3/4":                                             "price: expected dollars per million tokens as IN/OUT",
		"model: m\nprice: 2000/1":                                              "price.input: expected",
		"provider: echo\nprice: 1/2":                                           "price: expected none, because echo is not a model",
		"model: m\nsecret: key":                                                "secret: expected none, because ollama uses no secret",
		"model: m\nallow: [openai]":                                            "allow: expected a list that includes the agent's own substrate, for example ollama, got openai",
		"model: m\nmcp_servers: {a: {}}":                                       "mcp_servers.a: expected a URL",
		"model: m\nmcp_servers: {a: {url: http://x.example, required: 1}}":     "mcp_servers.a.required: expected true or false",
		"model: m\nmcp_servers: [x]":                                           "mcp_servers: expected servers by name",
		"model: m\nmcp_servers: {a: {command: npx}}":                           "mcp_servers.a: expected only url and required",
		"model: m\nmcp_servers: {a: {url: http://x.example, headers: {a: b}}}": "mcp_servers.a: expected only url and required",
		"model: m\nmcp_servers: {a b: http://x.example}":                       "mcp_servers[0].name",
		"model: m\nmcp_servers: {a: ftp://x.example}":                          "mcp_servers[0].url",
		"tier: LOW":                     "tier: expected a model, or a provider (--substrate anthropic",
		"tier: [LOW]\nprovider: gemini": "tier: expected HIGH, MEDIUM or LOW",
		"description: x":                "model: expected a value for the provider",
		"provider: http\nmodel: m":      "base_url: expected a value",
		"model: m\nmodel: n":            "twice",
		"- model":                       "expected settings such as model",
		"":                              "it is empty",
		"model: *x":                     "neither JSON nor YAML",
		"model: m\nprovider: echo":      "model: expected none",
	} {
		_, err := read(t, front, "x", agentfile.Options{})
		if p := problem.AsError(err); err == nil || p.Kind != problem.Usage || !strings.Contains(p.Text(), want) || !strings.Contains(p.Text(), "clerk.md") {
			t.Errorf("%q: %v, want a usage error that says %q and names the file", front, err, want)
		}
	}
	dir := write(t, map[string]string{"none.md": "Just text.", "open.md": "---\nmodel: m\n", "large.md": "---\nmodel: m\n---\n" + strings.Repeat("x", 70<<10), "huge.md": strings.Repeat("x", 2<<20)})
	for name, want := range map[string]problem.Kind{"none.md": problem.Usage, "open.md": problem.Usage, "large.md": problem.TooLarge, "huge.md": problem.TooLarge, "missing.md": problem.NotFound} {
		if _, err := agentfile.Read(filepath.Join(dir, name), agentfile.Options{}); !problem.Is(err, want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	if _, err := agentfile.Read(filepath.Join(dir, "large.md"), agentfile.Options{Root: filepath.Join(dir, "nowhere")}); !problem.Is(err, problem.NotFound) {
		t.Errorf("a root that is not there: %v", err)
	}
	for _, ending := range []string{"---\r\nmodel: m\r\n---\r\nHi", "\uFEFF---\nmodel: m\n---", "---\nmodel: m\n---\n"} {
		f, err := agentfile.Read(filepath.Join(write(t, map[string]string{"a.md": ending}), "a.md"), agentfile.Options{})
		if err != nil || f.Agent.Model != "m" {
			t.Errorf("%q: %+v, %v", ending, f.Agent, err)
		}
	}
}

func TestThePromptHasItsPartsInOrder(t *testing.T) {
	dir := write(t, map[string]string{
		"agents/clerk.md":        "---\nmodel: m\n---\nPersona\n@note.md\nmore",
		"agents/note.md":         "Note",
		".claude/CLAUDE.md":      "Instructions\n@docs/home.md\n",
		".claude/docs/home.md":   "Home",
		".claude/rules/b.md":     "Rule b",
		".claude/rules/a.md":     "Rule a",
		".claude/rules/empty.md": " \n",
		".claude/rules/no.txt":   "no",
	})
	for root, want := range map[string]string{
		dir: "Instructions\nHome\n\nPersona\nNote\nmore\n\nRule a\n\nRule b", "": "Persona\nNote\nmore", filepath.Join(dir, "agents"): "Persona\nNote\nmore",
	} {
		f, err := agentfile.Read(filepath.Join(dir, "agents/clerk.md"), agentfile.Options{Root: root})
		if diff := cmp.Diff(want, f.Agent.System); diff != "" || err != nil {
			t.Errorf("root %q: %v (-want +got):\n%s", root, err, diff)
		}
	}
}

func TestIncludesAreResolvedOrMarked(t *testing.T) {
	deep := map[string]string{"root/agents/clerk.md": "---\nmodel: m\n---\n@d1.md"}
	for i := range 12 {
		deep["root/agents/d"+string(rune('1'+i))+".md"] = "@d" + string(rune('2'+i)) + ".md"
	}
	for _, tt := range []struct {
		what  string
		files map[string]string
		want  string
	}{
		{"from the root", map[string]string{"root/agents/clerk.md": "@shared.md", "root/shared.md": "Shared"}, "Shared"},
		{"beside goes first", map[string]string{"root/agents/clerk.md": "@shared.md", "root/shared.md": "Shared", "root/agents/shared.md": "Near"}, "Near"},
		{"in turn, from where they are", map[string]string{"root/agents/clerk.md": "@sub/a.md", "root/agents/sub/a.md": "A\n@b.md", "root/agents/sub/b.md": "B"}, "A\nB"},
		{"twice is no cycle", map[string]string{"root/agents/clerk.md": "@a.md\n@a.md", "root/agents/a.md": "A"}, "A\nA"},
		{"a cycle", map[string]string{"root/agents/clerk.md": "@a.md", "root/agents/a.md": "A\n@b.md", "root/agents/b.md": "@a.md"}, "A\n<!-- @a.md: it includes itself -->"},
		{"itself", map[string]string{"root/agents/clerk.md": "@clerk.md"}, "<!-- @clerk.md: it includes itself -->"},
		{"missing", map[string]string{"root/agents/clerk.md": "@nothing.md\nrest"}, "<!-- @nothing.md: not found -->\nrest"},
		{"out of the root", map[string]string{"root/agents/clerk.md": "@../../secret.md", "secret.md": "Secret"}, "<!-- @../../secret.md: outside of the root -->"},
		{"an absolute path", map[string]string{"root/agents/clerk.md": "@/etc/passwd"}, "<!-- @/etc/passwd: outside of the root -->"},
		{"a link out of the root", map[string]string{"root/agents/clerk.md": "@link.md", "root/agents/link.md->../../secret.md": "", "secret.md": "Secret"}, "<!-- @link.md: not readable -->"},
		{"a folder", map[string]string{"root/agents/clerk.md": "@sub", "root/agents/sub/x.md": "x"}, "<!-- @sub: not readable -->"},
		{"no comment inside of a comment", map[string]string{"root/agents/clerk.md": "@a-->b.md"}, "<!-- @a- ->b.md: not found -->"},
		{"what is no include", map[string]string{"root/agents/clerk.md": "@https://x.example/a.md\nmail@x.example\n @a.md\n@two words\n@"}, "@https://x.example/a.md\nmail@x.example\n @a.md\n@two words\n@"},
		{"too deep", deep, "<!-- @d9.md: more than 8 files deep -->"},
	} {
		if !strings.HasPrefix(tt.files["root/agents/clerk.md"], "---") {
			tt.files["root/agents/clerk.md"] = "---\nmodel: m\n---\n" + tt.files["root/agents/clerk.md"]
		}
		dir := write(t, tt.files)
		f, err := agentfile.Read(filepath.Join(dir, "root/agents/clerk.md"), agentfile.Options{Root: filepath.Join(dir, "root")})
		if diff := cmp.Diff(tt.want, f.Agent.System); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", tt.what, err, diff)
		}
	}
}

func TestTheFileOfAProviderGoesFirst(t *testing.T) {
	dir := write(t, map[string]string{"clerk.md": "---\nmodel: m\n---\nfor all", "ollama/clerk.md": "---\nmodel: n\n---\nfor ollama\n@near.md", "ollama/near.md": "near"})
	f, err := agentfile.Read(filepath.Join(dir, "clerk.md"), agentfile.Options{})
	if err != nil || f.Agent.Model != "n" || f.Agent.System != "for ollama\nnear" || f.Name != "clerk" {
		t.Errorf("Read() = %+v, %v; want the file of ollama", f, err)
	}
	if f, err = agentfile.Read(filepath.Join(dir, "clerk.md"), agentfile.Options{Substrate: "mock"}); err != nil || f.Agent.System != "for all" {
		t.Errorf("Read() = %+v, %v; want the file of all", f, err)
	}
}

func TestSettingsAreChangedOneByOne(t *testing.T) {
	const agent = `{"provider":"ollama","model":"m","system":"x","max_turns":3,"allowed_tools":["a"],"memory":true,"warnings":["w"]}`
	for settings, want := range map[string]string{
		"model=n":                         `{"provider":"ollama","model":"n","system":"x","max_turns":3,"memory":true,"allowed_tools":["a"],"warnings":["w"]}`,
		"max_turns=|memory=off|tools=b,c": `{"provider":"ollama","model":"m","system":"x","allowed_tools":["b","c"],"warnings":["w"]}`,
		"system=You = me|allowed_tools=":  `{"provider":"ollama","model":"m","system":"You = me","max_turns":3,"memory":true,"warnings":["w"]}`,
		"effort=max":                      `{"provider":"ollama","model":"m","system":"x","max_turns":3,"effort":"high","memory":true,"allowed_tools":["a"],"warnings":["w","effort: high is used, because the providers of this host do not support max"]}`,
		"provider=mock|timeout=4":         `{"provider":"mock","model":"m","system":"x","max_turns":3,"timeout":4,"memory":true,"allowed_tools":["a"],"warnings":["w"]}`,
	} {
		got, err := agentfile.ApplySettings([]byte(agent), strings.Split(settings, "|"))
		if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", settings, err, diff)
		}
	}
	got, err := agentfile.ApplySettings([]byte(`{"provider":"anthropic","model":"claude-opus-4-6"}`), []string{"tier=LOW"})
	if want := `{"provider":"anthropic","tier":"LOW"}`; err != nil || string(got) != want {
		t.Errorf("tier=LOW: %s, %v; want %s", got, err, want)
	}
	for settings, want := range map[string]string{
		"modle=n": "modle", "tier=LOW": "provider: expected anthropic, bedrock, gemini, mistral or openai together with a tier", "max_turns=many": "max_turns", "max_turns=99": "max_turns", "memory=maybe": "memory", "model=": "model", "secret=x": "secret", "mcp_servers=x": "mcp_servers", "provider=echo": "model",
	} {
		if got, err := agentfile.ApplySettings([]byte(agent), strings.Split(settings, "|")); err == nil || !strings.Contains(problem.AsError(err).Text(), want) {
			t.Errorf("%s: %s, %v; want a refusal that names %s", settings, got, err, want)
		}
	}
	for key, want := range map[string]bool{"model": true, "system": true, "tools": true, "name": false, "capability": false, "substrate": false} {
		if agentfile.CanSet(key) != want {
			t.Errorf("CanSet(%s) = %v", key, !want)
		}
	}
}

// Every file is an agent with one form, or is refused; an error never quotes text
// from outside of its root.
func FuzzRead(f *testing.F) {
	f.Add([]byte("---\nmodel: m\nvacants: a, b\n---\nHi\n@x.md\n@../secret.md"))
	f.Add([]byte("---\n{\"provider\":\"mock\"}\n---\n```mock\ntext: x\n```"))
	dir := f.TempDir()
	root := filepath.Join(dir, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "secret.md"), []byte("the secret of the host"), 0o644); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		path := filepath.Join(root, "a.md")
		if err := os.WriteFile(path, doc, 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := agentfile.Read(path, agentfile.Options{Root: root})
		if err == nil {
			err = got.Agent.Check()
		} else if k := problem.AsError(err).Kind; k != problem.Usage && k != problem.TooLarge && k != problem.Malformed && k != problem.NotJSON {
			t.Errorf("Read() = %v of kind %s", err, k)
			return
		} else {
			return
		}
		if err != nil || slices.Contains(strings.Split(got.Agent.System, "\n"), "the secret of the host") && !strings.Contains(string(doc), "the secret") {
			t.Errorf("Read() = %+v, %v", got, err)
		}
	})
}
