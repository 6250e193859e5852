package web

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
)

// A page sends a file to an agent that takes files, and says which files it does not send.
func TestAFileIsSentWithAMessage(t *testing.T) {
	c := newChat(t, vacants.CreateSpec{})
	plain := newProfile(t, c.url).open(c.url + "/web/vacants/demo")
	plain.until(`document.querySelector("#message") !== null`)
	plain.eval(`document.querySelector("#file") === null || Promise.reject("a file button")`, nil)
	agent := c.definition()
	agent.Input = []string{"image/png", "application/json"}
	c.update(agent)
	file := func(name string, size int) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), name)
		must(t, os.WriteFile(path, []byte(strings.Repeat("x", size)), 0o600))
		return path
	}
	p := c.tab()
	if !strings.Contains(p.text("#say"), "image/png, application/json") {
		t.Errorf("the page shows %q", p.text("#say"))
	}
	p.accessible("talk-file")
	c.play(func(question string, w http.ResponseWriter) { reply(w, "**I saw** "+question) })
	p.drop("#file", file("cat.png", 100))
	p.say("what is this?")
	if got := p.heard(1); !strings.HasPrefix(got, "I saw what is this?") {
		t.Errorf("the page shows %q", got)
	}
	c.mu.Lock()
	files := c.last.Files
	c.mu.Unlock()
	if len(files) != 1 || files[0].Name != "cat.png" || files[0].MediaType != "image/png" {
		t.Errorf("the agent got the files %+v", files)
	}
	expect(t, "the page", p.text(".theirs"), "✓ signed by", "without your key")
	expect(t, "the page", p.text(".mine"), "With the file cat.png.")
	for name, tt := range map[string]struct {
		path, want string
	}{
		"too large":  {file("big.png", 256<<10), "has 262149 bytes. At most 262144 are allowed"},
		"other type": {file("a.pdf", 10), "this agent reads text, image/png, application/json, got "},
	} {
		p.drop("#file", tt.path)
		p.say("hello")
		expect(t, name, p.refused(), tt.want)
		p.click(".refused:last-child button")
		p.until(`document.querySelector("#message").value === "hello"`)
		p.eval(`document.querySelector("#message").value = ""; document.querySelectorAll(".refused").forEach((e) => e.remove())`, nil)
	}
	c.intercept(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		_, header, answer := c.forward(r, body)
		w.Header().Set("Content-Type", header.Get("Content-Type"))
		_, _ = w.Write(bytes.ReplaceAll(answer, []byte("I saw"), []byte("I ate")))
		return true
	})
	p.drop("#file", file("cat.png", 100))
	p.say("what is this?")
	p.refuses("the vacant did not sign it")
	c.intercept(nil)
	asked, release := make(chan bool, 1), make(chan bool)
	c.play(func(question string, w http.ResponseWriter) {
		asked <- true
		<-release
		reply(w, "late")
	})
	p.drop("#file", file("cat.png", 100))
	p.say("stop")
	await.Receive(t, "the agent is asked", asked)
	p.click("#stop")
	// The page cannot send the file again, so it does not offer to try again.
	expect(t, "the page", p.refused(), "may have been sent", "not Try again")
	close(release)
	c.play(nil)
	// A message without a file is signed as before.
	p.say("and now?")
	p.heard(2)
	p.until(`document.querySelectorAll(".theirs:last-child .checks li").length === 3`)
	p.accessible("talk-with-file")
}
