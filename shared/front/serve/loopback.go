package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// tokenName is the file with the address and the token of the admin socket on
// loopback, in two lines. Its mode is 0600; on Windows, which ignores modes,
// the directory is in the user's profile.
const tokenName = "admin.token"

// tokenSize in bytes, too many to guess.
const tokenSize = 32

// listenLoopback opens the admin socket on a free loopback port. Every user of
// the machine reaches the port, so requests must have the token.
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
	if err := writeToken(filepath.Join(dir, tokenName), l.Addr().String()+"\n"+token+"\n"); err != nil {
		l.Close()
		return nil, "", problem.Wrap(problem.Unavailable, err, "the admin socket's token cannot be kept")
	}
	return l, token, nil
}

// writeToken replaces the file atomically, with mode 0600: a reader sees the
// token of the last host or of this one.
func writeToken(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), tokenName+".*")
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// readToken reads the file of writeToken.
func readToken(dir string) (addr, token string, err error) {
	b, err := os.ReadFile(filepath.Join(dir, tokenName))
	if err != nil {
		return "", "", err
	}
	addr, rest, _ := strings.Cut(string(b), "\n")
	token, _, _ = strings.Cut(rest, "\n")
	return addr, token, nil
}

// authorized admits requests with the bearer token. Both are hashed before they
// are compared, so the duration reveals neither a common prefix nor the length.
func authorized(token string, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte("Bearer " + token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		if subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
			httpapi.Fail(w, problem.New(problem.Unauthorized, "the admin socket needs the token of %s", tokenName))
			return
		}
		next.ServeHTTP(w, r)
	})
}
