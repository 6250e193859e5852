// Package translog is the transparency log of a host: the rows of one stream
// are the leaves of an RFC 6962 tree, which is sealed periodically as a
// checkpoint signed by the host, proved to readers, and cosigned by witnesses.
//
// The invariants: a checkpoint never shrinks or changes. Everything stored
// besides the head is a function of immutable rows, so it may be written early,
// twice, or by an overtaken checkpointer. Only the head defines how much is
// sealed. It moves in one commit with its checkpoint and epoch.
//
// # The life of a leaf
//
// A row of the stream is a leaf from its commit on; its index is its position
// less one. The next Seal takes the lease, reads the rows after the head in
// pages, and fills tiles of 256 hashes of one level, each written once when
// full. Incomplete tiles are in the head. Then it signs the new root and
// commits head, checkpoint and epoch under the head's version. A checkpointer
// that crashes before has written tiles that the next one would write
// identically. An overtaken one conflicts at the head's version and changes
// nothing.
package translog

import (
	"context"
	"errors"
	"io"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/retry"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Config configures a Log. Identity and Rand are needed by Seal only, Witness
// and Witnesses by Cosign only; Wait is optional.
type Config struct {
	Store store.Store
	// Stream holds the leaves in order.
	Stream store.Stream
	// Leaf decodes a row: its leaf, which is an event's hash, and the hash of
	// the event before, zeros at the first.
	Leaf func(store.Row) (leaf, prev identity.Hash, err error)
	// Identity returns the host's identity, which signs.
	Identity func(context.Context) (identity.Signer, error)
	// Witness reports whether a vacant may cosign here. With nil, none may.
	Witness func(context.Context, identity.ID) (bool, error)
	// Witnesses are verifier keys (name+hash+key) of unregistered witnesses
	// that may cosign.
	Witnesses []string
	Now       func() time.Time
	Rand      io.Reader // safe for concurrent use
	// Wait sleeps between tries, or returns early when ctx ends.
	Wait func(ctx context.Context, d time.Duration) error
}

// Log is one host's log. It is safe for concurrent use, and any number of logs
// may share a store.
type Log struct {
	Config
	configured map[string]note.Verifier // by name and hash of the verifier key
	batch      uint64                   // the most leaves of one checkpoint
}

// Limits of a log.
const (
	// MaxLeaves is the most leaves in one answer of Leaves.
	MaxLeaves = store.MaxPage
	// MaxCosignatures is the most registered witnesses of a checkpoint.
	// Configured witnesses are extra, so strangers cannot crowd them out.
	MaxCosignatures = 32
	// MaxNote bounds a checkpoint with its signatures, in bytes.
	MaxNote = 16 << 10
)

const (
	// leaseTime is the time for which a checkpointer may be silent before
	// another takes over.
	leaseTime = time.Minute
	// perBatch is the most leaves of one checkpoint, so a backlog is sealed in
	// steps that survive the process.
	perBatch = 100 * tileWidth
)

// New makes a Log. The error is a problem of kind Usage for an unreadable
// witness key.
func New(c Config) (*Log, error) {
	if c.Wait == nil {
		c.Wait = retry.Sleep
	}
	l := &Log{Config: c, configured: map[string]note.Verifier{}, batch: perBatch}
	for _, key := range c.Witnesses {
		v, err := cosignerOfKey(key)
		if err != nil {
			return nil, problem.Wrap(problem.Usage, err, "a witness's key is not readable: %.80q", key)
		}
		l.configured[line(v)] = v
	}
	return l, nil
}

// updater changes the store with optimistic concurrency.
func (l *Log) updater() store.Updater {
	return store.Updater{Store: l.Store, Rand: l.Rand, Wait: l.Wait}
}

// fault gives an error of the store a kind; problems keep theirs.
func fault(err error) error {
	var known *problem.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	return problem.Wrap(problem.Unavailable, err, "the log cannot be reached now")
}
