package callcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/yamldoc"
	"github.com/vacancy-host/vacancy/shared/durable"
	"github.com/vacancy-host/vacancy/shared/host/client/agents"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// peersFileName is the file in $VACANCY_HOME that lists the user's peers.
const peersFileName = "peers.yaml"

func peersCommand(a *kit.App) *cobra.Command {
	skill := ""
	list := &cobra.Command{
		Use:     "list",
		Short:   "List your agents, best first",
		Example: "  vacancy peers list\n  vacancy peers list --skill translate",
		RunE: func(*cobra.Command, []string) error {
			peers, err := readPeers(a)
			if err != nil {
				return err
			}
			return listPeers(a, peers, skill)
		},
	}
	list.Flags().StringVar(&skill, "skill", "", "only agents with this skill")
	return a.ParentCommand(&cobra.Command{
		Use:   "peers",
		Short: "Keep a list of A2A agents, and call them by skill",
		Long: `Keep a list of agents in $VACANCY_HOME/peers.yaml. "vacancy call --peer SKILL TEXT" calls the
best agent of the list that has the skill. It calls no other agents.

The score of a peer is the sum of three values: 5 per tier of trust, 1000 divided by its
latency in milliseconds, and 10 if it has the skill. If the card of a peer has no skills, the
peer is treated as if it had every skill.`,
		Example: "  vacancy peers add https://agents.example.org/translator --trust 4 --latency 300\n  vacancy peers list --skill translate",
	}, peersAddCommand(a), list, &cobra.Command{
		Use:     "remove URL",
		Short:   "Remove an agent from the list",
		Example: "  vacancy peers remove https://agents.example.org/translator",
		RunE: func(_ *cobra.Command, args []string) error {
			peers, err := readPeers(a)
			if err != nil {
				return err
			}
			if !peers.Remove(args[0]) {
				return kit.WithHint(problem.New(problem.NotFound, "%.80q is not in the list of peers", args[0]), "vacancy peers list")
			}
			if err := writePeers(a, peers); err != nil {
				return err
			}
			return listPeers(a, peers, "")
		},
	})
}

type peerDocument struct {
	Peers []agents.Peer `json:"peers"`
}

func peersPath(a *kit.App) (string, error) {
	dir, err := a.VacancyHome()
	return filepath.Join(dir, peersFileName), err
}

// newCardCache returns a cache of agent cards. If renew is true, the cache fetches all cards again.
func newCardCache(a *kit.App, httpClient agents.HTTP, renew bool) (*agents.Cache, error) {
	dir, err := a.VacancyHome()
	c := &agents.Cache{HTTP: httpClient, Dir: filepath.Join(dir, "cards"), Now: a.Now, ForceFetch: renew}
	if peers, peersErr := readPeers(a); peersErr == nil { // an invalid list does not prevent a call to a URL
		c.Lifetime = peers.CardLifetime
	}
	return c, err
}

// readPeers reads the list of peers. A missing file is an empty list.
func readPeers(a *kit.App) (*agents.Peers, error) {
	path, err := peersPath(a)
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return agents.NewPeers()
	}
	if err != nil {
		return nil, problem.Wrap(problem.Unavailable, err, "%s cannot be read", path)
	}
	doc, err := yamldoc.ToJSON(b)
	var file peerDocument
	if err == nil {
		dec := json.NewDecoder(strings.NewReader(string(doc)))
		dec.DisallowUnknownFields()
		err = dec.Decode(&file)
	}
	if err != nil {
		return nil, problem.Wrap(problem.Usage, err, "%s is not a list of peers: %v", path, err)
	}
	peers, err := agents.NewPeers(file.Peers...)
	if err != nil {
		return nil, problem.WithPlace(problem.Usage, path, err)
	}
	return peers, nil
}

func writePeers(a *kit.App, peers *agents.Peers) error {
	path, err := peersPath(a)
	if err != nil {
		return err
	}
	b, err := json.Marshal(peerDocument{peers.List()})
	if err != nil {
		return err
	}
	if b, err = yamldoc.FromJSON(b); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return problem.Wrap(problem.Unavailable, err, "%s cannot be created", filepath.Dir(path))
	}
	tempPath := path + ".new"
	err = os.WriteFile(tempPath, b, 0o600)
	if err == nil {
		err = os.Rename(tempPath, path)
	}
	if err == nil {
		err = durable.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return problem.Wrap(problem.Unavailable, err, "%s cannot be written", path)
	}
	return nil
}

func peersAddCommand(a *kit.App) *cobra.Command {
	p, lifetime := agents.Peer{}, time.Duration(0)
	cmd := &cobra.Command{
		Use:   "add URL",
		Short: "Add an agent, or change its trust and latency",
		Long: `Add the agent at URL. The command fetches its card. "--peer SKILL" finds the agent by the ids
and tags of its skills. The URL must be https, unless the agent is on this machine.`,
		Example: "  vacancy peers add https://agents.example.org/translator --trust 4 --latency 300",
		RunE: func(cmd *cobra.Command, args []string) error {
			p.URL, p.CardFreshSeconds = args[0], int(lifetime.Seconds())
			peers, err := readPeers(a)
			if err != nil {
				return err
			}
			cards, err := newCardCache(a, a.HTTPTransport(0), true)
			if err != nil {
				return err
			}
			cards.Lifetime = func(string) time.Duration { return time.Duration(p.CardFreshSeconds) * time.Second }
			card, err := agents.FetchCard(cmd.Context(), cards, p.URL)
			if err != nil {
				return err
			}
			for _, s := range card.Skills {
				p.Skills, p.Tags = append(p.Skills, s.ID), append(p.Tags, s.Tags...)
			}
			if err := peers.Add(p); err != nil {
				return err
			}
			if err := writePeers(a, peers); err != nil {
				return err
			}
			return listPeers(a, peers, "")
		},
	}
	cmd.Flags().IntVar(&p.Trust, "trust", 1, "how much you trust the agent, from 1 to 5")
	cmd.Flags().IntVar(&p.LatencyMS, "latency", 1000, "the time that an answer takes, in milliseconds")
	cmd.Flags().DurationVar(&lifetime, "card-lifetime", 0, "how long a fetched card is used, at most 24h (default: the time that its server sets)")
	kit.AddCAFlag(cmd.Flags())
	return cmd
}

func listPeers(a *kit.App, peers *agents.Peers, skill string) error {
	r := peersResult{Peers: []agents.RatedPeer{}, addCommand: a.FormatCommand("peers add URL")}
	if skill != "" || len(peers.List()) > 0 {
		var err error
		if r.Peers, err = peers.FindByCapability(skill); err != nil {
			return err
		}
	}
	return a.PrintResult(r)
}

type peersResult struct {
	Peers []agents.RatedPeer `json:"peers"`

	addCommand string
}

func (r peersResult) Print(w io.Writer) {
	if len(r.Peers) == 0 {
		fmt.Fprintf(w, "no peers; add one with: %s\n", r.addCommand)
	}
	for _, p := range r.Peers {
		fmt.Fprintf(w, "%8.1f  %s  trust %d, %d ms  %s\n", p.Score, kit.EscapeLine(p.URL), p.Trust, p.LatencyMS, kit.EscapeLine(strings.Join(p.Skills, ", ")))
	}
}

// callPeer calls the best peer that has a skill. The call is signed if the peer is a vacant. If a
// peer cannot be reached and has not received a signed call, callPeer calls the next peer.
func callPeer(a *kit.App, ctx context.Context, f callFlags, words []string, hasThread bool) error {
	peers, err := readPeers(a)
	if err != nil {
		return err
	}
	candidates, err := peers.FindByCapability(f.agent.peerSkill)
	if err != nil {
		return err
	}
	for i, p := range candidates {
		a.PrintNote("calling peer %s, with a score of %.1f", kit.EscapeLine(p.URL), p.Score)
		var notVacantErr kit.NotVacantError
		if f.agent.isAnySet() {
			err = callAgent(a, ctx, f, p.URL, words)
		} else if err = callVacantOrAgent(a, ctx, f, p.URL, words, hasThread); problem.Is(err, problem.Unavailable) && !errors.As(err, &notVacantErr) {
			return err // the peer may have received the signed call
		}
		if i == len(candidates)-1 || !problem.Is(err, problem.Unavailable) {
			return err
		}
		a.PrintNote("%s cannot be reached: %s", kit.EscapeLine(p.URL), problem.AsError(err).Text())
	}
	return err
}
