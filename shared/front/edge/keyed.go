package edge

import (
	"crypto/sha256"
	"net/http"

	lru "github.com/hashicorp/golang-lru/v2"
)

// keyExemption exempts requests with known keys from the read budget, so that a flood of wrong keys
// cannot block them.
type keyExemption struct {
	unlimited, limited http.Handler
	knownKeys          *lru.Cache[[sha256.Size]byte, struct{}]
}

const maxKnownKeys = 4096

func (k *keyExemption) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Authorization")
	if key == "" {
		k.limited.ServeHTTP(w, r)
		return
	}
	hash := sha256.Sum256([]byte(key))
	s := &statusWriter{ResponseWriter: w}
	if !k.knownKeys.Contains(hash) {
		k.limited.ServeHTTP(s, r)
		if s.status/100 == 2 {
			k.knownKeys.Add(hash, struct{}{})
		}
		return
	}
	k.unlimited.ServeHTTP(s, r)
	if s.status == http.StatusUnauthorized {
		k.knownKeys.Remove(hash)
	}
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (s *statusWriter) WriteHeader(status int) {
	if s.status == 0 {
		s.status = status
	}
	s.ResponseWriter.WriteHeader(status)
}

func (s *statusWriter) Write(b []byte) (int, error) {
	if s.status == 0 {
		s.status = http.StatusOK
	}
	return s.ResponseWriter.Write(b)
}

func (s *statusWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }
