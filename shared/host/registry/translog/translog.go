// Package translog implements the transparency log of a host. The rows of one stream are the leaves
// of an RFC 6962 tree. The tree is sealed periodically: the host signs a checkpoint of its size and
// root. Readers get proofs against a checkpoint. Witnesses are other parties, which verify
// checkpoints and add their signatures.
//
// A Seal reads the rows after the head and writes tiles of 256 hashes. It then commits the head, a
// checkpoint and an epoch in one transaction. Only the head determines how much is sealed. If a
// process dies before the commit, the next Seal writes the same tiles again. If two processes seal,
// the version of the head lets only one of them commit.
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

// Config configures a Log. Only Seal needs Identity. Only Seal and AddCosignatures need Rand.
type Config struct {
	Store  store.Store
	Stream store.Stream
	// DecodeLeaf returns the event's hash as the leaf, and the previous event's hash, which is zero
	// for the first event.
	DecodeLeaf func(store.Row) (leaf, prev identity.Hash, err error)
	Identity   func(context.Context) (identity.Signer, error)
	// IsWitness reports whether a vacant may cosign. If it is nil, vacants may not cosign.
	IsWitness func(context.Context, identity.ID) (bool, error)
	// WitnessKeys are the verifier keys (name+hash+key) of other witnesses that may cosign.
	WitnessKeys []string
	Now         func() time.Time
	Rand        io.Reader // safe for concurrent use
	// Wait sleeps for d or until ctx ends. It may be nil.
	Wait func(ctx context.Context, d time.Duration) error
}

// Log is the log of one host. It is safe for concurrent use. Several Logs may share a store.
type Log struct {
	Config
	witnessVerifiers map[string]note.Verifier // keyed by the name and hash of the verifier key
	maxBatch         uint64                   // maximum number of leaves per checkpoint
}

const (
	// MaxLeaves limits the hashes that Leaves returns at once.
	MaxLeaves = store.MaxPage
	// MaxCosignatures limits the vacants that cosign a checkpoint. Configured witnesses do not
	// count, so that strangers cannot displace them.
	MaxCosignatures = 32
	// MaxNoteBytes limits a checkpoint with its signatures, in bytes.
	MaxNoteBytes = 16 << 10
)

const (
	// leaseDuration is the time after which another process may seal if the lease's holder has
	// stopped.
	leaseDuration = time.Minute
	// defaultMaxBatch limits the work that is lost if a process dies while it seals.
	defaultMaxBatch = 100 * tileWidth
)

// New returns a Log. If a witness key is invalid, the error is of kind Usage.
func New(c Config) (*Log, error) {
	if c.Wait == nil {
		c.Wait = retry.Sleep
	}
	l := &Log{Config: c, witnessVerifiers: map[string]note.Verifier{}, maxBatch: defaultMaxBatch}
	for _, key := range c.WitnessKeys {
		v, err := parseWitnessKey(key)
		if err != nil {
			return nil, problem.Wrap(problem.Usage, err, "cannot parse the witness key %.80q", key)
		}
		l.witnessVerifiers[verifierID(v)] = v
	}
	return l, nil
}

func (l *Log) updater() store.Updater {
	return store.Updater{Store: l.Store, Rand: l.Rand, Wait: l.Wait}
}

func wrapStoreError(err error) error {
	var problemErr *problem.Error
	if err == nil || errors.As(err, &problemErr) {
		return err
	}
	return problem.Wrap(problem.Unavailable, err, "the log cannot be reached now")
}
