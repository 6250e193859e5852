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

// Peer is an agent that a person has admitted.
type Peer struct {
	URL string `json:"url"`
	// Trust is the trust tier, MinTrust to MaxTrust.
	Trust int `json:"trust"`
	// LatencyMS is the expected response time. 0 is treated as 1.
	LatencyMS int `json:"latency_ms"`
	// Skills are ids of the agent's skills, and Tags are their tags. An agent with neither is
	// considered suitable for everything.
	Skills []string `json:"skills,omitempty"`
	Tags   []string `json:"tags,omitempty"`
	// CardSeconds is the time for which the agent's card is fresh. If it is 0, the card's server
	// decides.
	CardSeconds int `json:"card_seconds,omitempty"`
}

const (
	MinTrust = 1
	MaxTrust = 5
)

func (p Peer) check() (Peer, error) {
	u, err := CheckURL(p.URL)
	if err != nil {
		return p, err
	}
	p.URL = normalURL(u)
	switch {
	case p.Trust < MinTrust || p.Trust > MaxTrust:
		return p, problem.Invalid("trust", fmt.Sprintf("%d to %d", MinTrust, MaxTrust), fmt.Sprint(p.Trust))
	case p.LatencyMS < 0:
		return p, problem.Invalid("latency_ms", "at least 0", fmt.Sprint(p.LatencyMS))
	case p.CardSeconds < 0 || p.CardSeconds > int(maxFresh.Seconds()):
		return p, problem.Invalid("card_seconds", fmt.Sprintf("0 to %.0f", maxFresh.Seconds()), fmt.Sprint(p.CardSeconds))
	}
	p.Skills, p.Tags = sortedSet(p.Skills), sortedSet(p.Tags)
	return p, nil
}

func sortedSet(values []string) []string {
	values = slices.DeleteFunc(slices.Clone(values), func(s string) bool { return s == "" })
	slices.Sort(values)
	return slices.Compact(values)
}

// RatedPeer is a suitable peer with its score.
type RatedPeer struct {
	Peer
	Score float64 `json:"score"`
}

// score weighs trust, speed and suitability: 5 points per tier, 1000 divided by the milliseconds,
// and 10 for a matching skill. Below about 50 ms the speed outweighs any trust.
func (p *Peer) score(fits bool) float64 {
	s := 5*float64(p.Trust) + 1000/float64(max(1, p.LatencyMS))
	if fits {
		s += 10
	}
	return s
}

// Peers is the set of agents that may be called. It is safe for concurrent use.
type Peers struct {
	mu  sync.RWMutex
	all map[string]Peer // peers by URL
}

func NewPeers(peers ...Peer) (*Peers, error) {
	p := &Peers{all: map[string]Peer{}}
	for i, peer := range peers {
		if err := p.Add(peer); err != nil {
			return nil, problem.WithPlace(problem.Usage, fmt.Sprintf("peers[%d]", i), err)
		}
	}
	return p, nil
}

func (p *Peers) Add(peer Peer) error {
	peer, err := peer.check()
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all[peer.URL] = peer
	return nil
}

// Remove removes a peer and reports whether it existed.
func (p *Peers) Remove(address string) bool {
	if u, err := url.Parse(address); err == nil {
		address = normalURL(u)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.all[address]
	delete(p.all, address)
	return ok
}

func (p *Peers) All() []Peer {
	p.mu.RLock()
	defer p.mu.RUnlock()
	peers := make([]Peer, 0, len(p.all))
	for _, peer := range p.all {
		peers = append(peers, peer)
	}
	slices.SortFunc(peers, func(a, b Peer) int { return cmp.Compare(a.URL, b.URL) })
	return peers
}

// CardLifetime returns how long the card at a URL is fresh, according to the peer with this card.
// It returns zero if the peer does not exist or does not specify a time.
func (p *Peers) CardLifetime(cardURL string) time.Duration {
	for _, peer := range p.All() {
		if u, err := url.Parse(peer.URL); err == nil && slices.Contains(cardURLs(u), cardURL) {
			return time.Duration(peer.CardSeconds) * time.Second
		}
	}
	return 0
}

// Find returns the peers with a capability, the best first, or all peers for "". The capability
// may be the id of a skill or a tag. A peer without skills and tags has every capability. Only a
// skill improves the score. If no peer has the capability, the error has kind NotFound.
func (p *Peers) Find(capability string) ([]RatedPeer, error) {
	var fit []RatedPeer
	for _, peer := range p.All() {
		id := capability != "" && slices.Contains(peer.Skills, capability)
		if capability == "" || id || slices.Contains(peer.Tags, capability) || len(peer.Skills)+len(peer.Tags) == 0 {
			fit = append(fit, RatedPeer{peer, peer.score(id)})
		}
	}
	if len(fit) == 0 {
		var skills []string
		for _, peer := range p.All() {
			skills = append(skills, peer.Skills...)
		}
		offered := ""
		if slices.Sort(skills); len(skills) > 0 {
			offered = fmt.Sprintf("; they can do: %.200s", strings.Join(slices.Compact(skills), ", "))
		}
		return nil, problem.New(problem.NotFound, "no peer can do %.80q%s; to add one, run: vacancy peers add URL", capability, offered)
	}
	slices.SortStableFunc(fit, func(a, b RatedPeer) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.LatencyMS, b.LatencyMS), cmp.Compare(a.URL, b.URL))
	})
	return fit, nil
}
