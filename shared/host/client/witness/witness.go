// Package witness follows a host's transparency log from outside. It trusts only signatures and
// hashes. If the host's data is malformed or inconsistent, the error has kind Untrusted.
package witness

import (
	"context"
	"fmt"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Log is a host's log. It is safe for concurrent use. If an answer cannot be parsed, the error has
// kind Untrusted.
type Log interface {
	Checkpoint(ctx context.Context) (note []byte, err error)
	Consistency(ctx context.Context, from, to uint64) (translog.Proof, error)
	Inclusion(ctx context.Context, seq, size uint64) (translog.Proof, error)
	// Leaves returns the hashes of up to n events from seq on.
	Leaves(ctx context.Context, seq uint64, n int) ([]identity.Hash, error)
	// Event returns an event and the hash of the previous event, or nil if the event is not public.
	Event(ctx context.Context, seq uint64) (*event.Event, identity.Hash, error)
	// note is a cosigned checkpoint. The result is its number of cosignatures.
	SubmitCheckpoint(ctx context.Context, note []byte) (int, error)
}

// MaxLogSize limits memory, because Verify holds the hashes of all events.
const MaxLogSize = 10_000_000

// Follower verifies one host's log.
type Follower struct {
	Log Log
	// Host, if not zero, is the required signer of the log.
	Host identity.ID
	// KnownNote is another checkpoint that the log must continue, or nil.
	KnownNote []byte
	// Progress, if not nil, reports the progress of reading "hashes" or verifying "events".
	Progress func(phase string, done, total uint64)
}

type Report struct {
	translog.Checkpoint
	Note          []byte
	Cosignatures  []translog.Cosignature
	Previous      *translog.Checkpoint // nil if there is no earlier checkpoint
	LeafCount     uint64
	VerifiedCount uint64
	HiddenCount   uint64 // events that are not public; only their hashes were verified
}

// ForkError contains two checkpoints of one host that contradict each other.
type ForkError struct {
	OldNote, NewNote []byte // signed notes
	err              error
}

func (f *ForkError) Error() string { return f.err.Error() }

func (f *ForkError) Unwrap() error { return f.err }

func inconsistencyError(format string, args ...any) error {
	return problem.New(problem.Untrusted, format, args...)
}

// OtherHostError is the error for a changed signer.
type OtherHostError struct{ OldHost, NewHost identity.ID }

func (o *OtherHostError) Error() string {
	return fmt.Sprintf("the log is now signed by host %s, and was signed by host %s before", o.NewHost, o.OldHost)
}

func (o *OtherHostError) Unwrap() error { return inconsistencyError("%s", o.Error()) }

// Verify verifies the newest checkpoint, which must continue oldNote unless oldNote is nil. It
// verifies all events since oldNote, or all events if isFull is set.
func (f Follower) Verify(ctx context.Context, oldNote []byte, isFull bool) (Report, error) {
	var r Report
	note, err := f.Log.Checkpoint(ctx)
	if err != nil {
		return r, err
	}
	r.Note = note
	if r.Checkpoint, r.Cosignatures, err = translog.VerifyCheckpoint(note); err != nil {
		return r, err
	}
	if !f.Host.IsZero() && r.Host != f.Host {
		return r, inconsistencyError("the log is signed by host %s, want host %s", r.Host, f.Host)
	}
	if oldNote != nil {
		if err := f.checkContinuation(ctx, oldNote, &r); err != nil {
			return r, err
		}
	}
	if f.KnownNote != nil {
		knownReport := Report{Checkpoint: r.Checkpoint, Note: r.Note}
		if err := f.checkContinuation(ctx, f.KnownNote, &knownReport); err != nil {
			return r, err
		}
	}
	leaves, err := f.readLeaves(ctx, &r)
	if err != nil {
		return r, err
	}
	if err := f.checkInclusion(ctx, &r, leaves); err != nil {
		return r, err
	}
	first := uint64(1)
	if r.Previous != nil && !isFull {
		first = r.Previous.Size + 1
	}
	return r, f.verifyEvents(ctx, &r, leaves, first)
}

func (f Follower) checkContinuation(ctx context.Context, oldNote []byte, r *Report) error {
	old, _, err := translog.VerifyCheckpoint(oldNote)
	if err != nil {
		return problem.Wrap(problem.Untrusted, err, "the earlier checkpoint: %s", problem.AsError(err).Text())
	}
	if old.Host != r.Host {
		return &OtherHostError{old.Host, r.Host}
	}
	r.Previous = &old
	newForkError := func(err error) error { return &ForkError{oldNote, r.Note, err} }
	switch {
	case r.Size < old.Size:
		// A cache may have returned an older checkpoint, which is not a fork.
		isOlder, err := f.isOlder(ctx, r.Checkpoint, old)
		if err != nil {
			return err
		}
		if isOlder {
			return problem.New(problem.Unavailable, "the host returned a checkpoint of %d events, older than the known one of %d events; it may come from a cache: try again", r.Size, old.Size)
		}
		return newForkError(inconsistencyError("the log was truncated: it had %d events and has %d now", old.Size, r.Size))
	case r.Size == old.Size && r.Root != old.Root:
		return newForkError(inconsistencyError("the host signed two different logs of %d events: %s and %s", r.Size, shortHash(old.Root), shortHash(r.Root)))
	case r.Size == old.Size:
		return nil
	}
	proof, err := f.Log.Consistency(ctx, old.Size, r.Size)
	if err != nil {
		return err
	}
	if err := translog.CheckConsistency(old, r.Checkpoint, proof); err != nil {
		return newForkError(problem.Wrap(problem.Untrusted, err, "the log was changed: the host does not prove that its log of %d events begins with the %d events that it signed before", r.Size, old.Size))
	}
	return nil
}

// isOlder reports whether the host proves that current is an earlier state of known. If the host
// cannot be reached, isOlder returns an error, because a missing answer is not evidence of a fork.
func (f Follower) isOlder(ctx context.Context, current, known translog.Checkpoint) (bool, error) {
	proof, err := f.Log.Consistency(ctx, current.Size, known.Size)
	for _, kind := range []problem.Kind{problem.Unavailable, problem.DeadlineExceeded, problem.Canceled, problem.TooManyRequests} {
		if problem.Is(err, kind) {
			return false, err
		}
	}
	return err == nil && translog.CheckConsistency(current, known, proof) == nil, nil
}

const leavesPerRequest = translog.MaxLeaves

func (f Follower) readLeaves(ctx context.Context, r *Report) ([]identity.Hash, error) {
	if r.Size > MaxLogSize {
		return nil, problem.New(problem.TooLarge, "the log has %d events; at most %d are verified at once", r.Size, MaxLogSize)
	}
	var tree translog.Tree
	var leaves []identity.Hash
	for tree.Size() < r.Size {
		want := min(leavesPerRequest, r.Size-tree.Size())
		got, err := f.Log.Leaves(ctx, tree.Size()+1, int(want))
		if err != nil {
			return nil, err
		}
		if len(got) == 0 {
			return nil, inconsistencyError("the host signed for %d events, but returned only %d", r.Size, tree.Size())
		}
		if uint64(len(got)) > want {
			return nil, inconsistencyError("the host returned more events than the %d that it signed for", r.Size)
		}
		for _, leaf := range got {
			if err := tree.Add(leaf); err != nil {
				return nil, err
			}
		}
		leaves = append(leaves, got...)
		f.reportProgress("hashes", tree.Size(), r.Size)
	}
	root, err := tree.Root()
	if err != nil {
		return nil, err
	}
	if root != r.Root {
		return nil, inconsistencyError("the %d events that the host shows have the root %s, but its checkpoint has the root %s", r.Size, shortHash(root), shortHash(r.Root))
	}
	r.LeafCount = r.Size
	return leaves, nil
}

// checkInclusion checks that the host serves valid inclusion proofs for up to three events.
func (f Follower) checkInclusion(ctx context.Context, r *Report, leaves []identity.Hash) error {
	lastChecked := uint64(0)
	for _, seq := range []uint64{1, r.Size/2 + 1, r.Size} {
		if seq <= lastChecked || seq > r.Size {
			continue
		}
		lastChecked = seq
		proof, err := f.Log.Inclusion(ctx, seq, r.Size)
		if err != nil {
			return err
		}
		if err := translog.CheckInclusion(r.Checkpoint, seq, leaves[seq-1], proof); err != nil {
			return problem.Wrap(problem.Untrusted, err, "the host does not prove that event %d is in its log", seq)
		}
	}
	return nil
}

func (f Follower) reportProgress(phase string, done, total uint64) {
	if f.Progress != nil {
		f.Progress(phase, done, total)
	}
}

func shortHash(root [32]byte) string { return fmt.Sprintf("%x…", root[:6]) }

func (f Follower) Cosign(ctx context.Context, r Report, key identity.Signer, now time.Time) (int, error) {
	note, err := translog.Cosign(ctx, r.Checkpoint, key, now)
	if err != nil {
		return 0, err
	}
	return f.Log.SubmitCheckpoint(ctx, note)
}
