package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud/awscloud"
	"github.com/vacancy-host/vacancy/tests/acpagent"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"vacancy": func() {
			os.Exit(cli.Run(context.Background(), cli.Seams{Program: os.Args[0]}, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
		},
		"vacancy-aws": func() {
			os.Exit(cli.Run(context.Background(), cli.Seams{Program: os.Args[0], OpenCloud: awscloud.Open}, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
		},
		"stranger": strangerCommand,
		"hammer":   hammerCommand,
		"acpagent": func() { acpagent.Run(os.Getenv("ACP_AGENT")) },
	})
}

func TestStories(t *testing.T) {
	// Stories run curl.
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatalf("curl: %v; install it with the system's package manager", err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		Setup:               setup,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"dev":       startDev,
			"serve":     startServe,
			"port":      freePort,
			"cert":      makeCert,
			"stopdev":   stopDev,
			"capture":   capture,
			"hint":      runHint,
			"readme":    readmeLine,
			"readmes":   readmeCommands,
			"agent":     startAgent,
			"model":     startModel,
			"mcp":       startMCP,
			"listening": listening,
			"example":   example,
			"mode":      mode,
			"substrate": startSubstrate,
			"inner":     startInner,
			"keyedhost": startKeyed,
			"stripe":    startStripe,
			"issuer":    startIssuer,
			"token":     makeToken,
			"webhook":   writeWebhook,
		},
	})
}

func setup(env *testscript.Env) error {
	// Programs in Go are built from the cache that has the standard library.
	if cache, err := os.UserCacheDir(); err == nil && os.Getenv("GOCACHE") == "" {
		env.Setenv("GOCACHE", filepath.Join(cache, "go-build"))
	}
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("VACANCY_HOME", filepath.Join(env.WorkDir, "home"))
	examples, err := filepath.Abs(filepath.Join("..", "..", "cmd", "vacancy", "examples"))
	if err != nil {
		return err
	}
	env.Setenv("EXAMPLES", examples)
	env.Values[hostKey{}] = &host{}
	env.Values[keyedHostKey{}] = &keyedHost{}
	return nil
}

// capture is the command: capture NAME REGEXP FILE sets the variable NAME to
// the first group of the expression's match in a file ("stdout" is the last
// command's output).
func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: capture NAME REGEXP FILE")
	}
	re, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	found := re.FindStringSubmatch(ts.ReadFile(args[2]))
	if len(found) < 2 {
		ts.Fatalf("%s does not match %s:\n%s", args[2], args[1], ts.ReadFile(args[2]))
	}
	ts.Setenv(args[0], found[1])
}

// runHint is the command: hint [WORD=VALUE...], which runs the command that the last error
// printed after "try: " as it stands, with a value in place of each word.
func runHint(ts *testscript.TestScript, neg bool, args []string) {
	_, line, found := strings.Cut("\n"+ts.ReadFile("stderr"), "\ntry: ")
	if !found {
		ts.Fatalf("the last error has no hint:\n%s", ts.ReadFile("stderr"))
	}
	line, _, _ = strings.Cut(line, "\n")
	for _, arg := range args {
		word, value, ok := strings.Cut(arg, "=")
		whole := regexp.MustCompile(`\b` + regexp.QuoteMeta(word) + `\b`)
		if !ok || !whole.MatchString(line) {
			ts.Fatalf("usage: hint [WORD=VALUE...], with words of %q; got %q", line, arg)
		}
		line = whole.ReplaceAllLiteralString(line, value)
	}
	ts.Logf("$ %s", line)
	if err := ts.Exec("sh", "-c", line); (err != nil) != neg {
		ts.Fatalf("%s: %v, want an error: %v\n%s%s", line, err, neg, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

// readmeLine is the command: readme FILE SUBSTRING writes the one line of the
// READMEs with the substring to FILE, so that the story runs the README's
// command.
func readmeLine(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: readme FILE SUBSTRING")
	}
	var found []string
	for _, readme := range readmes {
		b, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(readme)))
		ts.Check(err)
		for line := range strings.Lines(string(b)) {
			if strings.Contains(line, args[1]) && !strings.Contains(line, "`") {
				found = append(found, line)
			}
		}
	}
	if len(found) != 1 {
		ts.Fatalf("the READMEs have %d lines with %q, want 1", len(found), args[1])
	}
	// The README has the default address; a story has a free port.
	line := strings.ReplaceAll(found[0], readmeHost, ts.Getenv("URL"))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte("set -e\n"+line), 0o600))
}

// mode is the command: mode -rw------- FILE..., which checks permission bits.
func mode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: mode -rw------- FILE...")
	}
	for _, name := range args[1:] {
		st, err := os.Stat(ts.MkAbs(name))
		ts.Check(err)
		if got := st.Mode().Perm().String(); got != args[0] {
			ts.Fatalf("%s has mode %s, want %s", name, got, args[0])
		}
	}
}
