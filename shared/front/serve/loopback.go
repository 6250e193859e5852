package serve

import (
	"encoding/hex"
	"io"
	"net"
	"os"
	"path/filepath"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// The mode of the token file is 0600. Windows ignores modes, but the data directory is in the
// user's profile.
const tokenName = "admin.token"

const tokenSize = 32

// listenLoopback opens the admin socket on a free loopback port. Every user of the machine can
// reach the port, so requests must contain the token.
func listenLoopback(dir string, rand io.Reader) (l net.Listener, token string, err error) {
	raw := make([]byte, tokenSize)
	if _, err := io.ReadFull(rand, raw); err != nil {
		return nil, "", problem.Wrap(problem.Unavailable, err, "no randomness for the admin socket's token")
	}
	token = hex.EncodeToString(raw)
	l, err = net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", problem.Wrap(problem.Unavailable, err, "no loopback port for the admin socket")
	}
	// The rename replaces the file atomically.
	f, err := os.CreateTemp(dir, tokenName+".*")
	if err == nil {
		_, err = f.WriteString(l.Addr().String() + "\n" + token + "\n")
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
		if err == nil {
			err = os.Rename(f.Name(), filepath.Join(dir, tokenName))
		}
		if err != nil {
			os.Remove(f.Name())
		}
	}
	if err != nil {
		l.Close()
		return nil, "", problem.Wrap(problem.Unavailable, err, "the admin socket's token cannot be stored")
	}
	return l, token, nil
}
