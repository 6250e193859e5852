// Package snapshot publishes search indexes as blobs. One process builds the index, and any number
// of processes load it. A snapshot consists of an archive and a manifest, which names the current
// archive. An archive is not removed while a manifest names it.
package snapshot

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/blob"
)

const Prefix = "search/"

const manifestKey = Prefix + "manifest.json"

// CheckInterval limits the reads of the manifest, because thousands of processes call HasNewer.
const CheckInterval = 10 * time.Second

const (
	// orphanAge is longer than the download of an archive takes.
	orphanAge = time.Hour
	maxTries  = 4
)

type Source interface {
	// Snapshot writes a consistent state of the index as a tar of regular files.
	Snapshot(ctx context.Context, w io.Writer) error
	// Mark returns the position in the feed that the index has reached.
	Mark(ctx context.Context) (string, error)
	Count(ctx context.Context) (int, error)
}

// Version is a published snapshot, or zero if none was published.
type Version struct {
	Manifest Manifest
	Tag      string
}

// ErrOvertaken means that the caller should load the new version, update it and publish again.
var ErrOvertaken = errors.New("another indexer has published a snapshot concurrently")

type Config struct {
	Blobs blob.Blobs
	Now   func() time.Time
	Rand  io.Reader // safe for concurrent use
	// Dir is used only by this process.
	Dir string
}

// Snapshots is safe for concurrent use.
type Snapshots struct {
	cfg       Config
	newestTag tagCache
}

func New(cfg Config) *Snapshots { return &Snapshots{cfg: cfg} }

// Latest returns the newest version, or the zero Version. If the manifest is damaged, Latest also
// returns its Tag.
func (s *Snapshots) Latest(ctx context.Context) (Version, error) {
	o, err := s.cfg.Blobs.Get(ctx, manifestKey)
	if errors.Is(err, blob.ErrAbsent) {
		return Version{}, nil
	}
	if err != nil {
		return Version{}, blobError(err, "reading the snapshot's manifest")
	}
	defer o.Body.Close()
	text, err := io.ReadAll(io.LimitReader(o.Body, maxManifestBytes+1))
	if err != nil {
		return Version{}, blobError(err, "reading the snapshot's manifest")
	}
	m, err := parseManifest(text)
	if err != nil {
		return Version{Tag: o.Tag}, problem.Wrap(problem.Damaged, err, "the search index's manifest is damaged")
	}
	return Version{Manifest: m, Tag: o.Tag}, nil
}

func blobError(err error, action string) error {
	if errors.Is(err, blob.ErrUnavailable) || errors.Is(err, blob.ErrAbsent) {
		return problem.Wrap(problem.Unavailable, err, "%s", action)
	}
	return problem.Wrap(problem.Internal, err, "%s", action)
}
