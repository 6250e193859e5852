package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
)

const socketName = "admin.sock"

// The limit of macOS is the lowest: 104 bytes including a final zero byte.
const maxSocketPath = 103

const dialTimeout = 2 * time.Second

// EnsurePrivate creates the data directory with mode 0700, because some systems ignore the socket's
// own mode. It refuses an existing directory that others may enter.
func EnsurePrivate(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return problem.Wrap(problem.Usage, err, "data directory %s cannot be created", dir)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return problem.Wrap(problem.Usage, err, "data directory %s cannot be read", dir)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && !adminOverLoopback {
		return problem.New(problem.Usage, "data directory %s is accessible to other users (mode %04o); chmod 700 %s", dir, mode, dir)
	}
	return nil
}

func listenSocket(dir string) (net.Listener, error) {
	path := filepath.Join(dir, socketName)
	if len(path) > maxSocketPath {
		return nil, problem.New(problem.Usage, "data directory: expected a path of at most %d bytes, got %d", maxSocketPath-len(socketName)-1, len(dir))
	}
	// The caller holds the lock of the data file, so a socket that refuses connections was left by
	// a killed host.
	switch c, err := net.DialTimeout("unix", path, dialTimeout); {
	case err == nil:
		c.Close()
		return nil, problem.New(problem.Conflict, "a host is running in %s; stop it first", dir)
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, syscall.ECONNREFUSED):
		info, err := os.Lstat(path)
		if err == nil && info.Mode().Type() != fs.ModeSocket {
			err = fmt.Errorf("expected a socket, got a file of mode %v", info.Mode())
		}
		if err == nil {
			err = os.Remove(path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, problem.Wrap(problem.Usage, err, "%s prevents the creation of the admin socket and cannot be removed", path)
		}
	default:
		return nil, problem.Wrap(problem.Unavailable, err, "admin socket %s cannot be used", path)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, problem.Wrap(problem.Unavailable, err, "admin socket %s cannot be created", path)
	}
	// Until the mode is set, the directory's mode keeps other users out.
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, problem.Wrap(problem.Unavailable, err, "admin socket %s cannot be made private", path)
	}
	return l, nil
}
