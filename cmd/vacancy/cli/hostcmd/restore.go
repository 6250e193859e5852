package hostcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/durable"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func restoreCommand(a *kit.App) *cobra.Command {
	var data, identityFile, passphraseFile string
	var noUpgrade bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore a local host from a backup",
		Long: `Restore a host from FILE, which "vacancy backup" wrote, to a data directory without a host. The
passphrase comes from --passphrase-file or $VACANCY_PASSPHRASE. Otherwise the command asks for it. If
the backup was made for a recipient, --identity is a file with the age secret key.

The host then accepts only messages signed later than five minutes after the restore, because it does
not know which messages it accepted after the backup ("vacancy restored"). At the end the command
verifies all data. With --json the result of this check is a second object.

The data of an earlier version of vacancy is upgraded. FILE is not changed.`,
		Example: `  vacancy restore monday.age
  vacancy restore monday.age --data /srv/vacancy --identity key.txt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return restore(a, cmd.Context(), args[0], data, identityFile, passphraseFile, noUpgrade)
		},
	}
	cmd.Flags().StringVar(&identityFile, "identity", "", "a file with the secret key of age, for a backup made for a recipient")
	addPassphraseFlag(cmd.Flags(), &passphraseFile)
	kit.AddNoUpgradeFlag(cmd.Flags(), &noUpgrade)
	kit.AddDataFlag(cmd.Flags(), &data)
	return cmd
}

func restore(a *kit.App, ctx context.Context, path, data, identityFile, passphraseFile string, noUpgrade bool) error {
	dir, err := a.DataDir(data)
	if err != nil {
		return err
	}
	if _, _, err := serve.DialAdmin(dir); err == nil {
		return problem.New(problem.Conflict, "a host is running in %s; stop it first", dir)
	}
	if !standalone.IsEmpty(ctx, dir) {
		err := problem.New(problem.Conflict, "the host in %s is not replaced, because it may have accepted calls since the backup", dir)
		return kit.WithHint(err, "mv %s %s.before, and the same command again", kit.ShellWord(dir), kit.ShellWord(dir))
	}
	f, err := os.Open(path)
	if err != nil {
		return problem.Wrap(problem.NotFound, err, "%s cannot be read: %v", path, err)
	}
	defer f.Close()
	key, err := backupKey(a, ctx, identityFile, passphraseFile)
	if err != nil {
		return err
	}
	archive, err := age.Decrypt(f, key)
	var noMatch *age.NoIdentityMatchError
	switch {
	case errors.As(err, &noMatch):
		return problem.New(problem.Untrusted, "%s cannot be opened with this passphrase or key", path)
	case err != nil:
		return problem.Wrap(problem.Untrusted, err, "%s is not an encrypted backup: %v", path, err)
	}
	// Check the data in a temporary directory, which becomes the data directory if all checks pass.
	tempDir := dir + ".restoring"
	if err := os.RemoveAll(tempDir); err != nil {
		return problem.Wrap(problem.Unavailable, err, "%s, left by an interrupted run, cannot be removed", tempDir)
	}
	if err := serve.EnsurePrivate(tempDir); err != nil {
		return err
	}
	r, err := restoreToDir(a, ctx, tempDir, archive, noUpgrade)
	if err == nil {
		r.PreviousDir, err = replaceDataDir(tempDir, dir)
	}
	if err != nil {
		os.RemoveAll(tempDir)
		return err
	}
	r.Data, r.callCommand = dir, a.FormatCommand("call")
	if err := a.PrintResult(r); err != nil {
		return err
	}
	return verifyHost(a, ctx, kit.HostFlags{Host: kit.HostLocal, Data: dir}, kit.ReadFlags{})
}

func backupKey(a *kit.App, ctx context.Context, identityFile, passphraseFile string) (age.Identity, error) {
	if identityFile != "" {
		f, err := os.Open(identityFile)
		if err != nil {
			return nil, problem.Wrap(problem.NotFound, err, "--identity: %v", err)
		}
		defer f.Close()
		keys, err := age.ParseIdentities(f)
		if err != nil || len(keys) != 1 {
			return nil, problem.New(problem.Usage, "--identity: expected a file with one secret key of age")
		}
		return keys[0], nil
	}
	passphrase, err := readPassphrase(a, passphraseFile)
	if err == nil && passphrase == "" {
		passphrase, err = a.AskLine(ctx, "Passphrase of the backup:")
	}
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(passphrase) == "" {
		return nil, problem.New(problem.Usage, "expected a passphrase, got none")
	}
	key, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return nil, problem.Wrap(problem.Usage, err, "the passphrase cannot be used")
	}
	return key, nil
}

// restoreToDir unpacks a backup and raises the floors of its vacants. Messages signed before the
// floor are refused, because the host may have accepted them after the backup.
func restoreToDir(a *kit.App, ctx context.Context, dir string, archive io.Reader, noUpgrade bool) (r restoreResult, err error) {
	backup, err := standalone.Unpack(archive, dir)
	if err != nil {
		return r, err
	}
	if info, err := standalone.InspectData(dir); noUpgrade && err == nil && !info.IsCurrent() && !info.IsNewer() {
		return r, problem.New(problem.Conflict, "the data of the backup have %s, but this version of vacancy reads %s; without --no-upgrade, the command upgrades the restored data and does not change the backup", info, standalone.CurrentVersion())
	}
	config := kit.NewHostConfig(dir)
	config.NoUpgrade, config.SkipCopy = noUpgrade, true // the backup itself serves as the copy
	host, err := a.OpenHostWith(config)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, host.Close()) }()
	r.CreatedAt, r.URL = backup.CreatedAt, backup.URL
	floors, err := host.Vacants.RaiseFloors(ctx)
	r.Vacants, r.RefusedUntil = floors.Vacants, floors.LatestFloor
	return r, err
}

// replaceDataDir renames the restored directory to dir. An existing dir may contain the only key of
// another host, so it is first renamed to previousDir.
func replaceDataDir(tempDir, dir string) (previousDir string, err error) {
	if standalone.FileExists(dir) {
		previousDir = dir + ".before"
		for n := 2; standalone.FileExists(previousDir); n++ {
			previousDir = fmt.Sprintf("%s.before-%d", dir, n)
		}
		if err := os.Rename(dir, previousDir); err != nil {
			return "", problem.Wrap(problem.Unavailable, err, "%s cannot be moved to %s", dir, previousDir)
		}
	}
	if err := os.Rename(tempDir, dir); err != nil {
		if previousDir != "" {
			err = errors.Join(err, os.Rename(previousDir, dir))
		}
		return "", problem.Wrap(problem.Unavailable, err, "%s cannot be renamed to %s: %v", tempDir, dir, err)
	}
	return previousDir, durable.SyncDir(filepath.Dir(dir))
}

type restoreResult struct {
	Data      string    `json:"data"`
	CreatedAt time.Time `json:"made"` // time of the backup
	URL       string    `json:"url"`
	Vacants   int       `json:"vacants"`
	// Messages that were signed up to RefusedUntil are refused.
	RefusedUntil time.Time `json:"refused_until,omitzero"`
	// PreviousDir is the new path of the previous data directory, or "".
	PreviousDir string `json:"kept,omitempty"`

	callCommand string
}

func (r restoreResult) Print(w io.Writer) {
	fmt.Fprintf(w, "%s is restored to its state at %s; calls since then are lost\n", kit.EscapeLine(r.Data), kit.FormatTime(r.CreatedAt))
	if r.PreviousDir != "" {
		fmt.Fprintf(w, "the previous files are in %s\n", kit.EscapeLine(r.PreviousDir))
	}
	restoredResult{Data: r.Data, Vacants: r.Vacants, RefusedUntil: r.RefusedUntil, callCommand: r.callCommand}.Print(w)
}
