package hostcmd

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"filippo.io/age"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/agent/datadir"
	"github.com/vacancy-host/vacancy/shared/durable"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// passphraseEnv names the variable with the passphrase of a backup. The passphrase is not an
// argument, because all users of the machine can see arguments.
const passphraseEnv = "VACANCY_PASSPHRASE"

func backupCommand(a *kit.App) *cobra.Command {
	var data, recipient, passphraseFile string
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy a local host to an encrypted file",
		Long: `Copy the host of a data directory to FILE while it runs: its data, the files of workspaces
and the key that seals its secrets. The search index and the log of calls are not copied.

FILE is encrypted in the age format, for the public key --recipient (age1...) or with a passphrase.
The passphrase comes from --passphrase-file (- is standard input) or $VACANCY_PASSPHRASE. If you give
neither a key nor a passphrase, the command creates a passphrase and prints it. The passphrase is not
stored.

A backup contains the text keys of its day. The texts of that day can be read for as long as you keep
the backup.`,
		Example: `  vacancy backup monday.age
  vacancy backup monday.age --recipient age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p`,
		RunE: func(cmd *cobra.Command, args []string) error {
			passphrase, err := readPassphrase(a, passphraseFile)
			if err != nil {
				return err
			}
			path := args[0]
			r := backupResult{File: path, restoreCommand: a.FormatCommand("restore %s", kit.ShellWord(path))}
			var ageRecipient age.Recipient
			switch {
			case recipient != "" && passphraseFile != "":
				return problem.New(problem.Usage, "--recipient and --passphrase-file: not supported together")
			case recipient != "":
				if ageRecipient, err = age.ParseX25519Recipient(recipient); err != nil {
					return problem.New(problem.Usage, "--recipient: expected a public key of age, age1..., got %.80q", recipient)
				}
			default:
				if passphrase == "" {
					passphrase = rand.Text()
					r.Passphrase = passphrase
				}
				if ageRecipient, err = age.NewScryptRecipient(passphrase); err != nil {
					return problem.Wrap(problem.Usage, err, "the passphrase cannot be used")
				}
			}
			return a.WithAdmin(kit.HostFlags{Host: kit.HostLocal, Data: data}, false, func(c *kit.AdminAPI) error {
				if err := writeBackup(cmd.Context(), c, path, ageRecipient); err != nil {
					return err
				}
				if info, err := os.Stat(path); err == nil {
					r.Bytes = info.Size()
				}
				return a.PrintResult(r)
			})
		},
	}
	cmd.Flags().StringVar(&recipient, "recipient", "", "the age public key for which the backup is encrypted")
	addPassphraseFlag(cmd.Flags(), &passphraseFile)
	kit.AddDataFlag(cmd.Flags(), &data)
	return cmd
}

func addPassphraseFlag(fs *pflag.FlagSet, file *string) {
	fs.StringVar(file, "passphrase-file", "", "a file with the passphrase, - for standard input (default $VACANCY_PASSPHRASE)")
}

func readPassphrase(a *kit.App, file string) (string, error) {
	if file == "" {
		return a.Env[passphraseEnv], nil
	}
	b, err := datadir.ReadInput(file, a.In)
	if err != nil {
		return "", err
	}
	s := strings.TrimRight(string(b), "\r\n")
	if s == "" {
		return "", problem.New(problem.Usage, "--passphrase-file: expected a passphrase, got nothing")
	}
	return s, nil
}

// writeBackup writes a backup to a temporary file, and renames it when the backup is complete.
func writeBackup(ctx context.Context, c *kit.AdminAPI, path string, recipient age.Recipient) (err error) {
	if err := datadir.CheckNewFile(path); err != nil {
		return err
	}
	body, err := c.Backup(ctx)
	if err != nil {
		return err
	}
	defer body.Close()
	tempPath := path + ".part"
	f, err := os.OpenFile(tempPath, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return problem.Wrap(problem.Unavailable, err, "%s cannot be created: %v", tempPath, err)
	}
	defer func() {
		f.Close()
		if err != nil {
			os.Remove(tempPath)
		}
	}()
	w, err := age.Encrypt(f, recipient)
	if err == nil {
		_, err = io.Copy(w, body)
	}
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(tempPath, path)
	}
	if err == nil {
		tempPath = path
		err = durable.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return problem.Wrap(problem.Unavailable, err, "the incomplete backup %s was removed: %v", path, err)
	}
	return nil
}

// backupResult describes a backup. Passphrase is "" if the user gave a passphrase or a recipient.
type backupResult struct {
	File       string `json:"file"`
	Bytes      int64  `json:"bytes"`
	Passphrase string `json:"passphrase,omitempty"`

	restoreCommand string
}

func (r backupResult) Print(w io.Writer) {
	fmt.Fprintf(w, "%s: %d bytes, encrypted\n", kit.EscapeLine(r.File), r.Bytes)
	if r.Passphrase != "" {
		fmt.Fprintf(w, "  passphrase  %s\n  Write it down: it is not stored, and the backup cannot be read without it.\n", r.Passphrase)
	}
	fmt.Fprintf(w, "  to restore it: %s\n", r.restoreCommand)
}
