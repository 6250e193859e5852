// Package datadir stores the identities of a user. Each identity has a directory with its key, logbook,
// card and chains. A chain is the state of the identity's numbered calls to one vacant, the target.
//
//	$VACANCY_HOME/identities/NAME/   0700
//	    key.json                     0600, unencrypted seed: its reader can sign as the identity
//	    logbook.jsonl                entries in the format of the reference implementation
//	    card.json                    signed card; optional
//	    manifest.json                manifest of a child; optional
//	    chains/<target id>.json      states of calls, see dispatch/filebook
//	    reviews/<request hash>.json  signed reviews of answered calls; optional
//
// An identity exists completely or not at all. A key file is written once and never changed.
// Imports are verified before they are stored.
package datadir

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const (
	keyFile      = "key.json"
	logbookFile  = "logbook.jsonl"
	cardFile     = "card.json"
	manifestFile = "manifest.json"
	chainsDir    = "chains"
)

// Dir is the directory of all identities.
type Dir struct {
	Dir  string
	Now  func() time.Time
	Rand io.Reader
}

type Identity struct {
	Name string
	Dir  string
	Key  *identity.Key
}

func (i *Identity) ID() identity.ID { return i.Key.ID() }

func (i *Identity) KeyFile() string { return filepath.Join(i.Dir, keyFile) }

func (i *Identity) ChainsDir() string { return filepath.Join(i.Dir, chainsDir) }

// CheckName returns an error unless name is a valid name of an identity and its directory: 1 to 64
// of A-Z a-z 0-9 . _ -, not starting with a dot.
func CheckName(name string) error {
	isInvalid := name == "" || len(name) > 64 || name[0] == '.' || strings.IndexFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r))
	}) >= 0
	if isInvalid {
		return &problem.Error{Kind: problem.Usage, Field: "name", Want: "1 to 64 letters, digits, '.', '_' or '-', not starting with '.'", Got: quoteTruncated(name)}
	}
	return nil
}

// CheckNewName checks the name of a new identity. It also rejects names that begin with -, because
// commands would parse them as flags.
func CheckNewName(name string) error {
	if err := CheckName(name); err != nil || name[0] != '-' {
		return err
	}
	return &problem.Error{Kind: problem.Usage, Field: "name", Want: "a name that does not begin with -, for example alice", Got: quoteTruncated(name)}
}

func (d *Dir) Names() ([]string, error) {
	entries, err := os.ReadDir(d.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		// CheckName rejects the names of temporary directories, which start with a dot.
		if e.IsDir() && CheckName(e.Name()) == nil {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Open reads an identity. It rejects a key file that other users can read.
func (d *Dir) Open(name string) (*Identity, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	dir := filepath.Join(d.Dir, name)
	path := filepath.Join(dir, keyFile)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, problem.New(problem.NotFound, "no identity %q under %s", name, d.Dir)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat() // checks the opened file, because the path may have been replaced
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, problem.New(problem.Forbidden, "%s can be read by other users (mode %04o); run chmod 600 on it, and consider whether the key is still secret", path, info.Mode().Perm())
	}
	b, err := readLimited(path, f)
	if err != nil {
		return nil, err
	}
	defer clear(b)
	key, err := parseKeyFile(path, b)
	if err != nil {
		return nil, err
	}
	return &Identity{Name: name, Dir: dir, Key: key}, nil
}

func quoteTruncated(s string) string {
	if len(s) > 40 {
		s = s[:40] + "..."
	}
	return `"` + strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s) + `"`
}

// maxFileBytes limits every file that this package reads, for example an export with a long
// logbook.
const maxFileBytes = 256 << 20

func readFileLimited(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readLimited(path, f)
}

func readLimited(path string, r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxFileBytes {
		return nil, problem.New(problem.TooLarge, "%s is larger than %d MiB", path, maxFileBytes>>20)
	}
	return b, nil
}
