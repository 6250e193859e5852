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

// Trust tiers.
const (
	MinTrust = 1
	MaxTrust = 5
)

func (p Peer) check() (Peer, error) {
	u, err := CheckURL(p.URL)
	if err != nil {
		return p, err
	}
	p.URL = normal(u)
	switch {
	case p.Trust < MinTrust || p.Trust > MaxTrust:
		return p, problem.Invalid("trust", fmt.Sprintf("%d to %d", MinTrust, MaxTrust), fmt.Sprint(p.Trust))
	case p.LatencyMS < 0:
		return p, problem.Invalid("latency_ms", "at least 0", fmt.Sprint(p.LatencyMS))
	case p.CardSeconds < 0 || p.CardSeconds > int(longest.Seconds()):
		return p, problem.Invalid("card_seconds", fmt.Sprintf("0 to %.0f", longest.Seconds()), fmt.Sprint(p.CardSeconds))
	}
	p.Skills, p.Tags = words(p.Skills), words(p.Tags)
	return p, nil
}

func words(all []string) []string {
	all = slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == "" })
	slices.Sort(all)
	return slices.Compact(all)
}

// Resolved is a suitable peer with its score.
type Resolved struct {
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

func NewPeers(all ...Peer) (*Peers, error) {
	p := &Peers{all: map[string]Peer{}}
	for i, one := range all {
		if err := p.Add(one); err != nil {
			return nil, problem.Within(problem.Usage, fmt.Sprintf("peers[%d]", i), err)
		}
	}
	return p, nil
}

func (p *Peers) Add(one Peer) error {
	one, err := one.check()
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all[one.URL] = one
	return nil
}

// Remove removes a peer and reports whether it existed.
func (p *Peers) Remove(at string) bool {
	if u, err := url.Parse(at); err == nil {
		at = normal(u)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.all[at]
	delete(p.all, at)
	return ok
}

func (p *Peers) All() []Peer {
	p.mu.RLock()
	defer p.mu.RUnlock()
	all := make([]Peer, 0, len(p.all))
	for _, one := range p.all {
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b Peer) int { return cmp.Compare(a.URL, b.URL) })
	return all
}

// CardLifetime returns how long the card at a URL is fresh, according to the peer with this card.
// It returns zero if the peer does not exist or does not specify a time.
func (p *Peers) CardLifetime(at string) time.Duration {
	for _, one := range p.All() {
		if u, err := url.Parse(one.URL); err == nil && slices.Contains(cardURLs(u), at) {
			return time.Duration(one.CardSeconds) * time.Second
		}
	}
	return 0
}

// Resolve returns the peers with a capability, the best first, or all peers for "". The capability
// may be the id of a skill or a tag. A peer without skills and tags has every capability. Only a
// skill improves the score. If no peer has the capability, the error has kind NotFound.
func (p *Peers) Resolve(capability string) ([]Resolved, error) {
	var fit []Resolved
	for _, one := range p.All() {
		id := capability != "" && slices.Contains(one.Skills, capability)
		if capability == "" || id || slices.Contains(one.Tags, capability) || len(one.Skills)+len(one.Tags) == 0 {
			fit = append(fit, Resolved{one, one.score(id)})
		}
	}
	if len(fit) == 0 {
		var skills []string
		for _, one := range p.All() {
			skills = append(skills, one.Skills...)
		}
		offered := ""
		if slices.Sort(skills); len(skills) > 0 {
			offered = fmt.Sprintf("; they can do: %.200s", strings.Join(slices.Compact(skills), ", "))
		}
		return nil, problem.New(problem.NotFound, "no peer can do %.80q%s; vacancy peers add URL admits one", capability, offered)
	}
	slices.SortStableFunc(fit, func(a, b Resolved) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.LatencyMS, b.LatencyMS), cmp.Compare(a.URL, b.URL))
	})
	return fit, nil
}
