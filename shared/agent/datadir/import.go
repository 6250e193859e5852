package datadir

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// Source is the origin of an imported or new identity.
type Source string

const (
	SourceNewKey  Source = "new key" // the identity is not imported
	FromSeed      Source = "seed"
	FromReference Source = "reference home"
	FromExport    Source = "export"
)

const stdinName = "-"

// Import reads and verifies an identity from a seed (64 hex digits or 32 bytes, in a file or on
// stdin), a home directory of the reference implementation, or an export. If a home directory does
// not contain its seed, seed is the path of the seed. Otherwise seed is "".
func Import(path, seed string, stdin io.Reader) (Bundle, Source, error) {
	if path != stdinName {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return Bundle{}, "", problem.New(problem.NotFound, "no file or folder %s to import", path)
		}
		if err != nil {
			return Bundle{}, "", err
		}
		if info.IsDir() {
			b, err := importReference(path, seed, stdin)
			return b, FromReference, err
		}
	}
	if seed != "" {
		return Bundle{}, "", problem.New(problem.Usage, "--seed needs a home directory, and %s is not one", path)
	}
	b, err := ReadInput(path, stdin)
	if err != nil {
		return Bundle{}, "", err
	}
	if bytes.HasPrefix(bytes.TrimSpace(b), []byte("{")) {
		bundle, err := importExportFile(path, b)
		return bundle, FromExport, err
	}
	key, err := parseSeed(path, b)
	return Bundle{Key: key}, FromSeed, err
}

func importExportFile(path string, b []byte) (Bundle, error) {
	e, err := ParseExport(b)
	if err != nil {
		return Bundle{}, err
	}
	for _, f := range e.Check() {
		if !f.OK {
			return Bundle{}, problem.New(problem.Untrusted, "%s is not imported: its %s is broken: %s", path, f.Part, f.Detail)
		}
	}
	return e.toBundle()
}

func parseSeed(path string, b []byte) (*identity.Key, error) {
	if len(b) != identity.Size {
		seed := make([]byte, hex.DecodedLen(len(b)))
		defer clear(seed)
		n, err := hex.Decode(seed, bytes.TrimSpace(b))
		if err != nil || n != identity.Size {
			return nil, problem.New(problem.Usage, "%s contains no seed: expected 64 hex digits or 32 bytes, got %d bytes", path, len(b))
		}
		b = seed[:n]
	}
	return identity.KeyFromSeed(b)
}

func importReference(dir, seed string, stdin io.Reader) (Bundle, error) {
	key, err := referenceKey(dir, seed, stdin)
	if err != nil {
		return Bundle{}, err
	}
	b := Bundle{Key: key}
	path := filepath.Join(dir, logbookFile)
	lines, err := readFileLimited(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Bundle{}, err
	}
	if b.Logbook, err = parseLogbook(lines); err != nil {
		return Bundle{}, problem.Wrap(problem.Untrusted, err, "%s is not imported", path)
	}
	if err := logbook.VerifyChain(key.ID(), b.Logbook); err != nil {
		return Bundle{}, problem.Wrap(problem.Untrusted, err, "%s is not imported", path)
	}
	path = filepath.Join(dir, "envelope_state.json")
	state, err := readFileLimited(path)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil // the identity has made no calls
	}
	if err != nil {
		return Bundle{}, err
	}
	if b.Chains, err = dispatch.ParseReference(key.ID(), state); err != nil {
		return Bundle{}, problem.Wrap(problem.Damaged, err, "%s is not imported", path)
	}
	return b, nil
}

// referenceKey reads the key from a home directory of the reference implementation, which may store
// the seed in the operating system's keyring.
func referenceKey(dir, seed string, stdin io.Reader) (*identity.Key, error) {
	path := filepath.Join(dir, keyFile)
	b, err := readFileLimited(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, problem.New(problem.NotFound, "%s is not a home directory of the reference implementation: it has no %s", dir, keyFile)
	}
	if err != nil {
		return nil, err
	}
	defer clear(b)
	doc, err := parseKeyDoc(path, b)
	if err != nil {
		return nil, err
	}
	if doc.Format != "" {
		return nil, problem.New(problem.Usage, "%s is an identity of vacancy; export it and import the export", dir)
	}
	if seed != "" {
		b, err := ReadInput(seed, stdin)
		if err != nil {
			return nil, err
		}
		defer clear(b)
		key, err := parseSeed(seed, b)
		if err != nil {
			return nil, err
		}
		doc.Seed = hex.EncodeToString(key.Seed())
	}
	if doc.Seed == "" && (doc.Storage == storageKeyring || doc.Storage == "") {
		name := filepath.Base(dir)
		return nil, problem.New(problem.NotFound, "%s stores its seed in the keyring of the operating system; pass the seed to the import: keyring get vacant.cli %s | vacancy init %s --import %s --seed -", path, name, name, dir)
	}
	if doc.Seed == "" {
		return nil, problem.New(problem.Damaged, "%s has no seed_hex", path)
	}
	return doc.identityKey(path)
}

// ReadInput reads a file without its byte order mark, or stdin for "-".
func ReadInput(path string, stdin io.Reader) ([]byte, error) {
	if path == stdinName {
		return readLimited("standard input", stdin)
	}
	b, err := readFileLimited(path)
	return canon.TrimByteOrderMark(b), err
}
