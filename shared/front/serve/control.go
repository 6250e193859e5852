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

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// loopbackDoor is where the control door listens on loopback with a token,
// because a socket file has no owner there that keeps others out.
const loopbackDoor = runtime.GOOS == "windows"

// ControlDoor is an open control door: a listener that only the user of the
// data folder gets through.
type ControlDoor struct {
	net.Listener
	token string // empty on a socket
	file  string // removed at Close
}

// ListenControl opens the control door of the host over dataDir. The caller
// has locked the data file, and closes the door before it gives the lock back:
// otherwise the next host's socket could be taken for a stale one.
func ListenControl(dataDir string, rand io.Reader) (*ControlDoor, error) {
	return listenControl(dataDir, rand, loopbackDoor)
}

func listenControl(dir string, rand io.Reader, loopback bool) (*ControlDoor, error) {
	if err := Private(dir); err != nil {
		return nil, err
	}
	if loopback {
		l, token, err := listenLoopback(dir, rand)
		if err != nil {
			return nil, err
		}
		return &ControlDoor{Listener: l, token: token, file: filepath.Join(dir, tokenName)}, nil
	}
	l, err := listenSocket(dir)
	if err != nil {
		return nil, err
	}
	return &ControlDoor{Listener: l}, nil // the listener removes its own file
}

// Format shows where the door is, whatever the verb: not its token.
func (d *ControlDoor) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "control door at "+d.Addr().String())
}

// Close stops listening and removes what the door left in the data folder.
func (d *ControlDoor) Close() error {
	if d.file != "" {
		os.Remove(d.file)
	}
	return d.Listener.Close()
}

// ErrNoHost says that no host is running over a data folder: whoever wants
// something of it opens the data file itself.
var ErrNoHost = errors.New("no host is running over this data folder")

// DialControl returns a client of the running host's control door and the base
// URL of its routes. The error is ErrNoHost if none runs, and a problem of
// kind Forbidden if one does that belongs to another user.
func DialControl(dataDir string) (*http.Client, string, error) {
	return dialControl(dataDir, loopbackDoor)
}

func dialControl(dir string, loopback bool) (*http.Client, string, error) {
	dial, token, err := controlDialer(dir, loopback)
	if err != nil {
		return nil, "", err
	}
	c, err := dial(context.Background())
	var timeout net.Error
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, "", problem.Wrap(problem.Forbidden, err, "the host over %s belongs to another user", dir)
	case errors.As(err, &timeout) && timeout.Timeout():
		return nil, "", problem.Wrap(problem.Unavailable, err, "the host over %s does not answer", dir)
	case err != nil:
		// Nobody listens: the file is what a killed host left.
		return nil, "", ErrNoHost
	}
	c.Close()
	var t http.RoundTripper = &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		DisableCompression: true,
	}
	if token != "" {
		t = bearer{token: token, next: t}
	}
	return controlClient(t), controlURL, nil
}

// controlURL is the base URL of the control door in every home of one machine.
const controlURL = "http://" + admin.ControlHost

func controlClient(t http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

type dialFunc func(context.Context) (net.Conn, error)

func controlDialer(dir string, loopback bool) (dial dialFunc, token string, err error) {
	network, addr := "unix", filepath.Join(dir, socketName)
	if loopback {
		network = "tcp"
		addr, token, err = readToken(dir)
	} else {
		_, err = os.Lstat(addr)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, "", ErrNoHost
	case errors.Is(err, fs.ErrPermission):
		return nil, "", problem.Wrap(problem.Forbidden, err, "data folder %s belongs to another user", dir)
	case err != nil:
		return nil, "", problem.Wrap(problem.Unavailable, err, "the control door of %s cannot be found", dir)
	}
	return func(ctx context.Context) (net.Conn, error) {
		d := net.Dialer{Timeout: dialTime}
		return d.DialContext(ctx, network, addr)
	}, token, nil
}

// bearer adds the token to each request.
type bearer struct {
	token string
	next  http.RoundTripper
}

// Format hides the token from who prints a client.
func (bearer) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "bearer") }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}
