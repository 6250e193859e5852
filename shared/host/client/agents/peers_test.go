package agents

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// resolved is the order of peers, with their scores.
func resolved(t *testing.T, p *Peers, capability string) string {
	t.Helper()
	all, err := p.FindByCapability(capability)
	if err != nil {
		return err.Error()
	}
	var order []string
	for _, r := range all {
		order = append(order, fmt.Sprintf("%s %.0f", strings.TrimPrefix(r.URL, "https://"), r.Score))
	}
	return strings.Join(order, ", ")
}

func TestPeersAreResolvedByTrustSpeedAndFit(t *testing.T) {
	p, err := NewPeers(
		Peer{URL: "https://slow.example/", Trust: 5, LatencyMS: 100, Skills: []string{"translate"}},
		Peer{URL: "https://fast.example", Trust: 1, LatencyMS: 10},
		Peer{URL: "https://other.example", Trust: 5, LatencyMS: 100, Skills: []string{"count"}, Tags: []string{"translate", "numbers"}},
		Peer{URL: "https://none.example", Trust: 5, LatencyMS: 100, Skills: []string{"paint", ""}},
	)
	must(t, err)
	for capability, want := range map[string]string{
		"":          "fast.example 105, none.example 35, other.example 35, slow.example 35",
		"translate": "fast.example 105, slow.example 45, other.example 35",
		"numbers":   "fast.example 105, other.example 35",
		"paint":     "fast.example 105, none.example 45",
		"unknown":   "fast.example 105",
	} {
		if got := resolved(t, p, capability); got != want {
			t.Errorf("Resolve(%q) = %s, want %s", capability, got, want)
		}
	}
	if err := p.Add(Peer{URL: "https://fast.example/arn%3Aa%2Fb//?q=/", Trust: 1}); err != nil || !p.Remove("https://fast.example/arn%3Aa%2Fb?q=/") {
		t.Errorf("a peer with an escaped path and a query is not found again: %v, %v", p.List(), err)
	}
	if !p.Remove("https://fast.example/") || p.Remove("https://fast.example") {
		t.Error("a peer is not removed once")
	}
	if _, err := p.FindByCapability("unknown"); !problem.Is(err, problem.NotFound) || !strings.Contains(err.Error(), "they can do: ") {
		t.Errorf("Resolve(unknown) = %v", err)
	}
	// An unset latency counts as one millisecond; equal scores go by latency, then URL.
	for _, one := range []Peer{{URL: "https://b.example", Trust: 2}, {URL: "https://a.example", Trust: 2, LatencyMS: 1}} {
		must(t, p.Add(one))
	}
	if got := resolved(t, p, "none at all"); got != "b.example 1010, a.example 1010" {
		t.Errorf("equal scores: %s", got)
	}
}

func TestPeersThatAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		peer Peer
		err  error
		says string
	}{
		"no URL":            {Peer{Trust: 1}, ErrInvalidPeerURL, "URL"},
		"http":              {Peer{URL: "http://x.example", Trust: 1}, ErrInsecureScheme, "https"},
		"no trust":          {Peer{URL: "https://x.example"}, nil, "trust: expected 1 to 5, got 0"},
		"much trust":        {Peer{URL: "https://x.example", Trust: 6}, nil, "trust: expected 1 to 5, got 6"},
		"less than no time": {Peer{URL: "https://x.example", Trust: 1, LatencyMS: -1}, nil, "latency_ms: expected at least 0, got -1"},
	} {
		_, err := NewPeers(Peer{URL: "https://ok.example", Trust: 3}, tt.peer)
		if err == nil || tt.err != nil && !errors.Is(err, tt.err) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %v that says %q", name, err, tt.err, tt.says)
		}
	}
}

func TestMoreTrustIsNeverWorse(t *testing.T) {
	for ms := range 200 {
		for trust := MinTrust; trust < MaxTrust; trust++ {
			less, more := Peer{Trust: trust, LatencyMS: ms}, Peer{Trust: trust + 1, LatencyMS: ms}
			if more.score(false) <= less.score(false) || less.score(true) <= less.score(false) {
				t.Fatalf("trust %d and %d at %d ms", trust, trust+1, ms)
			}
		}
	}
}

func TestPeersAtOnce(t *testing.T) {
	p, err := NewPeers()
	must(t, err)
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			url := fmt.Sprintf("https://p%d.example", i%8)
			_ = p.Add(Peer{URL: url, Trust: 1 + i%5})
			_, _ = p.FindByCapability("")
			if i%3 == 0 {
				p.Remove(url)
			}
		})
	}
	all.Wait()
}
