package interop

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// needsLocalHost skips a test on a stage, because a stage holds streams back and sends
// notifications only to https.
func needsLocalHost(t *testing.T) {
	t.Helper()
	if *at != "" {
		t.Skip("needs a host of this machine")
	}
}

// What an HTTP agent sends reaches a stock client before the agent sends more.
func TestPiecesOfAnHTTPAgentAreLive(t *testing.T) {
	needsLocalHost(t)
	read := make(chan bool)
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "event: delta\ndata: {\"text\":\"piece %d. \"}\n\n", i)
			w.(http.Flusher).Flush()
			<-read
		}
		_, _ = io.WriteString(w, "event: done\ndata: {}\n\n")
	}))
	defer agent.Close()
	g := goClient{url: hostWith(t, map[string]string{"agent": "http:" + agent.URL})}
	pieces := 0
	for e, err := range g.open(t, "agent").SendStreamingMessage(t.Context(), say("hi")) {
		if err != nil {
			t.Fatal(err)
		}
		if chunk, ok := e.(*a2a.TaskArtifactUpdateEvent); ok && shown(chunk.Artifact.Parts) == fmt.Sprintf("piece %d. ", pieces) {
			pieces++
			read <- true
		}
	}
	if pieces != 3 {
		t.Errorf("%d pieces came one by one, want 3", pieces)
	}
}

// A stock client's token comes by the name in the specification and by the name in the
// SDKs.
func TestNotificationsHaveTheTokenOfAStockClient(t *testing.T) {
	needsLocalHost(t)
	told := make(chan http.Header, 16)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { told <- r.Header }))
	defer receiver.Close()
	c := goClient{url: host(t)}.open(t, "slow")
	q := say("hi")
	q.Config = &a2a.SendMessageConfig{ReturnImmediately: true, PushConfig: &a2a.PushConfig{URL: receiver.URL, Token: "secret"}}
	if _, err := c.SendMessage(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	h := <-told
	for _, name := range []string{"A2A-Notification-Token", "X-A2A-Notification-Token"} {
		if h.Get(name) != "secret" {
			t.Errorf("%s is %q", name, h.Get(name))
		}
	}
}
