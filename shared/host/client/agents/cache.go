package agents

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
)

// Cache is an HTTP that stores fetched cards in a directory while they are fresh. It is safe for
// concurrent use, also by several processes.
type Cache struct {
	HTTP
	Dir string
	Now func() time.Time
	// ForceFetch makes Cache ignore stored cards.
	ForceFetch bool
	// Lifetime, if not nil, returns how long a card is fresh, or 0 if the card's server decides.
	Lifetime func(url string) time.Duration

	mu        sync.Mutex
	fileLocks map[string]chan struct{}
}

const (
	// defaultLifetime applies if the server does not specify a time.
	defaultLifetime = 10 * time.Minute
	maxLifetime     = 24 * time.Hour
)

type cachedCard struct {
	URL        string    `json:"url"`
	FreshUntil time.Time `json:"until"`
	Body       []byte    `json:"body"`
}

func (c *Cache) Do(ctx context.Context, r outbound.Request) (outbound.Reply, error) {
	if r.Method != http.MethodGet {
		return c.HTTP.Do(ctx, r)
	}
	sum := sha256.Sum256([]byte(r.URL))
	file := filepath.Join(c.Dir, hex.EncodeToString(sum[:])+".json")
	unlock, err := c.lockFile(ctx, file)
	if err != nil {
		return outbound.Reply{}, err
	}
	defer unlock()
	if body, ok := c.read(file, r.URL); ok && !c.ForceFetch {
		return outbound.Reply{Status: http.StatusOK, Body: body}, nil
	}
	reply, err := c.HTTP.Do(ctx, r)
	if err == nil && reply.Status == http.StatusOK {
		c.write(file, r.URL, &reply)
	}
	return reply, err
}

func (c *Cache) lockFile(ctx context.Context, file string) (unlock func(), err error) {
	c.mu.Lock()
	if c.fileLocks == nil {
		c.fileLocks = map[string]chan struct{}{}
	}
	lock := c.fileLocks[file]
	if lock == nil {
		lock = make(chan struct{}, 1)
		c.fileLocks[file] = lock
	}
	c.mu.Unlock()
	select {
	case lock <- struct{}{}:
		return func() { <-lock }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (c *Cache) read(file, url string) (body []byte, ok bool) {
	b, err := os.ReadFile(file)
	var cached cachedCard
	if err != nil || json.Unmarshal(b, &cached) != nil {
		return nil, false
	}
	return cached.Body, cached.URL == url && c.Now().Before(cached.FreshUntil)
}

func (c *Cache) write(file, url string, reply *outbound.Reply) {
	lifetime := parseLifetime(reply.Header.Get("Cache-Control"))
	if c.Lifetime != nil {
		lifetime = cmp.Or(c.Lifetime(url), lifetime)
	}
	if lifetime <= 0 {
		_ = os.Remove(file)
		return
	}
	// If the card cannot be stored, it is fetched again later.
	b, err := json.Marshal(cachedCard{url, c.Now().Add(lifetime), reply.Body})
	if err != nil || os.MkdirAll(c.Dir, 0o700) != nil {
		return
	}
	f, err := os.CreateTemp(c.Dir, "new-")
	if err != nil {
		return
	}
	_, err = f.Write(b)
	if f.Close() != nil || err != nil || os.Rename(f.Name(), file) != nil {
		_ = os.Remove(f.Name())
	}
}

func parseLifetime(cacheControl string) time.Duration {
	lifetime := defaultLifetime
	for part := range strings.SplitSeq(strings.ToLower(cacheControl), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "no-store", "no-cache":
			return 0
		case "max-age":
			seconds, err := strconv.Atoi(strings.Trim(value, `"`))
			if err != nil {
				return 0
			}
			lifetime = min(time.Duration(min(seconds, 1<<30))*time.Second, maxLifetime)
		}
	}
	return lifetime
}
