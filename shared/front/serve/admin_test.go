package serve

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/substrate/resources"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// directory is a data directory with a short path, because a socket's path is
// limited.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "vacancy")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "data")
}

// hello is the handler in these tests.
var hello = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello "+r.Host) })

// open opens an admin socket over dir and serves hello on it.
func open(t testing.TB, dir string, loopback bool) *AdminListener {
	t.Helper()
	d, err := listenAdmin(dir, rand.Reader, loopback)
	must(t, err)
	s := &http.Server{Handler: AdminHandler(d, hello)}
	go s.Serve(d)
	t.Cleanup(func() { s.Close() })
	return d
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t testing.TB, what string, err error, want problem.Kind) {
	t.Helper()
	if got := problem.AsError(err); got == nil || got.Kind != want {
		t.Errorf("%s = %v, want kind %v", what, err, want)
	}
}

func mode(t testing.TB, path string) fs.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	must(t, err)
	return info.Mode()
}

func TestTheControlHandlerIsReachedThroughItsFolder(t *testing.T) {
	for name, loopback := range map[string]bool{"socket": false, "loopback": true} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t)
			if _, _, err := dialAdmin(dir, loopback); !errors.Is(err, ErrNoHost) {
				t.Errorf("dialControl() without a folder = %v, want no host", err)
			}
			d := open(t, dir, loopback)
			client, base, err := dialAdmin(dir, loopback)
			must(t, err)
			resp, err := client.Get(base + "/v1/admin/vacants")
			must(t, err)
			b, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if string(b) != "hello "+admin.SocketHost {
				t.Errorf("answer = %q, want that of the handler, for Host %s", b, admin.SocketHost)
			}
			d.Close()
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("a closed handler leaves %v, %v in the data directory", left, err)
			}
			if _, _, err := dialAdmin(dir, loopback); !errors.Is(err, ErrNoHost) {
				t.Errorf("dialControl() after Close() = %v, want no host", err)
			}
		})
	}
}

func TestOnlyTheOwnerMayEnter(t *testing.T) {
	for name, loopback := range map[string]bool{socketName: false, tokenName: true} {
		dir := folder(t)
		open(t, dir, loopback)
		if got := mode(t, dir).Perm(); got != 0o700 {
			t.Errorf("data directory has mode %04o, want 0700", got)
		}
		if got := mode(t, filepath.Join(dir, name)).Perm(); got != 0o600 {
			t.Errorf("%s has mode %04o, want 0600", name, got)
		}
	}
}

func TestAFolderThatOthersMayEnterIsRefusedAndLeftAsItIs(t *testing.T) {
	for _, m := range []fs.FileMode{0o755, 0o701, 0o770, 0o777} {
		dir := folder(t)
		must(t, os.Mkdir(dir, 0o700))
		must(t, os.Chmod(dir, m))
		_, err := listenAdmin(dir, rand.Reader, false)
		wantKind(t, "listenAdmin()", err, problem.Usage)
		if text := problem.AsError(err).Text(); !strings.Contains(text, "chmod 700 "+dir) {
			t.Errorf("refusal = %q, want the command that helps", text)
		}
		if got := mode(t, dir).Perm(); got != m {
			t.Errorf("the folder's mode became %04o, want %04o as before", got, m)
		}
	}
	file := folder(t)
	must(t, os.WriteFile(file, nil, 0o600))
	_, err := listenAdmin(file, rand.Reader, false)
	wantKind(t, "listenControl() on a file", err, problem.Usage)
}

func TestAKilledHostsSocketIsReplacedAndALiveOnesIsNot(t *testing.T) {
	dir := folder(t)
	must(t, EnsurePrivate(dir))
	path := filepath.Join(dir, socketName)
	l, err := net.Listen("unix", path)
	must(t, err)
	_, err = listenAdmin(dir, rand.Reader, false)
	wantKind(t, "listenControl() beside a live host", err, problem.Conflict)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close() // what kill -9 leaves
	if mode(t, path).Type() != fs.ModeSocket {
		t.Fatal("no socket was left behind")
	}
	if _, _, err := dialAdmin(dir, false); !errors.Is(err, ErrNoHost) {
		t.Errorf("dialControl() at a dead socket = %v, want no host", err)
	}
	open(t, dir, false)
	if _, _, err := dialAdmin(dir, false); err != nil {
		t.Errorf("dialControl() = %v", err)
	}
}

func TestAFileInTheSocketsPlaceIsKept(t *testing.T) {
	dir := folder(t)
	must(t, EnsurePrivate(dir))
	path := filepath.Join(dir, socketName)
	must(t, os.WriteFile(path, []byte("precious"), 0o600))
	if _, err := listenAdmin(dir, rand.Reader, false); err == nil {
		t.Error("listenControl() over a file = no error")
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "precious" {
		t.Errorf("the file is now %q, %v", b, err)
	}
}

func TestAPathTooLongForASocketIsNamed(t *testing.T) {
	dir := filepath.Join(folder(t), strings.Repeat("x", 100))
	_, err := listenAdmin(dir, rand.Reader, false)
	wantKind(t, "listenAdmin()", err, problem.Usage)
	if text := problem.AsError(err).Text(); !strings.HasPrefix(text, "data directory: expected a path of at most 92 bytes, got ") {
		t.Errorf("refusal = %q", text)
	}
}

func TestTheLoopbackHandlerNeedsItsToken(t *testing.T) {
	dir := folder(t)
	d := open(t, dir, true)
	if !d.Addr().(*net.TCPAddr).IP.IsLoopback() {
		t.Fatalf("the handler listens on %s, want loopback", d.Addr())
	}
	for name, header := range map[string]string{
		"none": "", "another scheme": "Basic " + d.token, "bare": d.token, "a beginning": "Bearer " + d.token[:63], "more": "Bearer " + d.token + "0", "none after the scheme": "Bearer ",
		"another": "Bearer " + strings.Repeat("0", 64), "other case": "bearer " + d.token,
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := http.NewRequest("GET", "http://"+d.Addr().String()+"/v1/admin/vacants", nil)
			r.Host = admin.SocketHost
			if header != "" {
				r.Header.Set("Authorization", header)
			}
			resp, err := http.DefaultClient.Do(r)
			must(t, err)
			defer resp.Body.Close()
			var refusal httpapi.Refusal
			if err := json.NewDecoder(resp.Body).Decode(&refusal); err != nil || resp.StatusCode != http.StatusUnauthorized || refusal.Code != "unauthorized" {
				t.Errorf("answer = %d %+v, %v, want 401", resp.StatusCode, refusal, err)
			}
			if strings.Contains(refusal.Detail, d.token) {
				t.Error("the refusal tells the token")
			}
		})
	}
	if len(d.token) != 64 {
		t.Errorf("token of %d digits, want 64", len(d.token))
	}
	if other := open(t, folder(t), true); other.token == d.token {
		t.Error("two handlers have one token")
	}
}

func TestTheTokenIsNotPrinted(t *testing.T) {
	dir := folder(t)
	d := open(t, dir, true)
	client, _, err := dialAdmin(dir, true)
	must(t, err)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		for _, x := range []any{d, client, *client, struct{ Transport any }{client.Transport}} {
			if got := fmt.Sprintf(verb, x); strings.Contains(got, d.token) {
				t.Errorf("%s of a %T shows the token: %s", verb, x, got)
			}
		}
	}
}

func TestATokenFileOfAKilledHostMeansNoHost(t *testing.T) {
	dir := folder(t)
	d := open(t, dir, true)
	d.Listener.Close() // killed: the file stays
	if _, _, err := dialAdmin(dir, true); !errors.Is(err, ErrNoHost) {
		t.Errorf("dialControl() = %v, want no host", err)
	}
	open(t, dir, true)
	if _, _, err := dialAdmin(dir, true); err != nil {
		t.Errorf("dialControl() after another start = %v", err)
	}
}

// What a browser could send if it reached a socket or guessed the port.
func TestAPageReachesNothingBehindEitherHandler(t *testing.T) {
	for name, loopback := range map[string]bool{"socket": false, "loopback": true} {
		for what, headers := range map[string]string{
			"a rebound name": "Host: evil.example\r\n",
			"fetch":          "Host: " + admin.SocketHost + "\r\nOrigin: https://evil.example\r\n",
			"an image":       "Host: 127.0.0.1\r\nSec-Fetch-Site: cross-site\r\n",
			"a form":         "Host: " + admin.SocketHost + "\r\nOrigin: null\r\nContent-Type: text/plain\r\n",
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				dir := folder(t)
				d, err := listenAdmin(dir, rand.Reader, loopback)
				must(t, err)
				reached := false
				s := &http.Server{Handler: AdminHandler(d, admin.Handler(admin.Config{AllowedHost: admin.SocketHost, Vacants: &vacants.Directory{Config: vacants.Config{Resources: &resources.Resources{}}}, VerifyHandler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true })}))}
				go s.Serve(d)
				defer s.Close()
				c, err := net.Dial(d.Addr().Network(), d.Addr().String())
				must(t, err)
				defer c.Close()
				io.WriteString(c, "GET /v1/admin/verify HTTP/1.1\r\n"+headers+"\r\n")
				resp, err := http.ReadResponse(bufio.NewReader(c), nil)
				must(t, err)
				want := http.StatusForbidden
				if loopback {
					want = http.StatusUnauthorized // no web page knows the token
				}
				if resp.StatusCode != want || reached {
					t.Errorf("answer = %d, reached %t, want %d", resp.StatusCode, reached, want)
				}
				for h := range resp.Header {
					if strings.HasPrefix(h, "Access-Control-") {
						t.Errorf("the refusal carries %s", h)
					}
				}
			})
		}
	}
}
