package agents

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// Peer is an agent that may be called.
type Peer struct {
	URL string `json:"url"`
	// Trust is the trust tier, MinTrust to MaxTrust.
	Trust     int `json:"trust"`
	LatencyMS int `json:"latency_ms"`
	// Skills are ids of the agent's skills. A peer without Skills and Tags matches every capability.
	Skills []string `json:"skills,omitempty"`
	Tags   []string `json:"tags,omitempty"`
	// CardFreshSeconds is how long the agent's card is fresh, or 0 if the card's server decides.
	CardFreshSeconds int `json:"card_seconds,omitempty"`
}

const (
	MinTrust = 1
	MaxTrust = 5
)

func (p Peer) normalize() (Peer, error) {
	u, err := ParseURL(p.URL)
	if err != nil {
		return p, err
	}
	p.URL = normalizeURL(u)
	switch {
	case p.Trust < MinTrust || p.Trust > MaxTrust:
		return p, problem.Invalid("trust", fmt.Sprintf("%d to %d", MinTrust, MaxTrust), fmt.Sprint(p.Trust))
	case p.LatencyMS < 0:
		return p, problem.Invalid("latency_ms", "at least 0", fmt.Sprint(p.LatencyMS))
	case p.CardFreshSeconds < 0 || p.CardFreshSeconds > int(maxLifetime.Seconds()):
		return p, problem.Invalid("card_seconds", fmt.Sprintf("0 to %.0f", maxLifetime.Seconds()), fmt.Sprint(p.CardFreshSeconds))
	}
	p.Skills, p.Tags = sortedSet(p.Skills), sortedSet(p.Tags)
	return p, nil
}

func sortedSet(values []string) []string {
	values = slices.DeleteFunc(slices.Clone(values), func(s string) bool { return s == "" })
	slices.Sort(values)
	return slices.Compact(values)
}

// RatedPeer is a peer with its score.
type RatedPeer struct {
	Peer
	Score float64 `json:"score"`
}

// score weighs trust, speed and a matching skill.
func (p *Peer) score(hasSkill bool) float64 {
	s := 5*float64(p.Trust) + 1000/float64(max(1, p.LatencyMS))
	if hasSkill {
		s += 10
	}
	return s
}

// Peers is the set of agents that may be called. It is safe for concurrent use.
type Peers struct {
	mu    sync.RWMutex
	byURL map[string]Peer
}

func NewPeers(peers ...Peer) (*Peers, error) {
	p := &Peers{byURL: map[string]Peer{}}
	for i, peer := range peers {
		if err := p.Add(peer); err != nil {
			return nil, problem.WithPlace(problem.Usage, fmt.Sprintf("peers[%d]", i), err)
		}
	}
	return p, nil
}

func (p *Peers) Add(peer Peer) error {
	peer, err := peer.normalize()
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byURL[peer.URL] = peer
	return nil
}

// Remove removes a peer and reports whether it existed.
func (p *Peers) Remove(address string) bool {
	if u, err := url.Parse(address); err == nil {
		address = normalizeURL(u)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.byURL[address]
	delete(p.byURL, address)
	return ok
}

func (p *Peers) List() []Peer {
	p.mu.RLock()
	defer p.mu.RUnlock()
	peers := make([]Peer, 0, len(p.byURL))
	for _, peer := range p.byURL {
		peers = append(peers, peer)
	}
	slices.SortFunc(peers, func(a, b Peer) int { return cmp.Compare(a.URL, b.URL) })
	return peers
}

// CardLifetime returns how long the card at a URL is fresh according to its peer, or zero.
func (p *Peers) CardLifetime(cardURL string) time.Duration {
	for _, peer := range p.List() {
		if u, err := url.Parse(peer.URL); err == nil && slices.Contains(cardURLs(u), cardURL) {
			return time.Duration(peer.CardFreshSeconds) * time.Second
		}
	}
	return 0
}

// FindByCapability returns the peers that match a skill or tag, the best first, or all peers for
// "". If no peer matches, the error has kind NotFound.
func (p *Peers) FindByCapability(capability string) ([]RatedPeer, error) {
	var rated []RatedPeer
	for _, peer := range p.List() {
		hasSkill := capability != "" && slices.Contains(peer.Skills, capability)
		if capability == "" || hasSkill || slices.Contains(peer.Tags, capability) || len(peer.Skills)+len(peer.Tags) == 0 {
			rated = append(rated, RatedPeer{peer, peer.score(hasSkill)})
		}
	}
	if len(rated) == 0 {
		var skills []string
		for _, peer := range p.List() {
			skills = append(skills, peer.Skills...)
		}
		hint := ""
		if slices.Sort(skills); len(skills) > 0 {
			hint = fmt.Sprintf("; they can do: %.200s", strings.Join(slices.Compact(skills), ", "))
		}
		return nil, problem.New(problem.NotFound, "no peer can do %.80q%s; to add one, run: vacancy peers add URL", capability, hint)
	}
	slices.SortStableFunc(rated, func(a, b RatedPeer) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.LatencyMS, b.LatencyMS), cmp.Compare(a.URL, b.URL))
	})
	return rated, nil
}
