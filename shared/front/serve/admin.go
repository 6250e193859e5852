package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// A socket file on Windows cannot be restricted to its owner.
const adminOverLoopback = runtime.GOOS == "windows"

// AdminListener is an open admin socket. Only the user of the data directory can access it.
type AdminListener struct {
	net.Listener
	token     string
	tokenFile string
}

// ListenAdmin opens the admin socket of the host in dataDir. The caller must hold the lock of the
// data file until it has closed the listener. Otherwise the next host could mistake the open socket
// for a stale one.
func ListenAdmin(dataDir string, rand io.Reader) (*AdminListener, error) {
	return listenAdmin(dataDir, rand, adminOverLoopback)
}

func listenAdmin(dir string, rand io.Reader, loopback bool) (*AdminListener, error) {
	if err := EnsurePrivate(dir); err != nil {
		return nil, err
	}
	if loopback {
		l, token, err := listenLoopback(dir, rand)
		if err != nil {
			return nil, err
		}
		return &AdminListener{Listener: l, token: token, tokenFile: filepath.Join(dir, tokenName)}, nil
	}
	l, err := listenSocket(dir)
	if err != nil {
		return nil, err
	}
	return &AdminListener{Listener: l}, nil
}

func (d *AdminListener) Format(f fmt.State, _ rune) {
	// The token must not be printed.
	_, _ = io.WriteString(f, "admin socket at "+d.Addr().String())
}

func (d *AdminListener) Close() error {
	if d.tokenFile != "" {
		os.Remove(d.tokenFile)
	}
	return d.Listener.Close()
}

// ErrNoHost means that no host uses the data directory, so a command may open the data file.
var ErrNoHost = errors.New("no host is running in this data directory")

// DialAdmin returns a client of the running host's admin socket and its base URL. The error is
// ErrNoHost if no host runs.
func DialAdmin(dataDir string) (*http.Client, string, error) {
	return dialAdmin(dataDir, adminOverLoopback)
}

func dialAdmin(dir string, loopback bool) (*http.Client, string, error) {
	network, addr, token, err := "unix", filepath.Join(dir, socketName), "", error(nil)
	if loopback {
		network = "tcp"
		var file []byte
		file, err = os.ReadFile(filepath.Join(dir, tokenName))
		addr, token, _ = strings.Cut(string(file), "\n")
		token, _, _ = strings.Cut(token, "\n")
	} else {
		_, err = os.Lstat(addr)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, "", ErrNoHost
	case errors.Is(err, fs.ErrPermission):
		return nil, "", problem.Wrap(problem.Forbidden, err, "data directory %s belongs to another user", dir)
	case err != nil:
		return nil, "", problem.Wrap(problem.Unavailable, err, "the admin socket of %s cannot be found", dir)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		d := net.Dialer{Timeout: dialTimeout}
		return d.DialContext(ctx, network, addr)
	}
	c, err := dial(context.Background(), "", "")
	var netErr net.Error
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, "", problem.Wrap(problem.Forbidden, err, "the host in %s belongs to another user", dir)
	case errors.As(err, &netErr) && netErr.Timeout():
		return nil, "", problem.Wrap(problem.Unavailable, err, "the host in %s does not answer", dir)
	case err != nil:
		return nil, "", ErrNoHost // the file was left by a killed host
	}
	c.Close()
	var t http.RoundTripper = &http.Transport{DialContext: dial, DisableCompression: true}
	if token != "" {
		t = bearerTransport{token: token, next: t}
	}
	return adminClient(t), adminURL, nil
}

const adminURL = "http://" + admin.SocketHost

func adminClient(t http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

type bearerTransport struct {
	token string
	next  http.RoundTripper
}

func (bearerTransport) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "bearer") }

func (b bearerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}
