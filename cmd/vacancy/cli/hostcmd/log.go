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

const logTimeout = 30 * time.Second

func logCommand(a *kit.App) *cobra.Command {
	return a.ParentCommand(&cobra.Command{
		Use:   "log",
		Short: "Verify and witness a registry's transparency log",
		Long: `Every publication and revocation at a host is a leaf of an append-only Merkle tree. Every
few minutes the host signs the root as a checkpoint. A checkpoint that you keep proves what the host
had published by then.`,
		Example: `  vacancy log verify http://127.0.0.1:8080
  vacancy log cosign https://vacancy.example --as alice`,
	}, logVerifyCommand(a), logCosignCommand(a), logShowCommand(a), logSealCommand(a))
}

type verifyLogFlags struct {
	where                   kit.HostFlags
	identityName            string
	sinceFile, hostID       string
	discardState, allEvents bool
}

func (f *verifyLogFlags) addVerifyFlags(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.sinceFile, "since", "", "a file with a checkpoint that the log must continue, in addition to the last verified checkpoint")
	fs.StringVar(&f.hostID, "host-id", "", "the id of the host that must have signed (default: the id that signed before)")
	fs.BoolVar(&f.discardState, "forget", false, "discard the previous state and trust what the host shows now")
	fs.BoolVar(&f.allEvents, "all", false, "verify every event, not only new ones")
	kit.AddHostFlags(fs, &f.where)
}

func logVerifyCommand(a *kit.App) *cobra.Command {
	var f verifyLogFlags
	cmd := &cobra.Command{
		Use:   "verify [URL]",
		Short: "Verify that a host's log is correct and append-only",
		Long: `Read the newest checkpoint of the host at URL and verify the log. The default is the registry that
"vacancy search" asks. The command verifies:

  - the host's signature
  - that the log continues the checkpoint that was verified last
  - that the hashes of all events produce the signed root
  - proofs of inclusion
  - for each new public event: its signature, its hash and its link to the previous event

The first time, the command trusts the signer's id, unless --host-id gives the id. Verified checkpoints
are stored in $VACANCY_HOME/logs. The command exits with 6 if a check fails. If the host signed two
contradictory logs, the command stores both checkpoints as proof.`,
		Example: `  vacancy log verify
  vacancy log verify https://vacancy.example --all
  vacancy log verify https://vacancy.example --since checkpoint.txt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := openLog(a, cmd.Context(), f, args)
			if err != nil {
				return err
			}
			r, err := l.verifyAndSave(cmd.Context())
			if err != nil {
				return err
			}
			return a.PrintResult(r)
		},
	}
	f.addVerifyFlags(cmd)
	return cmd
}

func logCosignCommand(a *kit.App) *cobra.Command {
	var f verifyLogFlags
	cmd := &cobra.Command{
		Use:   "cosign [URL]",
		Short: "Verify a host's log and cosign its checkpoint",
		Long: `Verify the log of the host at URL as "vacancy log verify" does, sign its checkpoint as
a witness (a C2SP cosignature) and submit the signature. From then on all
readers get the signature with the checkpoint, and the host cannot show another log of that size.

The host accepts cosignatures of its registered vacants and of the witnesses in its configuration.`,
		Example: "  vacancy log cosign https://vacancy.example --as alice",
		RunE: func(cmd *cobra.Command, args []string) error {
			// A new identity is useless, because the host rejects the signatures of identities that
			// it does not know.
			self, err := a.ChooseExistingSigner(cmd.Context(), f.identityName)
			if err != nil {
				return err
			}
			l, err := openLog(a, cmd.Context(), f, args)
			if err != nil {
				return err
			}
			verified, err := l.verifyAndSave(cmd.Context())
			if err != nil {
				return err
			}
			cosignatures, err := l.Cosign(cmd.Context(), verified.report, self.Key, a.Now())
			if problem.Is(err, problem.Forbidden) {
				return kit.WithHint(err, `vacancy publish %s --capability "cosigns logs" --visibility restricted --registry %s, or ask the host's operator to start the host with --witness %s`, self.Name, l.url, translog.WitnessKey(self.ID()))
			}
			if err != nil {
				return err
			}
			return a.PrintResult(cosignResult{verified, self.Name, self.ID(), cosignatures})
		},
	}
	cmd.Flags().StringVar(&f.identityName, "as", "", "the identity that signs (default $VACANCY_AS, else the only one)")
	f.addVerifyFlags(cmd)
	return cmd
}

func logShowCommand(a *kit.App) *cobra.Command {
	var where kit.HostFlags
	cmd := &cobra.Command{
		Use:   "show [URL]",
		Short: "Print a host's latest signed checkpoint",
		Long: `Print the newest checkpoint of the host at URL: a signed note with the host's id, the
number of events in its log and their root, and the lines of its witnesses. Only the
host's signature is verified.

"vacancy log verify --since FILE" reads a checkpoint that you saved to a file.`,
		Example: "  vacancy log show > checkpoint.txt\n  vacancy log show https://vacancy.example",
		RunE: func(cmd *cobra.Command, args []string) error {
			url, err := a.RegistryURL(cmd.Context(), kit.OptionalArgument(args), where)
			if err != nil {
				return err
			}
			note, err := newLogClient(a, url).Checkpoint(cmd.Context())
			if err != nil {
				return err
			}
			c, cosignatures, err := translog.VerifyCheckpoint(note)
			if err != nil {
				return err
			}
			return a.PrintResult(checkpointResult{URL: url, Host: c.Host, Size: c.Size, Root: hex.EncodeToString(c.Root[:]), Witnesses: witnessResults(cosignatures),
				Note: string(note), Key: translog.VerifierKey(c.Host)})
		},
	}
	kit.AddHostFlags(cmd.Flags(), &where)
	return cmd
}

// followedLog is a log that must continue the checkpoint (a signed root) that an earlier command
// stored.
type followedLog struct {
	witness.Follower
	app          *kit.App
	url          string
	checkpoints  witness.Checkpoints
	previous     []byte
	allEvents    bool
	progressLine *kit.ProgressLine
}

func openLog(a *kit.App, ctx context.Context, f verifyLogFlags, args []string) (*followedLog, error) {
	url, err := a.RegistryURL(ctx, kit.OptionalArgument(args), f.where)
	if err != nil {
		return nil, err
	}
	dir, err := a.VacancyHome()
	if err != nil {
		return nil, err
	}
	log := &followedLog{app: a, url: url, checkpoints: witness.Checkpoints{Dir: filepath.Join(dir, "logs")}, allEvents: f.allEvents, progressLine: a.ProgressLine()}
	log.Log = newLogClient(a, url)
	log.Progress = func(doing string, done, total uint64) { log.progressLine.Show("%s: %d of %d", doing, done, total) }
	if f.hostID != "" {
		if log.Host, err = identity.ParseID(f.hostID); err != nil {
			return nil, problem.Wrap(problem.Usage, err, "--host-id: expected 64 hex digits, got %.80q", f.hostID)
		}
	}
	switch {
	case f.discardState && f.sinceFile != "":
		return nil, problem.New(problem.Usage, "--forget and --since: not supported together")
	case f.sinceFile != "":
		// Check the stored checkpoint in addition to the file. Otherwise a host with a forked log
		// could show each reader the branch that continues the reader's file.
		if log.previous, err = datadir.ReadInput(f.sinceFile, a.In); err == nil {
			log.KnownNote, err = log.checkpoints.Load(url)
		}
	case !f.discardState:
		log.previous, err = log.checkpoints.Load(url)
	}
	return log, err
}

func newLogClient(a *kit.App, url string) witness.HTTP {
	return witness.HTTP{Client: &registryclient.Client{Transport: a.HTTPTransport(logTimeout), URL: url, Now: a.Now}}
}

// verifyAndSave verifies the log and stores its checkpoint, or the proof that the log is forked.
func (l *followedLog) verifyAndSave(ctx context.Context) (logResult, error) {
	report, err := l.Verify(ctx, l.previous, l.allEvents)
	l.progressLine.Clear()
	var fork *witness.ForkError
	var otherHost *witness.OtherHostError
	switch {
	case errors.As(err, &fork):
		path, saveErr := l.checkpoints.SaveFork(l.url, fork)
		if saveErr != nil {
			return logResult{}, errors.Join(err, saveErr)
		}
		return logResult{}, problem.Wrap(problem.Untrusted, err, "%s; the two signed checkpoints are stored as proof in %s", problem.AsError(err).Text(), path)
	case problem.Is(err, problem.NotFound):
		return logResult{}, kit.WithHint(err, "vacancy log seal, if it is your host")
	case errors.As(err, &otherHost):
		return logResult{}, kit.WithHint(err, "vacancy log verify %s --forget, if you know that another host now has this URL", l.url)
	case err != nil:
		return logResult{}, err
	}
	verified := logResult{URL: l.url, Host: report.Host, Size: report.Size, Root: hex.EncodeToString(report.Root[:]), Witnesses: witnessResults(report.Cosignatures),
		Leaves: report.LeafCount, Events: report.VerifiedCount, Hidden: report.HiddenCount, report: report}
	if report.Previous != nil {
		verified.Since = &report.Previous.Size
	}
	return verified, l.checkpoints.Save(ctx, l.url, report)
}
