package e2e

import (
	"cmp"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/vacancy-host/vacancy/shared/await"
)

// readmeHost, readmeAgent and readmeIssuer are addresses that the READMEs use. A story has a free port,
// a vacant for the agent, and may have an issuer.
const (
	readmeHost   = "http://127.0.0.1:8080"
	readmeAgent  = "https://agents.example.org/translator"
	readmeIssuer = "https://login.example.com"
)

// readmes are the pages with commands, in the order in which a newcomer reads them.
var readmes = []string{
	"README.md", "cmd/vacancy/README.md", "shared/front/account/README.md", "shared/host/billing/tokens/README.md", "shared/front/openai/README.md",
	"shared/front/mcpserver/README.md", "shared/front/teamapi/README.md", "shared/front/agp/README.md", "shared/front/a2a/README.md",
	"shared/front/standalone/README.md", "infra/README.md",
}

// readmeText is the text of a page with the story's addresses.
func readmeText(ts *testscript.TestScript, page string) string {
	b, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(page)))
	ts.Check(err)
	return strings.NewReplacer(readmeHost, ts.Getenv("URL"), readmeAgent, ts.Getenv("URL")+"/v/translator", readmeIssuer, cmp.Or(ts.Getenv("ISSUER"), readmeIssuer)).Replace(string(b))
}

// blocks are the code blocks of a language in a page.
func blocks(page, language string) (all []string) {
	for _, rest := range strings.Split(page, "\n```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(rest, "\n```")
		all = append(all, block)
	}
	return all
}

// echoAgent is an agent in Python, whose port is its argument.
const echoAgent = `import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Agent(BaseHTTPRequestHandler):
    def do_POST(self):
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps({"text": "You wrote: " + question["message"]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Agent).serve_forever()
`

// startAgent is the command: agent, which starts echoAgent at a free port; $AGENT is its address.
func startAgent(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: agent")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		ts.Fatalf("python3: %v; install it with the system's package manager", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	address := l.Addr().String()
	ts.Check(l.Close())
	ts.Setenv("AGENT", address)
	_, port, err := net.SplitHostPort(address)
	ts.Check(err)
	file := ts.MkAbs("agent.py")
	ts.Check(os.WriteFile(file, []byte(echoAgent), 0o600))
	cmd := exec.Command(python, file, port)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	awaitListening(ts, address)
}

// listening is the command: listening, which waits until something listens at
// $PORT of this machine.
func listening(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: listening")
	}
	awaitListening(ts, net.JoinHostPort("127.0.0.1", ts.Getenv("PORT")))
}

func awaitListening(ts *testscript.TestScript, address string) {
	for deadline := time.Now().Add(await.Limit); ; {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("nobody listens at %s: %v", address, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// notHere are commands of the README that a story cannot run: they need an account
// on AWS, a name on the internet, or are this very test.
var notHere = []string{"go run ", "go install ", "tests/run", "vacancy serve ", "vacancy deploy ", "vacancy call hello "}

// readmeCommands is the command: readmes FILE, which writes every command of the READMEs
// that a story can run to FILE, in order. A watch runs beside the commands after it.
// What a comment says that a command prints is compared; an ID in it is the ID of later
// commands.
func readmeCommands(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: readmes FILE")
	}
	script := []string{"set -ex"}
	for _, page := range readmes {
		found := blocks(readmeText(ts, page), "sh")
		if len(found) == 0 {
			ts.Fatalf("%s has no commands", page)
		}
		for _, block := range found {
			for line := range strings.SplitSeq(block, "\n") {
				script = append(script, readmeCommand(line)...)
			}
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Join(script, "\n")+"\n"), 0o600))
}

// readmeCommand returns the lines of the script for a line of a README.
func readmeCommand(line string) []string {
	command, comment, _ := strings.Cut(line, " # ")
	_, watch, watched := strings.Cut(" "+strings.TrimSpace(command), " vacancy watch ")
	name, _, _ := strings.Cut(watch, " ")
	printed, prints := strings.CutPrefix(comment, "prints ")
	command = theID.ReplaceAllString(command, `"$$ID"`)
	switch {
	case slices.ContainsFunc(notHere, func(begins string) bool { return strings.HasPrefix(line, begins) }):
		return nil
	case watched:
		return []string{
			command + " >watch-" + name + ".log 2>&1 & watch=$!; watches=\"$watches $watch\"; trap 'kill $watches' EXIT",
			"until vacancy call " + name + " ready >/dev/null 2>&1; do kill -0 $watch; sleep 0.1; done",
		}
	case prints && theID.MatchString(printed):
		return []string{command + " | tee printed.txt", "ID=$(sed -n 's/" + theID.ReplaceAllString(printed, `\(.*\)`) + "/\\1/p' printed.txt)", `test -n "$ID"`}
	case prints:
		return []string{command + " | tee printed.txt", "grep -F -- '" + printed + "' printed.txt"}
	}
	return []string{command}
}

// theID is the word of a README for an id that a command prints.
var theID = regexp.MustCompile(`\bID\b`)
