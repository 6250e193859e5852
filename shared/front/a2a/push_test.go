package a2a_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/a2a/push"
)

// receiver is a caller's server that takes notifications.
type receiver struct {
	*httptest.Server
	mu  sync.Mutex
	got []delivery
}

type delivery struct {
	header http.Header
	body   string
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		b, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got = append(r.got, delivery{q.Header.Clone(), string(b)})
	}))
	t.Cleanup(r.Close)
	return r
}

// wait returns the first n deliveries.
func (r *receiver) wait(t *testing.T, n int) []delivery {
	t.Helper()
	for range 500 {
		r.mu.Lock()
		got := append([]delivery(nil), r.got...)
		r.mu.Unlock()
		if len(got) >= n {
			return got
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%d deliveries came, want %d", len(r.got), n)
	return nil
}

// waitEnd returns the deliveries up to the one that tells that the task is completed.
func (r *receiver) waitEnd(t *testing.T) []delivery {
	t.Helper()
	for n := 1; ; n++ {
		got := r.wait(t, n)
		if strings.Contains(strings.ToLower(got[n-1].body), "completed") {
			return got[:n]
		}
	}
}

func TestNotificationsOfAMessage(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		name, method, config string
		params               func(config string) string
		media                string
		shapes               []string
	}{
		{"1.0 that blocks", "SendMessage", `"taskPushNotificationConfig":{"url":"%s","token":"tok","authentication":{"scheme":"Basic","credentials":"cred"}}`,
			func(c string) string {
				return `{"message":{"role":"ROLE_USER","parts":[{"text":"hi"}]},"configuration":{` + c + `}}`
			},
			"application/a2a+json", []string{`{"task":{"id":`}},
		{"1.0 in the background", "SendMessage", `"returnImmediately":true,"taskPushNotificationConfig":{"url":"%s","token":"tok","authentication":{"scheme":"Bearer","credentials":"cred"}}`,
			func(c string) string {
				return `{"message":{"role":"ROLE_USER","parts":[{"text":"hi"}]},"configuration":{` + c + `}}`
			},
			"application/a2a+json", []string{`{"task":{"id":`, `{"statusUpdate":`, `{"artifactUpdate":`, `{"statusUpdate":`}},
		{"0.3", "message/send", `"blocking":false,"pushNotificationConfig":{"url":"%s","token":"tok","authentication":{"schemes":["Bearer"],"credentials":"cred"}}`,
			func(c string) string {
				return `{"message":{"messageId":"m","role":"user","parts":[{"kind":"text","text":"hi"}]},"configuration":{` + c + `}}`
			},
			"application/json", []string{`{"kind":"task"`}},
	} {
		r := newReceiver(t)
		if sent := w.rpc("/v/echo", tt.method, tt.params(fmt.Sprintf(tt.config, r.URL+"/hook"))); sent.status != 200 || at(t, sent.body, "error") != "" {
			t.Fatalf("%s: %d %s", tt.name, sent.status, sent.body)
		}
		got := r.waitEnd(t)
		var shapes []string // pieces that came together are one delivery
		for _, d := range got {
			at := slices.IndexFunc(tt.shapes, func(shape string) bool { return strings.HasPrefix(d.body, shape) })
			if at < 0 || d.header.Get("Content-Type") != tt.media {
				t.Fatalf("%s: a delivery is %s of %s", tt.name, d.body, d.header.Get("Content-Type"))
			}
			shapes = append(shapes, tt.shapes[at])
			if scheme := d.header.Get("Authorization"); scheme != map[bool]string{true: "Basic cred", false: "Bearer cred"}[strings.Contains(tt.config, "Basic")] || d.header.Get("A2A-Notification-Token") != "tok" || d.header.Get("X-A2A-Notification-Token") != "tok" {
				t.Errorf("%s: headers %v", tt.name, d.header)
			}
			w.verifies(d, r.URL+"/hook")
		}
		if diff := cmp.Diff(tt.shapes, slices.Compact(shapes)); diff != "" {
			t.Errorf("%s: deliveries (-want +got):\n%s", tt.name, diff)
		}
	}
}

// verifies checks the vacant's signature over a delivery's body, for its URL.
func (w *world) verifies(d delivery, url string) {
	w.t.Helper()
	protected, signature, _ := strings.Cut(d.header.Get(push.SignatureHeader), "..")
	header, err := base64.RawURLEncoding.DecodeString(protected)
	if err != nil || at(w.t, string(header), "url") != url || at(w.t, string(header), "kid") != w.echo.ID.String() || at(w.t, string(header), "iat") == "" {
		w.t.Errorf("the signature's header is %s, %v", header, err)
	}
	sig, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil || !ed25519.Verify(w.echo.ID[:], []byte(protected+"."+base64.RawURLEncoding.EncodeToString([]byte(d.body))), sig) {
		w.t.Errorf("the signature %q does not verify, %v", d.header.Get(push.SignatureHeader), err)
	}
}

func TestPushConfigsAreKeptByTask(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t)
	id := at(t, w.rpc("/v/echo", "SendMessage", message("hi", "")).body, "result", "task", "id")
	create := func(config string) answer {
		return w.rpc("/v/echo", "CreateTaskPushNotificationConfig", fmt.Sprintf(`{"taskId":%q,"id":%q,"url":%q}`, id, config, r.URL+"/"+config))
	}
	for i := range 4 {
		got := create(fmt.Sprint("c", i))
		if at(t, got.body, "result", "id") != fmt.Sprint("c", i) || at(t, got.body, "result", "taskId") != id {
			t.Fatalf("create %d: %s", i, got.body)
		}
	}
	if got := create("c4"); at(t, got.body, "error", "code") != "-32602" {
		t.Errorf("a fifth: %s", got.body)
	}
	if got := create("c0"); at(t, got.body, "result", "id") != "c0" {
		t.Errorf("the first again: %s", got.body)
	}
	path := "/v/echo/tasks/" + id + "/pushNotificationConfigs"
	if got := w.do("GET", path, ""); at(t, got.body, "configs", 3, "id") == "" || at(t, got.body, "configs", 4) != "" || at(t, got.body, "nextPageToken") != "" {
		t.Errorf("list: %s", got.body)
	}
	if got := w.do("GET", path+"/c1", ""); at(t, got.body, "url") != r.URL+"/c1" {
		t.Errorf("get: %s", got.body)
	}
	for range 2 { // deleting is idempotent
		if got := w.do("DELETE", path+"/c1", ""); got.status != 200 || got.body != "{}" {
			t.Errorf("delete: %d %s", got.status, got.body)
		}
	}
	if got := w.do("GET", path+"/c1", ""); got.status != 404 {
		t.Errorf("get of a deleted one: %d %s", got.status, got.body)
	}
	if got := w.do("POST", path, fmt.Sprintf(`{"id":"c9","url":%q}`, r.URL)); got.status != 200 || at(t, got.body, "taskId") != id {
		t.Errorf("create by REST: %d %s", got.status, got.body)
	}
	if got := w.rpc("/v/echo", "tasks/pushNotificationConfig/list", fmt.Sprintf(`{"id":%q}`, id)); at(t, got.body, "result", 3, "pushNotificationConfig", "id") == "" {
		t.Errorf("list of 0.3: %s", got.body)
	}
	if got := w.rpc("/v/echo", "tasks/pushNotificationConfig/delete", fmt.Sprintf(`{"id":%q,"pushNotificationConfigId":"c9"}`, id)); !strings.Contains(got.body, `"result":null`) {
		t.Errorf("delete of 0.3: %s", got.body)
	}
	// A signed caller does not find the task of a guest.
	s := w.signer()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"ListTaskPushNotificationConfigs","params":{"taskId":%q}}`, id)
	if got := w.do("POST", "/v/echo", body, "Vacancy-Caller: "+s.proof("POST", "/v/echo", body)); at(t, got.body, "error", "code") != "-32001" {
		t.Errorf("a stranger lists: %s", got.body)
	}
}

func TestAReplayedEnvelopeBringsNoPushURL(t *testing.T) {
	w := newWorld(t)
	s := w.signer()
	e := s.envelope(w.echo.ID, 1, [32]byte{}, "hi", "m1", "")
	first := w.rpc("/v/echo", "SendMessage", params1(e, ""))
	id := at(t, first.body, "result", "task", "id")
	evil := newReceiver(t)
	again := strings.TrimSuffix(params1(e, ""), "}") + fmt.Sprintf(`,"configuration":{"taskPushNotificationConfig":{"url":%q}}}`, evil.URL)
	if got := w.rpc("/v/echo", "SendMessage", again); at(t, got.body, "result", "task", "id") != id {
		t.Fatalf("the same bytes: %s", got.body)
	}
	list := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"ListTaskPushNotificationConfigs","params":{"taskId":%q}}`, id)
	if got := w.do("POST", "/v/echo", list, "Vacancy-Caller: "+s.proof("POST", "/v/echo", list)); at(t, got.body, "result", "configs") != "[]" {
		t.Errorf("its push configurations: %s", got.body)
	}
	time.Sleep(50 * time.Millisecond)
	evil.mu.Lock()
	defer evil.mu.Unlock()
	if len(evil.got) != 0 {
		t.Errorf("who replays a message is told %s", evil.got[0].body)
	}
}

// Vacants of a host for others may reach agents on its machine; their callers may not.
func TestCallersElsewhereReachNothingOnTheHostsMachine(t *testing.T) {
	w := openWorld(t, false).runs()
	r := newReceiver(t)
	port := r.URL[strings.LastIndex(r.URL, ":"):]
	for _, url := range []string{r.URL, "http://localhost" + port, "https://127.0.0.1" + port, "https://localhost" + port, "https://[::1]" + port, "https://2130706433" + port, "https://0x7f.1" + port} {
		got := w.rpc("/v/echo", "SendMessage", fmt.Sprintf(`{"message":{"role":"ROLE_USER","parts":[{"text":"hi"}]},"configuration":{"taskPushNotificationConfig":{"url":%q}}}`, url))
		// Other notations of an address are refused when they are dialled.
		odd := strings.Contains(url, "2130706433") || strings.Contains(url, "0x7f")
		if at(t, got.body, "error", "code") != "-32602" && !odd {
			t.Errorf("%s: %s", url, got.body)
		}
	}
	time.Sleep(200 * time.Millisecond)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.got) != 0 {
		t.Errorf("%d deliveries came", len(r.got))
	}
}
