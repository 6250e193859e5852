// Package snapshot publishes search indexes as blobs. One process builds the index, and any number
// of processes load it.
//
// A snapshot consists of an archive, which is a tar of regular files, and a manifest under a fixed
// name, which names the current archive. An archive is complete before a manifest names it and is
// not removed while a manifest names it. A publisher replaces a manifest only if its index was
// built from the version in that manifest. Load verifies that the archive has the SHA-256 in the
// manifest.
package snapshot

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/blob"
)

// Prefix is the prefix of all blobs of this package.
const Prefix = "search/"

const manifestKey = Prefix + "manifest.json"

// CheckInterval is the interval at which HasNewer reads the manifest. If thousands of processes
// read it every second, the reads would cost more than the index.
const CheckInterval = 10 * time.Second

const (
	// orphanAge is the age after which an unreferenced archive is removed. It is longer than the
	// time from a loader's read of the manifest to the end of its download.
	orphanAge = time.Hour
	// maxTries is the number of attempts after conflicts and unknown outcomes.
	maxTries = 4
)

// Source is an index that can be copied while it is in use. *bleve.Index implements it.
type Source interface {
	// Snapshot writes a consistent state of the index as a tar of regular files.
	Snapshot(ctx context.Context, w io.Writer) error
	// Mark returns the position in the feed of changes that the index has reached. The archive also
	// contains the mark. The mark in the manifest is only informative.
	Mark(ctx context.Context) (string, error)
	Count(ctx context.Context) (int, error)
}

// Version is a published snapshot. The zero Version means that no snapshot was published.
type Version struct {
	Manifest Manifest
	Tag      string // tag of the manifest
}

// ErrOvertaken is returned if another process published a version after the base of a Publish. The
// caller should load the new version, update it and publish again.
var ErrOvertaken = errors.New("another indexer has published a snapshot concurrently")

// Config configures Snapshots. All fields are required.
type Config struct {
	Blobs blob.Blobs
	Now   func() time.Time
	Rand  io.Reader // safe for concurrent use
	// Dir is a directory that only this process uses. It holds loaded indexes and archives during
	// their upload.
	Dir string
}

// Snapshots provides the snapshots of one host. It is safe for concurrent use.
type Snapshots struct {
	cfg       Config
	newestTag tagCache
}

func New(cfg Config) *Snapshots { return &Snapshots{cfg: cfg} }

// Latest returns the newest version, or the zero Version if no version was published. If the
// manifest is damaged, the error is of kind Damaged and the Version has its Tag, so that a rebuilt
// index can replace it.
func (s *Snapshots) Latest(ctx context.Context) (Version, error) {
	o, err := s.cfg.Blobs.Get(ctx, manifestKey)
	if errors.Is(err, blob.ErrAbsent) {
		return Version{}, nil
	}
	if err != nil {
		return Version{}, blobError(err, "reading the snapshot's manifest")
	}
	defer o.Body.Close()
	text, err := io.ReadAll(io.LimitReader(o.Body, maxManifest+1))
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
