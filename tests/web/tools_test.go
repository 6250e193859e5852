package web

import (
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the types of the module")

// tsc runs TypeScript with arguments, strictly.
func tsc(t *testing.T, args ...string) ([]byte, error) {
	t.Helper()
	args = append([]string{filepath.Join(tools(t), "typescript", "bin", "tsc"), "--allowJs", "--checkJs", "--strict", "--target", "es2024", "--module", "esnext",
		"--lib", "es2024,dom,dom.iterable,dom.asynciterable"}, args...)
	return exec.CommandContext(t.Context(), "node", args...).CombinedOutput()
}

func TestAssetsHaveStrictTypes(t *testing.T) {
	scripts, err := filepath.Glob(assets + "/*.js")
	if err != nil || len(scripts) < 2 {
		t.Fatalf("%d scripts in %s, %v", len(scripts), assets, err)
	}
	if out, err := tsc(t, append(scripts, "--noEmit")...); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// vacant.js and merkle.js have at most 1,200 lines, and TypeScript wrote its types.
func TestPackageHasTheTypesOfItsScripts(t *testing.T) {
	dir, lines := t.TempDir(), 0
	if out, err := tsc(t, assets+"/vacant.js", assets+"/merkle.js", assets+"/receipt.js", "--declaration", "--emitDeclarationOnly", "--outDir", dir); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"vacant", "merkle", "receipt"} {
		script, err := os.ReadFile(filepath.Join(assets, name+".js"))
		must(t, err)
		if name != "receipt" {
			lines += strings.Count(string(script), "\n")
		}
		want, err := os.ReadFile(filepath.Join(dir, name+".d.ts"))
		must(t, err)
		path := filepath.Join(assets, "types", name+".d.ts")
		if *update {
			must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, want, 0o644)))
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != string(want) {
			t.Errorf("%s is not what TypeScript says of the script, %v: run this test with -update", path, err)
		}
	}
	if lines > 1200 {
		t.Errorf("vacant.js and merkle.js have %d lines, want at most 1200", lines)
	}
}

// The harness reports what a page does wrong, and drives a page that does nothing wrong.
func TestHarnessReportsFaults(t *testing.T) {
	elsewhere := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(elsewhere.Close)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /good", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", policy)
		_, _ = w.Write([]byte(`<!doctype html><html lang="en"><title>Good</title><meta name="viewport" content="width=device-width"><script src="/good.js" type="module"></script>
			<main><h1>Good</h1><label>Name <input id="name"></label> <label>File <input type="file" id="file"></label> <button>Greet</button> <p role="status"></p></main></html>`))
	})
	mux.HandleFunc("GET /good.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = w.Write([]byte(`document.querySelector("button").onclick = async () => {
			const file = document.querySelector("#file").files[0];
			document.querySelector("p").textContent = document.querySelector("#name").value + " has " + (await file.text());
		};`))
	})
	mux.HandleFunc("GET /bad", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "script-src 'self'")
		_, _ = w.Write([]byte(`<!doctype html><html lang="en"><title>Bad</title><h1 style="width:2000px">Bad</h1><img src="` + elsewhere.URL + `/a.png">
			<script>document.title = "ran"</script><script src="/missing.js"></script><script src="/bad.js"></script></html>`))
	})
	mux.HandleFunc("GET /bad.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = w.Write([]byte(`console.error("told"); addEventListener("load", () => { document.body.dataset.done = "yes"; throw new Error("thrown"); });`))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)

	good := newPage(t, server.URL+"/good")
	file := filepath.Join(t.TempDir(), "file.txt")
	must(t, os.WriteFile(file, []byte("a file"), 0o600))
	good.fill("#name", "Ada")
	good.drop("#file", file)
	good.click("button")
	good.until(`document.querySelector("p").textContent !== ""`)
	if got := good.text("p"); got != "Ada has a file" {
		t.Errorf("the page says %q", got)
	}
	good.accessible("harness")

	bad := newPage(t, server.URL+"/bad")
	bad.until(`document.body.dataset.done === "yes"`)
	bad.eval("new Promise((done) => setTimeout(done))", nil) // the events of the page came before this answer
	faults := strings.Join(bad.takeFaults(), "\n")
	for _, want := range []string{"content security policy: script-src", "console error: \"told\"", "uncaught: ", "thrown", "missing asset: " + server.URL + "/missing.js", "foreign request: " + elsewhere.URL + "/a.png"} {
		if !strings.Contains(faults, want) {
			t.Errorf("the faults are\n%s\nwant %q", faults, want)
		}
	}
	if found := strings.Join(bad.violations("light", 320), "\n"); !strings.Contains(found, "image-alt") || !strings.Contains(found, "scrolls horizontally") {
		t.Errorf("the violations are %s", found)
	}
}
