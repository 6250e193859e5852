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

// maxAhead is the maximum time in seconds by which the time of a cosignature may exceed the host's
// clock.
const maxAhead = 300

type storedCheckpoint struct {
	Note string `json:"note"`
}

// storedWitnesses contains the signature lines of a checkpoint's witnesses.
type storedWitnesses struct {
	Lines []storedWitness `json:"witnesses"`
}

type storedWitness struct {
	Key        string `json:"key"`  // name+hash
	Line       string `json:"line"` // signature line of the note, with its newline
	Configured bool   `json:"configured,omitempty"`
}

type PublishedCheckpoint struct {
	Checkpoint
	Note         []byte // signed note with the witnesses' lines
	Cosignatures int    // number of the witnesses' lines
}

func newPublished(c Checkpoint, s storedCheckpoint, w storedWitnesses) PublishedCheckpoint {
	b := []byte(s.Note)
	for _, witness := range w.Lines {
		b = append(b, witness.Line...)
	}
	return PublishedCheckpoint{c, b, len(w.Lines)}
}

func (l *Log) Latest(ctx context.Context) (PublishedCheckpoint, error) {
	h, err := l.sealedHead(ctx)
	if err != nil {
		return PublishedCheckpoint{}, err
	}
	return l.At(ctx, h.size)
}

func (l *Log) At(ctx context.Context, size uint64) (PublishedCheckpoint, error) {
	s, c, err := l.checkpoint(ctx, size)
	if err != nil {
		return PublishedCheckpoint{}, err
	}
	w, _, err := CosignedDocs.Get(ctx, l.Store, cosignedKey(size)) // zero if there are no cosignatures
	return newPublished(c, s, w), wrapStoreError(err)
}

func (l *Log) checkpoint(ctx context.Context, size uint64) (s storedCheckpoint, c Checkpoint, err error) {
	s, d, err := CheckpointDocs.Get(ctx, l.Store, checkpointKey(size))
	if err != nil {
		return s, c, wrapStoreError(err)
	}
	if d.Version == 0 {
		return s, c, problem.New(problem.NotFound, "no checkpoint of %d events was sealed", size)
	}
	c, _, err = open([]byte(s.Note), nil)
	if err != nil || c.Size != size {
		err = problem.Wrap(problem.Damaged, err, "%s is not the checkpoint of %d events", d.Key, size)
	}
	return s, c, err
}

// Cosign adds the cosignatures of a note to the checkpoint of the same size. It accepts vacants
// that may be witnesses and configured witnesses, and ignores the host's own line. Only the first
// signature of each witness is stored.
func (l *Log) Cosign(ctx context.Context, msg []byte) (PublishedCheckpoint, error) {
	claimed, n, err := open(msg, l.configured)
	if err != nil {
		return PublishedCheckpoint{}, cosignRefusal(err)
	}
	lines, err := l.witnesses(ctx, claimed, n)
	if err != nil {
		return PublishedCheckpoint{}, err
	}
	s, c, err := l.checkpoint(ctx, claimed.Size)
	if err != nil {
		return PublishedCheckpoint{}, err
	}
	if c != claimed {
		return PublishedCheckpoint{}, problem.New(problem.Conflict, "this host sealed another checkpoint of %d events: %s", c.Size, base64.StdEncoding.EncodeToString(c.Root[:]))
	}
	var p PublishedCheckpoint
	err = l.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		w, d, err := CosignedDocs.Get(ctx, tx, cosignedKey(c.Size))
		if err != nil {
			return err
		}
		changed, err := w.add(lines)
		p = newPublished(c, s, w)
		if err != nil || !changed {
			return err
		}
		CosignedDocs.Put(tx, d, w)
		return nil
	})
	return p, wrapStoreError(err)
}

func cosignRefusal(err error) error {
	var wrong *note.InvalidSignatureError
	var none *note.UnverifiedNoteError
	switch {
	case errors.As(err, &wrong):
		return problem.New(problem.BadSignature, "the signature of %s does not verify", nameAndHash(wrong.Name, wrong.Hash))
	case errors.As(err, &none):
		return unknownWitnessError()
	case problem.AsError(err).Kind != problem.Internal:
		return err
	}
	return problem.Wrap(problem.Malformed, err, "the body is not a signed note")
}

func unknownWitnessError() error {
	return problem.New(problem.Forbidden, "the note has no cosignature of a known witness: expected a registered vacant with the name %s<id>, or a witness in the host's configuration", witnessPrefix)
}

func (l *Log) witnesses(ctx context.Context, c Checkpoint, n *note.Note) ([]storedWitness, error) {
	var lines []storedWitness
	for _, sig := range n.Sigs {
		if sig.Name == Origin(c.Host) {
			continue
		}
		read, err := readSignature(sig)
		if err != nil {
			return nil, problem.Wrap(problem.Malformed, err, "a cosignature is malformed")
		}
		if now := l.Now().Unix(); read.Time > now+maxAhead || read.Time < 0 {
			return nil, problem.New(problem.Clock, "cosignature of %s: expected a time at most %d s ahead of %d, got %d", sig.Name, maxAhead, now, read.Time)
		}
		key := nameAndHash(sig.Name, sig.Hash)
		_, configured := l.configured[key]
		if !configured {
			if err := l.checkRegistered(ctx, read); err != nil {
				return nil, err
			}
		}
		lines = append(lines, storedWitness{key, "— " + sig.Name + " " + sig.Base64 + "\n", configured})
		if len(lines) == MaxCosignatures {
			break
		}
	}
	if len(lines) == 0 {
		return nil, unknownWitnessError()
	}
	return lines, nil
}

func (l *Log) checkRegistered(ctx context.Context, s Signature) error {
	if l.Witness == nil || s.Witness.IsZero() {
		return unknownWitnessError()
	}
	ok, err := l.Witness(ctx, s.Witness)
	if err == nil && !ok {
		err = unknownWitnessError()
	}
	return wrapStoreError(err)
}

// add adds the lines of new witnesses. Vacants share MaxCosignatures places, and configured
// witnesses are not limited.
func (s *storedWitnesses) add(lines []storedWitness) (changed bool, err error) {
	have, registered := map[string]bool{}, s.countRegistered()
	for _, w := range s.Lines {
		have[w.Key] = true
	}
	for _, w := range lines {
		if have[w.Key] {
			continue
		}
		if !w.Configured {
			if registered++; registered > MaxCosignatures {
				return false, problem.New(problem.TooMany, "this checkpoint has reached the limit of %d cosignatures of registered witnesses", MaxCosignatures)
			}
		}
		have[w.Key], changed = true, true
		s.Lines = append(s.Lines, w)
	}
	return changed, nil
}

func (s *storedWitnesses) countRegistered() (n int) {
	for _, w := range s.Lines {
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
