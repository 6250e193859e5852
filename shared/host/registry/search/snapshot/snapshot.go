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

// Prefix is where all blobs of this package are, in whatever bucket or directory.
const Prefix = "search/"

const manifestKey = Prefix + "manifest.json"

const (
	// orphanAge is when an archive that no manifest names is removed. A loader
	// has read the manifest that named it within the time of one download.
	orphanAge = time.Hour
	// checkEvery is how often Newer asks the host: a request a second of
	// thousands of processes would cost more than the index.
	checkEvery = 10 * time.Second
	// tries at what others change meanwhile, and at an unknown outcome.
	tries = 4
)

// Source is an index that can be copied while it is in use: search/bleve.
type Source interface {
	// Snapshot writes one consistent state of the index as a tar of regular
	// files.
	Snapshot(ctx context.Context, w io.Writer) error
	// Mark is the cursor of the feed of changes up to which the index stands.
	// It lives in the index too; the manifest's copy is to be looked at.
	Mark(ctx context.Context) (string, error)
	Count(ctx context.Context) (int, error)
}

// Version is one published snapshot, as its manifest tells it. The zero
// Version means that none was published yet.
type Version struct {
	Manifest Manifest
	Tag      string // of the manifest
}

// ErrOvertaken: another indexer published since the version that was built
// upon. Load the new one, catch up and publish that.
var ErrOvertaken = errors.New("another indexer published a snapshot meanwhile")

// Config is what Snapshots are made of; all is needed.
type Config struct {
	Blobs blob.Blobs
	Now   func() time.Time
	Rand  io.Reader // safe for concurrent use
	// Dir is a directory of this process alone: archives on their way out and
	// loaded indexes are in it, each under a fresh name.
	Dir string
}

// Snapshots are those of one host. They are safe for concurrent use.
type Snapshots struct {
	cfg   Config
	watch watch
}

// New returns the snapshots of cfg.Blobs.
func New(cfg Config) *Snapshots { return &Snapshots{cfg: cfg} }

// Latest reads the newest published version; the zero Version if there is
// none. A manifest that cannot be read is Damaged, and the Version has its Tag,
// so that a rebuilt index can be published over it.
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

// failed gives an error of the blobs its kind.
func failed(err error, doing string) error {
	if errors.Is(err, blob.ErrUnavailable) || errors.Is(err, blob.ErrAbsent) {
		return problem.Wrap(problem.Unavailable, err, "%s", doing)
	}
	return problem.Wrap(problem.Internal, err, "%s", doing)
}
