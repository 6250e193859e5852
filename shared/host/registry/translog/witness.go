package translog

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// maxClockSkew limits how far a cosignature's time may be in the future, in seconds.
const maxClockSkew = 300

type storedCheckpoint struct {
	Note string `json:"note"`
}

type storedWitnesses struct {
	Witnesses []storedWitness `json:"witnesses"`
}

type storedWitness struct {
	Key        string `json:"key"`  // name+hash
	Line       string `json:"line"` // signature line of the note, with its newline
	Configured bool   `json:"configured,omitempty"`
}

type PublishedCheckpoint struct {
	Checkpoint
	Note             []byte // signed note with the witnesses' lines
	CosignatureCount int
}

func newPublishedCheckpoint(c Checkpoint, s storedCheckpoint, w storedWitnesses) PublishedCheckpoint {
	b := []byte(s.Note)
	for _, witness := range w.Witnesses {
		b = append(b, witness.Line...)
	}
	return PublishedCheckpoint{c, b, len(w.Witnesses)}
}

func (l *Log) LoadLatestCheckpoint(ctx context.Context) (PublishedCheckpoint, error) {
	h, err := l.loadSealedHead(ctx)
	if err != nil {
		return PublishedCheckpoint{}, err
	}
	return l.LoadCheckpoint(ctx, h.size)
}

func (l *Log) LoadCheckpoint(ctx context.Context, size uint64) (PublishedCheckpoint, error) {
	s, c, err := l.loadSignedCheckpoint(ctx, size)
	if err != nil {
		return PublishedCheckpoint{}, err
	}
	w, _, err := CosignatureDocs.Get(ctx, l.Store, cosignaturesKey(size)) // zero if there are no cosignatures
	return newPublishedCheckpoint(c, s, w), wrapStoreError(err)
}

func (l *Log) loadSignedCheckpoint(ctx context.Context, size uint64) (s storedCheckpoint, c Checkpoint, err error) {
	s, d, err := CheckpointDocs.Get(ctx, l.Store, checkpointKey(size))
	if err != nil {
		return s, c, wrapStoreError(err)
	}
	if d.Version == 0 {
		return s, c, problem.New(problem.NotFound, "no checkpoint of %d events was sealed", size)
	}
	c, _, err = openNote([]byte(s.Note), nil)
	if err != nil || c.Size != size {
		err = problem.Wrap(problem.Damaged, err, "%s is not the checkpoint of %d events", d.Key, size)
	}
	return s, c, err
}

// AddCosignatures adds the cosignatures of a note to the checkpoint of the same size. It stores
// only the first signature of each witness.
func (l *Log) AddCosignatures(ctx context.Context, msg []byte) (PublishedCheckpoint, error) {
	noteCheckpoint, n, err := openNote(msg, l.witnessVerifiers)
	if err != nil {
		return PublishedCheckpoint{}, cosignError(err)
	}
	witnesses, err := l.collectWitnesses(ctx, noteCheckpoint, n)
	if err != nil {
		return PublishedCheckpoint{}, err
	}
	s, c, err := l.loadSignedCheckpoint(ctx, noteCheckpoint.Size)
	if err != nil {
		return PublishedCheckpoint{}, err
	}
	if c != noteCheckpoint {
		return PublishedCheckpoint{}, problem.New(problem.Conflict, "this host sealed another checkpoint of %d events: %s", c.Size, base64.StdEncoding.EncodeToString(c.Root[:]))
	}
	var p PublishedCheckpoint
	err = l.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		w, d, err := CosignatureDocs.Get(ctx, tx, cosignaturesKey(c.Size))
		if err != nil {
			return err
		}
		changed, err := w.addNew(witnesses)
		p = newPublishedCheckpoint(c, s, w)
		if err != nil || !changed {
			return err
		}
		CosignatureDocs.Put(tx, d, w)
		return nil
	})
	return p, wrapStoreError(err)
}

func cosignError(err error) error {
	var invalidErr *note.InvalidSignatureError
	var unverifiedErr *note.UnverifiedNoteError
	switch {
	case errors.As(err, &invalidErr):
		return problem.New(problem.BadSignature, "the signature of %s does not verify", nameAndHash(invalidErr.Name, invalidErr.Hash))
	case errors.As(err, &unverifiedErr):
		return unknownWitnessError()
	case problem.AsError(err).Kind != problem.Internal:
		return err
	}
	return problem.Wrap(problem.Malformed, err, "the body is not a signed note")
}

func unknownWitnessError() error {
	return problem.New(problem.Forbidden, "the note has no cosignature of a known witness: expected a registered vacant with the name %s<id>, or a witness in the host's configuration", witnessPrefix)
}

func (l *Log) collectWitnesses(ctx context.Context, c Checkpoint, n *note.Note) ([]storedWitness, error) {
	var witnesses []storedWitness
	for _, sig := range n.Sigs {
		if sig.Name == Origin(c.Host) {
			continue
		}
		cosignature, err := parseCosignature(sig)
		if err != nil {
			return nil, problem.Wrap(problem.Malformed, err, "a cosignature is malformed")
		}
		if now := l.Now().Unix(); cosignature.Time > now+maxClockSkew || cosignature.Time < 0 {
			return nil, problem.New(problem.ClockSkew, "cosignature of %s: expected a time at most %d s ahead of %d, got %d", sig.Name, maxClockSkew, now, cosignature.Time)
		}
		key := nameAndHash(sig.Name, sig.Hash)
		_, configured := l.witnessVerifiers[key]
		if !configured {
			if err := l.checkVacantWitness(ctx, cosignature); err != nil {
				return nil, err
			}
		}
		witnesses = append(witnesses, storedWitness{key, "— " + sig.Name + " " + sig.Base64 + "\n", configured})
		if len(witnesses) == MaxCosignatures {
			break
		}
	}
	if len(witnesses) == 0 {
		return nil, unknownWitnessError()
	}
	return witnesses, nil
}

func (l *Log) checkVacantWitness(ctx context.Context, s Cosignature) error {
	if l.IsWitness == nil || s.Witness.IsZero() {
		return unknownWitnessError()
	}
	ok, err := l.IsWitness(ctx, s.Witness)
	if err == nil && !ok {
		err = unknownWitnessError()
	}
	return wrapStoreError(err)
}

func (s *storedWitnesses) addNew(newWitnesses []storedWitness) (changed bool, err error) {
	existing, registeredCount := map[string]bool{}, s.countRegistered()
	for _, w := range s.Witnesses {
		existing[w.Key] = true
	}
	for _, w := range newWitnesses {
		if existing[w.Key] {
			continue
		}
		if !w.Configured {
			if registeredCount++; registeredCount > MaxCosignatures {
				return false, problem.New(problem.TooManyRequests, "this checkpoint has reached the limit of %d cosignatures of registered witnesses", MaxCosignatures)
			}
		}
		existing[w.Key], changed = true, true
		s.Witnesses = append(s.Witnesses, w)
	}
	return changed, nil
}

func (s *storedWitnesses) countRegistered() (n int) {
	for _, w := range s.Witnesses {
		if !w.Configured {
			n++
		}
	}
	return n
}

func (p PublishedCheckpoint) Witnesses() []string {
	_, signatures, _ := strings.Cut(string(p.Note), "\n\n")
	var names []string
	for line := range strings.Lines(signatures) {
		name, _, _ := strings.Cut(strings.TrimPrefix(line, "— "), " ")
		if name != Origin(p.Host) {
			names = append(names, name)
		}
	}
	return names
}
