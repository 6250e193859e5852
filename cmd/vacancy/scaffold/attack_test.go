package scaffold_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/scaffold"
	"github.com/vacancy-host/vacancy/shared/front/serve/browsertest"
)

// unstarted are programs that this test cannot start, and why no attack is missed.
var unstarted = map[string]string{
	"langgraph": "its packages are not here; its server.py is that of the other templates",
}

// startCommands are the commands that start a program where its Language.Start fetches packages or stays in a shell.
var startCommands = map[string][]string{
	"go": {"go", "run", "."}, "python": {"python3"}, "typescript": {"node", "--import", "tsx"},
}

// A host sends question to an agent, and toolCall to an MCP server.
const (
	question = `{"message":"Hello","caller":"c","vacant":"d","context_id":null,"id":"1","deadline_ms":20000}`
	toolCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"note","arguments":{"subject":"page","text":"written by a page"}}}`
)

// program is a running program of a template.
type program struct {
	*testing.T
	addr string
}

// startProgram starts the program of a folder until the test ends.
func startProgram(t *testing.T, dir string, command []string, env ...string) program {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), append([]string{"PORT=0", "AGENT_SECRET="}, env...)...)
	var errs bytes.Buffer
	cmd.Stderr, cmd.WaitDelay = &errs, time.Second // a child of node may have the output open
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	at := regexp.MustCompile(`http://(127\.0\.0\.1:[0-9]+)`).FindStringSubmatch(line)
	if at == nil {
		cancel()
		_ = cmd.Wait()
		t.Fatalf("%s printed %q, %v, want where it listens: %s", command, line, err, &errs)
	}
	return program{t, at[1]}
}

// send sends a request exactly as it is given, and returns the answer.
func (p program) send(method, host, body string, header ...[2]string) *http.Response {
	p.Helper()
	c, err := net.Dial("tcp", p.addr)
	must(p, err)
	p.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute)) // only against hanging
	lines := method + " / HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n"
	for _, h := range header {
		lines += h[0] + ": " + h[1] + "\r\n"
	}
	if _, err := io.WriteString(c, lines+"\r\n"+body); err != nil {
		p.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		p.Fatalf("%s at %s with %v: %v", method, host, header, err)
	}
	return answer
}

// attack sends the program all that pages can send, and what only a host may.
func (p program) attack(body, secret string) {
	p.Helper()
	for _, r := range browsertest.Attacks(p.addr) {
		sent := body
		if r.Method == "GET" || r.Method == "OPTIONS" {
			sent = ""
		}
		answer := p.send(r.Method, r.Host, sent, r.Header...)
		if answer.StatusCode < 400 || answer.StatusCode == http.StatusInternalServerError {
			p.Errorf("%s: %s, want it refused", r.Name, answer.Status)
		}
		for name := range answer.Header {
			if strings.HasPrefix(name, "Access-Control-") {
				p.Errorf("%s: the answer has %s", r.Name, name)
			}
		}
	}
	kind := [2]string{"Content-Type", "application/json"}
	if secret == "" {
		for _, host := range []string{p.addr, strings.Replace(p.addr, "127.0.0.1", "localhost", 1)} {
			if answer := p.send("POST", host, body, kind); answer.StatusCode != http.StatusOK {
				p.Errorf("a host at %s: %s", host, answer.Status)
			}
		}
		return
	}
	sign := func(secret string) [2]string {
		at := strconv.FormatInt(time.Now().Unix(), 10)
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(at + "." + body))
		return [2]string{"Vacancy-Signature", "t=" + at + ",v1=" + hex.EncodeToString(mac.Sum(nil))}
	}
	for name, signature := range map[string][2]string{"nobody": {"X", "y"}, "another": sign("another")} {
		if answer := p.send("POST", p.addr, body, kind, signature); answer.StatusCode != http.StatusUnauthorized {
			p.Errorf("signed by %s: %s, want 401", name, answer.Status)
		}
	}
	if answer := p.send("POST", p.addr, body, kind, sign(secret)); answer.StatusCode != http.StatusOK {
		p.Errorf("signed by the host: %s", answer.Status)
	}
}

func TestPagesReachNoProgramOfATemplate(t *testing.T) {
	shared, err := os.ReadFile(filepath.Join("files", "server", "server.py"))
	must(t, err)
	for _, tpl := range scaffold.Templates() {
		for _, language := range tpl.LanguageNames() {
			t.Run(tpl.Name+" "+language, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "fox")
				a := write(t, dir, tpl.Name, language)
				if unstarted[tpl.Name] != "" {
					if own, err := os.ReadFile(filepath.Join(dir, "server.py")); err != nil || !bytes.Equal(own, shared) {
						t.Errorf("server.py of %s differs from that of the other templates: %v", tpl.Name, err)
					}
					return
				}
				command := startCommands[language]
				switch language {
				case "python":
					command = append(command, a.Language.Program)
				case "typescript":
					if testing.Short() {
						t.Skip("npm fetches packages")
					}
					command = append(command, a.Language.Program)
					fetch := exec.CommandContext(t.Context(), "npm", "install", "--no-audit", "--no-fund")
					if fetch.Dir = dir; fetch.Run() != nil {
						t.Skip("npm cannot fetch packages here")
					}
				case "go":
					binary := filepath.Join(t.TempDir(), "agent")
					build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".")
					build.Dir = dir
					if said, err := build.CombinedOutput(); err != nil {
						t.Fatalf("%v: %s", err, said)
					}
					command = []string{binary}
				}
				if a.Language.Tools {
					p := startProgram(t, dir, command)
					find := strings.Replace(toolCall, `"note","arguments":{"subject":"page","text":"written by a page"}`, `"find","arguments":{"subject":"page"}`, 1)
					p.attack(find, "")
					answer := p.send("POST", p.addr, find, [2]string{"Content-Type", "application/json"})
					var found struct {
						Result struct {
							IsError bool `json:"isError"`
						}
					}
					if err := json.NewDecoder(answer.Body).Decode(&found); err != nil || !found.Result.IsError {
						t.Errorf("there is a note of a page: %+v, %v", found, err)
					}
					return
				}
				startProgram(t, dir, command).attack(question, "")
				startProgram(t, dir, command, "AGENT_SECRET=of the watch").attack(question, "of the watch")
			})
		}
	}
}

func TestPagesReachNoExample(t *testing.T) {
	for file, body := range map[string]string{
		"barber/agent.py": question, "oracle/agent.py": strings.Replace(question, "Hello", "Hello?", 1), "storyteller/agent.py": question, "calculator/tools.py": strings.ReplaceAll(toolCall, "note", "calculate"),
		"summariser/agent.py": "",
	} {
		t.Run(file, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			addr := l.Addr().String()
			l.Close()
			_, port, _ := net.SplitHostPort(addr)
			cmd := exec.CommandContext(t.Context(), "python3", "-u", filepath.Join("..", "examples", file))
			cmd.Env = append(os.Environ(), "PORT="+port)
			must(t, cmd.Start())
			t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
				if c, err := net.Dial("tcp", addr); err == nil {
					c.Close()
					break
				} else if time.Now().After(deadline) {
					t.Fatal(err)
				}
			}
			p := program{t, addr}
			if body != "" {
				p.attack(body, "")
				return
			}
			for _, r := range browsertest.Attacks(addr) {
				if answer := p.send(r.Method, r.Host, question, r.Header...); answer.StatusCode != http.StatusForbidden {
					t.Errorf("%s: %s, want 403", r.Name, answer.Status)
				}
			}
		})
	}
}
