package hostcmd

import (
	"context"
	"encoding/hex"
	"errors"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/agent/datadir"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/client/witness"
	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// logTimeout limits the time for one request to a log.
const logTimeout = 30 * time.Second

func logCommand(a *kit.App) *cobra.Command {
	return a.Parent(&cobra.Command{
		Use:   "log",
		Short: "Verify and witness a registry's transparency log",
		Long: `Every publication and revocation at a host is a leaf of an append-only Merkle tree. Every
few minutes the host signs the root as a checkpoint. A kept checkpoint proves for ever
what the host published.`,
		Example: `  vacancy log verify http://127.0.0.1:8080
  vacancy log cosign https://vacancy.example --as alice`,
	}, logVerifyCommand(a), logCosignCommand(a), logShowCommand(a), logSealCommand(a))
}

// logFlags contains the flags of the commands that verify a log.
type logFlags struct {
	where         kit.Where
	as            string
	since, hostID string
	forget, all   bool
}

// following adds the flags of a command that verifies a log.
func (f *logFlags) following(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.since, "since", "", "a file with a checkpoint that the log must continue, in addition to the one verified last")
	fs.StringVar(&f.hostID, "host-id", "", "the id of the host that must have signed (default: the id that signed before)")
	fs.BoolVar(&f.forget, "forget", false, "discard the previous state and trust what the host shows now")
	fs.BoolVar(&f.all, "all", false, "verify every event, not only new ones")
	kit.HostFlags(fs, &f.where)
}

func logVerifyCommand(a *kit.App) *cobra.Command {
	var f logFlags
	cmd := &cobra.Command{
		Use:   "verify [URL]",
		Short: "Verify that a host's log is correct and append-only",
		Long: `Read the newest checkpoint of the host at URL (default: the registry that "vacancy
search" asks) and verify: the host's signature; that the log continues the checkpoint
verified last; that the hashes of all events produce the signed root; proofs of
inclusion; and for each new public event its signature, its hash and its link to the
event before.

The first time, the signer's id is trusted, unless --host-id gives it. Verified
checkpoints are kept in $VACANCY_HOME/logs. The command exits with 6 if any of this is
false. If the host signed two logs that contradict each other, both checkpoints are kept
as the proof.`,
		Example: `  vacancy log verify
  vacancy log verify https://vacancy.example --all
  vacancy log verify https://vacancy.example --since checkpoint.txt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := openLog(a, cmd.Context(), f, args)
			if err != nil {
				return err
			}
			r, err := l.verify(cmd.Context())
			if err != nil {
				return err
			}
			return a.Show(r)
		},
	}
	f.following(cmd)
	return cmd
}

func logCosignCommand(a *kit.App) *cobra.Command {
	var f logFlags
	cmd := &cobra.Command{
		Use:   "cosign [URL]",
		Short: "Verify a host's log and cosign its checkpoint",
		Long: `Verify the log of the host at URL as "vacancy log verify" does, sign its checkpoint as
a witness (a C2SP cosignature) and submit the signature. From then on everybody gets it
with the checkpoint, and the host can show no other log of that size.

The host accepts cosignatures of vacants that are registered there and of witnesses in
its configuration.`,
		Example: "  vacancy log cosign https://vacancy.example --as alice",
		RunE: func(cmd *cobra.Command, args []string) error {
			// The identity must exist, because the host does not know new identities and rejects
			// their signatures.
			self, err := a.ExistingCaller(cmd.Context(), f.as)
			if err != nil {
				return err
			}
			l, err := openLog(a, cmd.Context(), f, args)
			if err != nil {
				return err
			}
			verified, err := l.verify(cmd.Context())
			if err != nil {
				return err
			}
			n, err := l.Cosign(cmd.Context(), verified.report, self.Key, a.Now())
			if problem.Is(err, problem.Forbidden) {
				return kit.WithHint(err, `vacancy publish %s --capability "cosigns logs" --visibility restricted --registry %s, or have the host take --witness %s`, self.Name, l.url, translog.WitnessKey(self.ID()))
			}
			if err != nil {
				return err
			}
			return a.Show(cosignResult{verified, self.Name, self.ID(), n})
		},
	}
	cmd.Flags().StringVar(&f.as, "as", "", "the identity that signs (default $VACANCY_AS, else the only one)")
	f.following(cmd)
	return cmd
}

func logShowCommand(a *kit.App) *cobra.Command {
	var w kit.Where
	cmd := &cobra.Command{
		Use:   "show [URL]",
		Short: "Print a host's latest signed checkpoint",
		Long: `Print the newest checkpoint of the host at URL: a signed note with the host's id, the
number of events in its log and their root, and the lines of its witnesses. Only the
host's signature is verified.

"vacancy log verify --since FILE" reads a checkpoint that you saved to a file.`,
		Example: "  vacancy log show > checkpoint.txt\n  vacancy log show https://vacancy.example",
		RunE: func(cmd *cobra.Command, args []string) error {
			url, err := a.RegistryURL(cmd.Context(), kit.OptionalArgument(args), w)
			if err != nil {
				return err
			}
			note, err := logAt(a, url).Checkpoint(cmd.Context())
			if err != nil {
				return err
			}
			c, cosigned, err := translog.Open(note)
			if err != nil {
				return err
			}
			return a.Show(checkpointResult{URL: url, Host: c.Host, Size: c.Size, Root: hex.EncodeToString(c.Root[:]), Witnesses: witnessResults(cosigned),
				Note: string(note), Key: translog.VerifierKey(c.Host)})
		},
	}
	kit.HostFlags(cmd.Flags(), &w)
	return cmd
}

// followed is a log that a command verifies. The log must continue the checkpoint (a signed root of
// the log) that an earlier command verified and stored.
type followed struct {
	witness.Follower
	app    *kit.App
	url    string
	memory witness.Checkpoints
	before []byte // checkpoint that the log must continue
	all    bool
	line   *kit.ProgressLine
}

func openLog(a *kit.App, ctx context.Context, f logFlags, args []string) (*followed, error) {
	url, err := a.RegistryURL(ctx, kit.OptionalArgument(args), f.where)
	if err != nil {
		return nil, err
	}
	dir, err := a.DataHomeDir()
	if err != nil {
		return nil, err
	}
	l := &followed{app: a, url: url, memory: witness.Checkpoints{Dir: filepath.Join(dir, "logs")}, all: f.all, line: a.ProgressLine()}
	l.Log = logAt(a, url)
	l.Progress = func(doing string, done, total uint64) { l.line.Show("%s: %d of %d", doing, done, total) }
	if f.hostID != "" {
		if l.Host, err = identity.ParseID(f.hostID); err != nil {
			return nil, problem.Wrap(problem.Usage, err, "--host-id: expected 64 hex digits, got %.80q", f.hostID)
		}
	}
	switch {
	case f.forget && f.since != "":
		return nil, problem.New(problem.Usage, "--forget and --since: not supported together")
	case f.since != "":
		// Check the stored checkpoint in addition to the file. Otherwise a host with a forked log
		// could show each reader the branch that continues the reader's file.
		if l.before, err = datadir.ReadInput(f.since, a.In); err == nil {
			l.Known, err = l.memory.Load(url)
		}
	case !f.forget:
		l.before, err = l.memory.Load(url)
	}
	return l, err
}

func logAt(a *kit.App, url string) witness.HTTP {
	return witness.HTTP{Client: &registryclient.Client{Transport: a.HTTP(logTimeout), URL: url, Now: a.Now}}
}

// verify verifies the log and stores its checkpoint. If the log is forked, it stores the proof of
// the fork.
func (l *followed) verify(ctx context.Context) (logResult, error) {
	r, err := l.Verify(ctx, l.before, l.all)
	l.line.Clear()
	var fork *witness.ForkError
	var other *witness.OtherHostError
	switch {
	case errors.As(err, &fork):
		path, kept := l.memory.SaveFork(l.url, fork)
		if kept != nil {
			return logResult{}, errors.Join(err, kept)
		}
		return logResult{}, problem.Wrap(problem.Untrusted, err, "%s; the two checkpoints that it signed are kept as the proof in %s", problem.AsError(err).Text(), path)
	case problem.Is(err, problem.NotFound):
		return logResult{}, kit.WithHint(err, "vacancy log seal, if it is your host")
	case errors.As(err, &other):
		return logResult{}, kit.WithHint(err, "vacancy log verify %s --forget, if you know that another host is there now", l.url)
	case err != nil:
		return logResult{}, err
	}
	verified := logResult{URL: l.url, Host: r.Host, Size: r.Size, Root: hex.EncodeToString(r.Root[:]), Witnesses: witnessResults(r.Cosignatures),
		Leaves: r.Leaves, Events: r.Checked, Hidden: r.Hidden, report: r}
	if r.Since != nil {
		verified.Since = &r.Since.Size
	}
	return verified, l.memory.Save(ctx, l.url, r)
}
