package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/tests/upgrade/oldhost"
)

// maxWait limits each wait for a program.
const maxWait = 2 * time.Minute

// errUsed ends a use whose error is already in use.err.
var errUsed = errors.New("the program failed")

// use is the use of a program over a $VACANCY_HOME. Its methods panic with errUsed after they have
// set err, so that the story reads like a script.
type use struct {
	program, home string
	url           string
	agent         *agent
	err           error
}

// useProgram makes a host with the program, kills the host, and returns what its owner knew.
func useProgram(program, home string) (host oldhost.Host, err error) {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return host, err
	}
	u := &use{program: program, home: home, agent: newAgent()}
	defer u.agent.close()
	defer func() {
		if p := recover(); p == errUsed {
			err = u.err
		} else if p != nil {
			panic(p)
		}
	}()
	return u.story(), nil
}

// story uses all that a host stores.
func (u *use) story() (h oldhost.Host) {
	dev := u.start("dev", "--listen", "127.0.0.1:0", "--work", "5m")
	defer dev.Wait()
	defer dev.Process.Kill()
	u.wait("the host answers", func() bool {
		b, err := os.ReadFile(filepath.Join(u.home, oldhost.HostDir, "url"))
		u.url = strings.TrimSpace(string(b))
		return err == nil && u.get("", "/health") != nil
	})
	u.wait("the host has called its vacant", func() bool { return len(u.chain("default", "demo").Texts) == 1 })

	for _, name := range []string{"alice", "bob"} {
		u.vacancy("init", name)
	}
	u.vacancy("account", "open", "acme")
	u.vacancy("account", "open", "globex")
	u.vacancy("credit", "acme", "10", "--key", "invoice-1")
	u.vacancy("credit", "globex", "5", "--key", "invoice-2")

	// Two names that differ by case only, of two owners.
	u.vacancy("create", "shop", "--capability", "sells words", "--tenant", "globex")
	u.vacancy("create", "Shop", "--capability", "repeats words")
	u.vacancy("price", "shop", "0.002", "--free", "2")
	u.vacancy("create", "tool", "--capability", "helps acme", "--tenant", "acme")
	u.vacancy("create", "owl", "--capability", "ponders", "--substrate", u.agent.url)
	u.vacancy("price", "owl", "0.01")
	u.vacancy("create", "nap", "--capability", "sleeps")
	u.vacancy("pause", "nap")

	// An agent with versions, which calls a model.
	file := filepath.Join(u.home, "sage.md")
	u.must(os.WriteFile(file, []byte("---\ndescription: knows things\n---\n\nAnswer in one line.\n"), 0o600))
	u.vacancy("create", "--from", file, "--substrate", "openai:"+u.agent.url+"/v1#small")
	u.must(os.Remove(file))

	// Calls by identities: paid by an account, free, and of vacants that are deleted.
	u.vacancy("account", "link", "acme", "--as", "alice", "--cap", "5")
	u.vacancy("call", "shop", "one", "--as", "alice")
	u.vacancy("call", "shop", "two", "--as", "alice")
	u.vacancy("call", "shop", "a free one", "--as", "bob")
	u.vacancy("call", "Shop", "of another name", "--as", "bob")
	u.vacancy("call", "sage", "what?", "--as", "bob")
	u.vacancy("create", "gone", "--capability", "goes", "--tenant", "acme")
	u.vacancy("call", "gone", "farewell", "--as", "alice")
	u.vacancy("create", "again", "--capability", "goes", "--tenant", "acme")
	removed := u.vacants()
	h.Removed = map[string]string{"gone": removed["gone"].ID, "again": removed["again"].ID}
	u.vacancy("remove", "gone", "--yes")
	u.vacancy("remove", "again", "--yes")
	u.vacancy("create", "again", "--capability", "has the name of a deleted vacant", "--tenant", "acme")

	// A vacant and its chains that move to another host.
	u.vacancy("create", "mover", "--capability", "moves")
	u.vacancy("call", "mover", "before the move", "--as", "alice")
	u.vacancy("pause", "mover")
	u.vacancy("export", "mover", "--host", "local", "--out", filepath.Join(u.home, oldhost.ExportFile), "--yes")

	// A composite with a closed child.
	u.vacancy("create", "firm", "--capability", "answers questions of law")
	u.vacancy("spawn", "firm", "--path", "D2", "--name", "clerk", "--capability", "reads clauses")
	plan := filepath.Join(u.home, "plan.yaml")
	u.must(os.WriteFile(plan, []byte("version: 1\ndelegate: [{child: clerk}]\n"), 0o600))
	u.vacancy("plan", "set", "firm", plan)
	u.must(os.Remove(plan))
	u.vacancy("call", "firm", "clause 7?", "--as", "alice")
	u.vacancy("gate", "set", "--limit", "2")

	// Publications, and a booking.
	u.vacancy("publish", "shop", "--tag", "letters")
	u.vacancy("publish", "owl")
	u.vacancy("publish", "firm")
	u.vacancy("listing", "set", "shop", "--slug", "shop", "--category", "office", "--location", "zurich")
	u.vacancy("listing", "set", "owl", "--slug", "owl", "--category", "office", "--location", "zurich")
	h.Keys = map[string]string{
		"call":    u.secret("keys", "create", "acme"),
		"vacants": u.secret("keys", "create", "acme", "--scope", "vacants"),
		"agp":     u.secret("keys", "create", "acme", "--tier", "pro"),
	}
	var booked struct {
		ID string `json:"booking_id"`
	}
	u.parse(u.vacancyAs(h.Keys["agp"], "agp", "confirm", "shop", "--input", `{"task": "answer this"}`, "--once", "job-1", "--host", u.url, "--json"), &booked)
	h.Booking = booked.ID

	// Messages of A2A clients.
	for _, m := range []struct{ vacant, key, id, text string }{
		{"demo", "", "of-a-guest", "a guest's question"},
		{"shop", "call", "of-an-account", "an account's question"},
		{"owl", "call", "slow", "a slow question"},
	} {
		configuration := ""
		if m.id == "slow" {
			configuration = fmt.Sprintf(`,"configuration":{"returnImmediately":true,"taskPushNotificationConfig":{"url":%q,"token":"of-the-receiver"}}`, u.agent.url+pushPath)
		}
		h.Messages = append(h.Messages, u.send(m.vacant, h.Keys, m.key, m.id, m.text, configuration))
	}
	slow := h.Messages[len(h.Messages)-1]
	h.Push = oldhost.Push{Task: slow.Task, URL: u.agent.url + pushPath, Token: "of-the-receiver"}
	for i := range h.Messages {
		m := &h.Messages[i]
		u.wait("a task has an answer", func() bool {
			m.Answer = u.answer(m.Vacant, h.Keys[m.Key], m.Task)
			return m.Answer != ""
		})
	}
	u.wait("a notification arrived", func() bool { return len(u.agent.pushed) > 0 })
	u.wait("usage has all calls", func() bool { return u.account("acme").Held == 0 })

	h.Balances = map[string]int64{"acme": u.account("acme").Balance, "globex": u.account("globex").Balance}
	h.Vacants = u.vacants()
	for _, c := range [][2]string{{"alice", "shop"}, {"alice", "firm"}, {"alice", "mover"}, {"alice", h.Removed["gone"]}, {"bob", "shop"}, {"bob", "Shop"}, {"bob", "sage"}, {"default", "demo"}} {
		h.Chains = append(h.Chains, u.chain(c[0], c[1]))
	}

	// Calls that run when the host is killed.
	h.Running = u.send("owl", h.Keys, "call", "running", neverAnswered, `,"configuration":{"returnImmediately":true}`)
	h.Unanswered = oldhost.Chain{Identity: "alice", Vacant: "owl", Texts: [][2]string{{neverAnswered}}}
	h.OpenBooking = "job-2"
	call := u.start("call", "owl", neverAnswered, "--as", "alice")
	booking := u.startAs(h.Keys["agp"], "agp", "confirm", "owl", "--input", fmt.Sprintf(`{"task": %q}`, neverAnswered), "--once", h.OpenBooking, "--host", u.url)
	u.wait("the agent works at three calls", func() bool { return len(u.agent.working) == 3 })
	for _, p := range []*exec.Cmd{dev, call, booking} {
		u.must(p.Process.Kill())
		_ = p.Wait()
	}
	h.Stopped = time.Now().UTC().Truncate(time.Second)
	return h
}

// fail ends the story.
func (u *use) fail(format string, args ...any) {
	u.err = fmt.Errorf(format, args...)
	panic(errUsed)
}

func (u *use) must(err error) {
	if err != nil {
		u.fail("%w", err)
	}
}

func (u *use) parse(from []byte, to any) {
	if err := json.Unmarshal(from, to); err != nil {
		u.fail("%w: %s", err, from)
	}
}

// wait waits until done returns true.
func (u *use) wait(what string, done func() bool) {
	for end := time.Now().Add(maxWait); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			u.fail("waited %s in vain: %s", maxWait, what)
		}
	}
}

func (u *use) command(key string, args []string) *exec.Cmd {
	c := exec.Command(u.program, args...)
	c.Dir = u.home
	c.Env = []string{"HOME=" + u.home, "VACANCY_HOME=" + u.home, "PATH=" + os.Getenv("PATH")}
	if key != "" {
		c.Env = append(c.Env, "VACANCY_KEY="+key)
	}
	return c
}

// vacancy runs a command and returns its output.
func (u *use) vacancy(args ...string) []byte { return u.vacancyAs("", args...) }

func (u *use) vacancyAs(key string, args ...string) []byte {
	c := u.command(key, args)
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		u.fail("vacancy %s: %w: %s", strings.Join(args, " "), err, errs.String())
	}
	return out
}

func (u *use) start(args ...string) *exec.Cmd { return u.startAs("", args...) }

func (u *use) startAs(key string, args ...string) *exec.Cmd {
	c := u.command(key, args)
	u.must(c.Start())
	return c
}

// secret returns the secret that a command prints as its last line.
func (u *use) secret(args ...string) string {
	lines := strings.Fields(string(u.vacancy(args...)))
	return lines[len(lines)-1]
}

type account struct{ Balance, Held int64 }

func (u *use) account(tenant string) (a account) {
	u.parse(u.vacancy("account", "show", tenant, "--json"), &a)
	return a
}

// vacants returns the host's vacants by name.
func (u *use) vacants() map[string]oldhost.Vacant {
	var list struct {
		Vacants []struct {
			ID     string `json:"vacant_id"`
			Name   string `json:"name"`
			State  string `json:"state"`
			Tenant string `json:"tenant"`
		} `json:"vacants"`
	}
	u.parse(u.vacancy("list", "--json"), &list)
	all := map[string]oldhost.Vacant{}
	for _, v := range list.Vacants {
		all[v.Name] = oldhost.Vacant{ID: v.ID, Tenant: v.Tenant, State: v.State}
	}
	return all
}

// chain returns the texts of an identity's calls. It has no texts until the vacant exists.
func (u *use) chain(identity, vacant string) oldhost.Chain {
	c := oldhost.Chain{Identity: identity, Vacant: vacant}
	out, err := u.command("", []string{"chain", identity, vacant, "--json"}).Output()
	if err != nil {
		return c
	}
	for line := range bytes.Lines(out) {
		var row struct {
			Text     string `json:"text"`
			Decision struct {
				Answer struct {
					Text string `json:"text"`
				} `json:"answer"`
			} `json:"decision"`
		}
		u.parse(line, &row)
		c.Texts = append(c.Texts, [2]string{row.Text, row.Decision.Answer.Text})
	}
	return c
}

// send sends a message by A2A and returns its task.
func (u *use) send(vacant string, keys map[string]string, key, id, text, configuration string) oldhost.Message {
	body := fmt.Sprintf(`{"message":{"messageId":%q,"contextId":"context-%s","role":"ROLE_USER","parts":[{"text":%q}]}%s}`, id, id, text, configuration)
	m := oldhost.Message{Vacant: vacant, Key: key, Body: json.RawMessage(body)}
	var sent struct {
		Task struct {
			ID string `json:"id"`
		} `json:"task"`
	}
	answer := u.request("POST", keys[key], "/v/"+vacant+"/message:send", body)
	u.parse(answer, &sent)
	if m.Task = sent.Task.ID; m.Task == "" {
		u.fail("the message %s made no task: %s", id, answer)
	}
	return m
}

// answer returns the text of a completed task, or "".
func (u *use) answer(vacant, key, id string) string {
	var task struct {
		Artifacts []struct {
			Parts []struct {
				Text string `json:"text"`
			} `json:"parts"`
		} `json:"artifacts"`
	}
	u.parse(u.get(key, "/v/"+vacant+"/tasks/"+id), &task)
	if len(task.Artifacts) == 0 || len(task.Artifacts[0].Parts) == 0 {
		return ""
	}
	return task.Artifacts[0].Parts[0].Text
}

// get returns the body of a GET, or nil if the host does not answer.
func (u *use) get(key, path string) []byte { return u.request("GET", key, path, "") }

func (u *use) request(method, key, path, body string) []byte {
	ctx, cancel := context.WithTimeout(context.Background(), maxWait)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, u.url+path, strings.NewReader(body))
	u.must(err)
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	u.must(err)
	if resp.StatusCode/100 != 2 && path != "/health" {
		u.fail("%s %s: %s: %s", method, path, resp.Status, b)
	}
	return b
}

const (
	// neverAnswered is part of a question that the agent does not answer.
	neverAnswered = "a question without an answer"
	pushPath      = "/push"
	modelPath     = "/v1/chat/completions"
)

// agent is the agent and the model of the host's vacants, and the receiver of its notifications.
type agent struct {
	url             string
	server          *httptest.Server
	working, pushed chan struct{} // one value for each request
	closing         chan struct{}
}

func newAgent() *agent {
	a := &agent{working: make(chan struct{}, 100), pushed: make(chan struct{}, 100), closing: make(chan struct{})}
	a.server = httptest.NewServer(a)
	a.url = a.server.URL
	return a
}

func (a *agent) close() {
	close(a.closing)
	a.server.Close()
}

func (a *agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Path == pushPath:
		a.pushed <- struct{}{}
	case r.URL.Path == modelPath:
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{"content":"that"},"finish_reason":"stop"}]}`, "\n\n",
			`data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1}}`, "\n\ndata: [DONE]\n\n")
	case bytes.Contains(body, []byte(neverAnswered)):
		a.working <- struct{}{}
		<-a.closing
	default:
		fmt.Fprint(w, `{"text":"hm"}`)
	}
}
