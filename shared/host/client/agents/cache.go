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

// Cache keeps cards in a directory while they are fresh, and otherwise sends requests like
// HTTP. Of several requests for one card at once, one is sent. A directory that cannot be
// written keeps nothing. Safe for concurrent use, also by several processes.
type Cache struct {
	HTTP
	Dir string
	Now func() time.Time
	// Renew fetches, whatever is kept.
	Renew bool
	// Lifetime returns for how long a card is fresh. If it is nil or returns 0, the server of the card
	// decides.
	Lifetime func(url string) time.Duration

	mu    sync.Mutex
	turns map[string]chan struct{} // by file: who holds it fetches
}

const (
	// freshFor is the time for which a card is fresh if its server sends no
	// such time.
	freshFor = 10 * time.Minute
	// longest bounds what servers say.
	longest = 24 * time.Hour
)

// kept is the content of a file.
type kept struct {
	URL   string    `json:"url"`
	Until time.Time `json:"until"`
	Body  []byte    `json:"body"`
}

// Do answers a GET from the directory, or sends it.
func (c *Cache) Do(ctx context.Context, r outbound.Request) (outbound.Reply, error) {
	if r.Method != http.MethodGet {
		return c.HTTP.Do(ctx, r)
	}
	sum := sha256.Sum256([]byte(r.URL))
	file := filepath.Join(c.Dir, hex.EncodeToString(sum[:])+".json")
	done, err := c.turn(ctx, file)
	if err != nil {
		return outbound.Reply{}, err
	}
	defer done()
	if body, ok := c.read(file, r.URL); ok && !c.Renew {
		return outbound.Reply{Status: http.StatusOK, Body: body}, nil
	}
	reply, err := c.HTTP.Do(ctx, r)
	if err == nil && reply.Status == http.StatusOK {
		c.write(file, r.URL, &reply)
	}
	return reply, err
}

// turn waits until nobody else fetches a file.
func (c *Cache) turn(ctx context.Context, file string) (done func(), err error) {
	c.mu.Lock()
	if c.turns == nil {
		c.turns = map[string]chan struct{}{}
	}
	turn := c.turns[file]
	if turn == nil {
		turn = make(chan struct{}, 1)
		c.turns[file] = turn
	}
	c.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (c *Cache) read(file, url string) (body []byte, ok bool) {
	b, err := os.ReadFile(file)
	var k kept
	if err != nil || json.Unmarshal(b, &k) != nil {
		return nil, false
	}
	return k.Body, k.URL == url && c.Now().Before(k.Until)
}

// write keeps an answer, if its server lets it be kept. A failure costs a request later.
func (c *Cache) write(file, url string, reply *outbound.Reply) {
	fresh := freshness(reply.Header.Get("Cache-Control"))
	if c.Lifetime != nil {
		fresh = cmp.Or(c.Lifetime(url), fresh)
	}
	if fresh <= 0 {
		_ = os.Remove(file)
		return
	}
	b, err := json.Marshal(kept{url, c.Now().Add(fresh), reply.Body})
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

// freshness returns the time for which an answer may be kept.
func freshness(control string) time.Duration {
	fresh := freshFor
	for part := range strings.SplitSeq(strings.ToLower(control), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "no-store", "no-cache":
			return 0
		case "max-age":
			seconds, err := strconv.Atoi(strings.Trim(value, `"`))
			if err != nil {
				return 0
			}
			fresh = min(time.Duration(min(seconds, 1<<30))*time.Second, longest)
		}
	}
	return fresh
}
