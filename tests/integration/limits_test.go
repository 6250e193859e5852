package integration

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/tests/caller"
)

// By default an address may make 20 requests a second and open one pair a
// second, after a burst; other addresses are served meanwhile.
func TestRateLimitReturnsRetryAfterAndServesOtherAddresses(t *testing.T) {
	s := secondStage(t)
	v := s.vacant(t)
	floods := map[string]func(*pair) heard{
		"127.0.0.21": func(p *pair) heard { // opens pair after pair
			stranger := *p
			stranger.Caller = caller.New(t, v)
			return stranger.send(stranger.Call("let me in", time.Now()))
		},
		"127.0.0.22": func(p *pair) heard { // asks again and again
			return p.get("/health?vacant=" + v.String())
		},
	}
	for from, flood := range floods {
		p := s.pair(t, v)
		p.http = web(t, s.aws, from)
		other := s.pair(t, v)
		other.http = web(t, s.aws, from+"1")
		var limited heard
		for range 400 {
			if limited = flood(p); limited.Status == http.StatusTooManyRequests {
				break
			}
		}
		after, err := strconv.Atoi(limited.header.Get("Retry-After"))
		if limited.Status != http.StatusTooManyRequests || limited.Code != "too_many" || err != nil || after < 1 {
			t.Errorf("the flood from %s ended with %v, Retry-After %q; want 429 and when to come again", from, limited, limited.header.Get("Retry-After"))
		}
		if _, a := other.say("from another address"); a.Status != http.StatusOK {
			t.Errorf("another address meanwhile: %v", a)
		}
		time.Sleep(time.Duration(after) * time.Second)
		if a := flood(p); a.Status != http.StatusOK {
			t.Errorf("after Retry-After: %v, want 200", a)
		}
	}
}
