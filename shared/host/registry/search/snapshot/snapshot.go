// Package snapshot publishes search indexes as blobs: one process builds the
// index, any number load it.
//
// A snapshot is an archive (a tar of regular files) and a manifest under a
// fixed name that names the current archive. The invariants: an archive is
// complete before a manifest names it, and is not removed while it does. A
// manifest is replaced only by a writer that built upon it. A loaded directory
// comes from an archive with the manifest's SHA-256.
package snapshot

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/blob"
)

// Prefix of all blobs of this package.
const Prefix = "search/"

const manifestKey = Prefix + "manifest.json"

// CheckEvery is the interval at which Newer reads the manifest: a request a
// second from thousands of processes would cost more than the index.
const CheckEvery = 10 * time.Second

const (
	// orphanAge is the age at which an unreferenced archive is removed. A loader reads the
	// archive within one download after the manifest.
	orphanAge = time.Hour
	// tries at conflicts and unknown outcomes.
	tries = 4
)

// Source is an index that can be copied while in use; search/bleve implements
// it.
type Source interface {
	// Snapshot writes a consistent state of the index as a tar of regular
	// files.
	Snapshot(ctx context.Context, w io.Writer) error
	// Mark is the cursor in the feed of changes that the index reached. It is
	// in the archive too; the manifest's copy is for people.
	Mark(ctx context.Context) (string, error)
	Count(ctx context.Context) (int, error)
}

// Version is a published snapshot. The zero Version means that there is none.
type Version struct {
	Manifest Manifest
	Tag      string // of the manifest
}

// ErrOvertaken: another indexer published since the version that was built
// upon. Load the new one, bring it up to date and publish again.
var ErrOvertaken = errors.New("another indexer published a snapshot meanwhile")

// Config configures Snapshots; all fields are required.
type Config struct {
	Blobs blob.Blobs
	Now   func() time.Time
	Rand  io.Reader // safe for concurrent use
	// Dir is a directory that only this process uses, for archives being
	// uploaded and loaded indexes.
	Dir string
}

// Snapshots are the snapshots of one host. They are safe for concurrent use.
type Snapshots struct {
	cfg   Config
	watch watch
}

// New returns the snapshots of cfg.Blobs.
func New(cfg Config) *Snapshots { return &Snapshots{cfg: cfg} }

// Latest reads the newest version; the zero Version if there is none. For an
// unreadable manifest the error is Damaged and the Version has its Tag, so that
// a rebuilt index can replace it.
func (s *Snapshots) Latest(ctx context.Context) (Version, error) {
	o, err := s.cfg.Blobs.Get(ctx, manifestKey)
	if errors.Is(err, blob.ErrAbsent) {
		return Version{}, nil
	}
	if err != nil {
		return Version{}, failed(err, "reading the snapshot's manifest")
	}
	defer o.Body.Close()
	text, err := io.ReadAll(io.LimitReader(o.Body, maxManifest+1))
	if err != nil {
		return Version{}, failed(err, "reading the snapshot's manifest")
	}
	m, err := parseManifest(text)
	if err != nil {
		return Version{Tag: o.Tag}, problem.Wrap(problem.Damaged, err, "the search index's manifest is damaged")
	}
	return Version{Manifest: m, Tag: o.Tag}, nil
}

// failed gives an error of the blobs a kind.
func failed(err error, doing string) error {
	if errors.Is(err, blob.ErrUnavailable) || errors.Is(err, blob.ErrAbsent) {
		return problem.Wrap(problem.Unavailable, err, "%s", doing)
	}
	return problem.Wrap(problem.Internal, err, "%s", doing)
}
