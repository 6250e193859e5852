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
	mu     sync.Mutex
	got    []delivery
	status func(n int) int // of the nth delivery, from 1
}

type delivery struct {
	header http.Header
	body   string
}

func newReceiver(t *testing.T, status func(n int) int) *receiver {
	t.Helper()
	r := &receiver{status: status}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		b, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		r.got = append(r.got, delivery{q.Header.Clone(), string(b)})
		n := len(r.got)
		r.mu.Unlock()
		if code := r.status(n); code == http.StatusFound {
			http.Redirect(w, q, "/elsewhere", code)
		} else {
			w.WriteHeader(code)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func ok(int) int { return http.StatusOK }

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
		{"1.0 that blocks", "SendMessage", `"taskPushNotificationConfig":{"url":"%s","token":"tok","authentication":{"scheme":"Bearer","credentials":"cred"}}`,
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
		r := newReceiver(t, ok)
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
			if d.header.Get("Authorization") != "Bearer cred" || d.header.Get("A2A-Notification-Token") != "tok" || d.header.Get("X-A2A-Notification-Token") != "tok" {
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

func TestADeliveryIsTriedAgainAndTheNextOneWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := newReceiver(t, func(n int) int {
		if n == 1 {
			return http.StatusInternalServerError
		}
		return http.StatusAccepted
	})
	w.rpc("/v/echo", "SendMessage", fmt.Sprintf(`{"message":{"role":"ROLE_USER","parts":[{"text":"hi"}]},"configuration":{"returnImmediately":true,"taskPushNotificationConfig":{"url":%q}}}`, r.URL))
	got := r.waitEnd(t)
	if got[0].body != got[1].body || !strings.HasPrefix(got[1].body, `{"task":`) || !strings.HasPrefix(got[2].body, `{"statusUpdate":`) {
		t.Errorf("delivered: %s, %s, %s", got[0].body, got[1].body, got[2].body)
	}
	if got[0].header.Get("Authorization") != "" || got[0].header.Get("A2A-Notification-Token") != "" {
		t.Errorf("headers %v", got[0].header)
	}
}

func TestNotificationsGoOnWithTheNextTurn(t *testing.T) {
	w := newWorld(t)
	w.create("sut", "conformance")
	r := newReceiver(t, ok)
	first := w.rpc("/v/sut", "SendMessage", fmt.Sprintf(`{"message":{"messageId":"tck-input-required-1","role":"ROLE_USER","parts":[{"text":"one"}]},"configuration":{"taskPushNotificationConfig":{"url":%q}}}`, r.URL))
	r.wait(t, 1)
	time.Sleep(50 * time.Millisecond) // the pusher has seen that the task waits
	w.sends("sut", "m2", "two", fmt.Sprintf(`,"taskId":%q`, at(t, first.body, "result", "task", "id")))
	if got := r.wait(t, 3); !strings.Contains(got[2].body, "TASK_STATE_COMPLETED") {
		t.Errorf("the last delivery is %s", got[2].body)
	}
}

func TestPushConfigsAreKeptByTask(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t, ok)
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

// A configuration on a task that has ended brings its end once. Set again and again, under
// other ids or after its removal, it is kept and brings nothing.
func TestAnEndedTaskIsToldOnce(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t, ok)
	sent := w.do("POST", "/v/echo/message:send", message("hi", ""))
	id := at(t, sent.body, "task", "id")
	configs := "/v/echo/tasks/" + id + "/pushNotificationConfigs"
	set := func(name string) {
		t.Helper()
		if got := w.do("POST", configs, fmt.Sprintf(`{"id":%q,"url":"%s/%s"}`, name, r.URL, name)); got.status != http.StatusOK {
			t.Fatalf("set %s = %d %s", name, got.status, got.body)
		}
	}
	set("a")
	if got := r.wait(t, 1); !strings.Contains(got[0].body, "TASK_STATE_COMPLETED") {
		t.Errorf("the end = %s", got[0].body)
	}
	for n := range 20 {
		set(string(rune('a' + n%4)))
		if n%5 == 4 {
			if got := w.do("DELETE", configs+"/a", ""); got.status/100 != 2 {
				t.Fatalf("removal = %d %s", got.status, got.body)
			}
		}
	}
	if got := w.do("GET", configs, ""); strings.Count(got.body, `"url"`) < 3 {
		t.Errorf("configurations that are kept: %s", got.body)
	}
	// What comes later is delivered: a delivery of another task ends the wait.
	w.do("POST", "/v/echo/message:send", strings.TrimSuffix(message("marker", ""), "}")+`,"configuration":{"taskPushNotificationConfig":{"url":"`+r.URL+`"}}}`)
	if got := r.wait(t, 2); len(got) != 2 || !strings.Contains(got[1].body, "marker") {
		t.Errorf("%d deliveries, the last %s", len(got), got[len(got)-1].body)
	}
}

// Credentials are sent under the scheme that the client names.
func TestANotificationHasTheSchemeOfItsClient(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t, ok)
	w.do("POST", "/v/echo/message:send", strings.TrimSuffix(message("hi", ""), "}")+`,"configuration":{"taskPushNotificationConfig":{"url":"`+r.URL+`","authentication":{"scheme":"Basic","credentials":"dXNlcjpwYXNz"}}}}`)
	if got := r.wait(t, 1)[0].header.Get("Authorization"); got != "Basic dXNlcjpwYXNz" {
		t.Errorf("Authorization = %q", got)
	}
}

func TestAReplayedEnvelopeBringsNoPushURL(t *testing.T) {
	w := newWorld(t)
	s := w.signer()
	e := s.envelope(w.echo.ID, 1, [32]byte{}, "hi", "m1", "")
	first := w.rpc("/v/echo", "SendMessage", params1(e, ""))
	id := at(t, first.body, "result", "task", "id")
	evil := newReceiver(t, ok)
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
	r := newReceiver(t, ok)
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

func TestNoRedirectIsFollowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := newReceiver(t, func(n int) int { return map[bool]int{true: http.StatusFound, false: http.StatusOK}[n == 1] })
	w.rpc("/v/echo", "SendMessage", fmt.Sprintf(`{"message":{"role":"ROLE_USER","parts":[{"text":"hi"}]},"configuration":{"taskPushNotificationConfig":{"url":%q}}}`, r.URL+"/hook"))
	got := r.wait(t, 2)
	if got[0].body != got[1].body {
		t.Errorf("after a redirect came %s, then %s", got[0].body, got[1].body)
	}
	w.verifies(got[1], r.URL+"/hook") // the second is a try of the same URL
}

// A URL that never answers delays only its own notifications.
func TestAReceiverThatHangsDelaysNobodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	answers := make(chan struct{})
	hangs := newReceiver(t, func(int) int { <-answers; return http.StatusOK })
	t.Cleanup(func() { close(answers) }) // before the receiver waits for its requests
	sends := func(r *receiver) {
		w.rpc("/v/echo", "SendMessage", fmt.Sprintf(`{"message":{"role":"ROLE_USER","parts":[{"text":"hi"}]},"configuration":{"returnImmediately":true,"taskPushNotificationConfig":{"url":%q}}}`, r.URL))
	}
	sends(hangs)
	hangs.wait(t, 1)
	for range 3 {
		r := newReceiver(t, ok)
		sends(r)
		r.wait(t, 4)
	}
	hangs.mu.Lock()
	defer hangs.mu.Unlock()
	if len(hangs.got) != 1 {
		t.Errorf("%d deliveries came at once", len(hangs.got))
	}
}
