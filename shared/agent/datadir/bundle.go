package datadir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// Bundle is a complete identity, which can be exported and imported.
type Bundle struct {
	Key  *identity.Key
	Card *card.Card // may be nil
	// Manifest is the manifest of a child; may be nil.
	Manifest *composite.Manifest
	Agent    []byte // agent of a hosted vacant, as JSON; may be nil
	Logbook  []logbook.Entry
	Chains   []dispatch.State // one state for each vacant that the identity has called
}

func NewBundle(rand io.Reader) (Bundle, Source, error) {
	key, err := identity.NewKey(rand)
	return Bundle{Key: key}, SourceNewKey, err
}

// SignCard creates and signs a card with a capability. The card has no endpoint, because the
// identity is not hosted.
func (b *Bundle) SignCard(ctx context.Context, capability string) error {
	c, err := card.New(b.Key.ID(), capability, nil, "")
	if err != nil {
		return err
	}
	if err := c.Sign(ctx, b.Key); err != nil {
		return err
	}
	b.Card = &c
	return nil
}

func (i *Identity) Bundle(ctx context.Context) (Bundle, error) {
	b := Bundle{Key: i.Key}
	path := filepath.Join(i.Dir, logbookFile)
	lines, err := readFileLimited(path)
	if err != nil {
		return b, err
	}
	if b.Logbook, err = parseLogbook(lines); err != nil {
		return b, problem.Wrap(problem.Damaged, err, "%s", path)
	}
	path = filepath.Join(i.Dir, cardFile)
	blob, err := readFileLimited(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return b, err
	}
	if err == nil {
		c, err := card.Parse(bytes.TrimSpace(blob))
		if err != nil {
			return b, problem.Wrap(problem.Damaged, err, "%s", path)
		}
		b.Card = &c
	}
	if b.Manifest, err = i.readManifest(); err != nil {
		return b, err
	}
	b.Chains, err = i.readChains(ctx)
	return b, err
}

func (i *Identity) readManifest() (*composite.Manifest, error) {
	path := filepath.Join(i.Dir, manifestFile)
	content, err := readFileLimited(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := composite.ParseManifest(bytes.TrimSpace(content))
	if err != nil {
		return nil, problem.Wrap(problem.Damaged, err, "%s", path)
	}
	return &m, nil
}

func newGenesis(ctx context.Context, key *identity.Key, name string, now time.Time) (logbook.Entry, error) {
	e := logbook.Next(nil, logbook.KindGenesis, now, logbook.GenesisPayload(name, key.ID()))
	_, err := e.Sign(ctx, key)
	return e, err
}

func (b *Bundle) appendLogbook(dst []byte) []byte {
	for i := range b.Logbook {
		dst = append(b.Logbook[i].AppendLine(dst), '\n')
	}
	return dst
}

func parseLogbook(b []byte) ([]logbook.Entry, error) {
	var entries []logbook.Entry
	lineNumber := 0
	for line := range bytes.Lines(b) {
		lineNumber++
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		e, err := logbook.ParseLine(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", lineNumber, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}
