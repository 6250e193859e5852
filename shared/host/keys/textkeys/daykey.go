package textkeys

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

const (
	keySize = 32
	lastDay = 2932896 // 9999-12-31
)

var errAbsent = fmt.Errorf("%w: it was never created", ErrDestroyed)

func dayOf(t time.Time) (uint32, error) {
	const seconds = 24 * 60 * 60
	u := t.Unix()
	if u < 0 || u/seconds > lastDay {
		return 0, problem.New(problem.Unavailable, "the clock shows %s: expected a time in the years 1970 to 9999", t.UTC().Format(time.RFC3339))
	}
	return uint32(u / seconds), nil
}

func startOfDay(day uint32) time.Time { return time.Unix(int64(day)*24*60*60, 0).UTC() }

func formatDay(day uint32) string { return startOfDay(day).Format(time.DateOnly) }

// vaultContext contains the day, so that a box in another day's document does not open.
func vaultContext(day uint32) string { return partition + ":" + formatDay(day) }

func IsVaultContext(s string) bool {
	day, ok := strings.CutPrefix(s, partition+":")
	t, err := time.Parse(time.DateOnly, day)
	return ok && err == nil && t.Format(time.DateOnly) == day
}

func (k *Keys) loadKey(ctx context.Context, day uint32) (*dayKey, error) {
	sealed, d, err := KeyDocs.Get(ctx, k.store, DocKey(day))
	switch {
	case err != nil:
		return nil, fmt.Errorf("text key of %s: %w", formatDay(day), err)
	case d.Version == 0:
		return nil, errAbsent
	case sealed.destroyed:
		return nil, ErrDestroyed
	}
	key, err := k.vault.Open(ctx, vaultContext(day), sealed.box)
	if err != nil {
		return nil, fmt.Errorf("text key of %s: %w", formatDay(day), err)
	}
	defer clear(key)
	return newDayKey(key)
}

// createKey returns a key only if it is certainly stored. If the outcome of the commit is unknown,
// it returns an error.
func (k *Keys) createKey(ctx context.Context, day uint32) (*dayKey, error) {
	key := make([]byte, keySize)
	defer clear(key)
	writeID, err := k.fillRandom(key)
	if err != nil {
		return nil, err
	}
	box, err := k.vault.Seal(ctx, vaultContext(day), key)
	if err != nil {
		return nil, fmt.Errorf("text key of %s: %w", formatDay(day), err)
	}
	data, err := KeyDocs.Encode(sealedKey{box: box})
	if err == nil {
		err = k.store.Commit(ctx, store.Put{Key: DocKey(day), IfVersion: 0, WriteID: writeID, Data: data})
	}
	var conflict *store.ConflictError
	switch {
	case errors.As(err, &conflict):
		return k.loadKey(ctx, day) // another host was faster
	case err != nil:
		return nil, fmt.Errorf("text key of %s: %w", formatDay(day), err)
	}
	return newDayKey(key)
}

func (k *Keys) destroyKey(ctx context.Context, d store.Doc) (bool, error) {
	// A conflict means that another host is destroying the key.
	writeID, err := k.fillRandom(nil)
	if err != nil {
		return false, err
	}
	data, err := KeyDocs.Encode(sealedKey{destroyed: true})
	if err == nil {
		err = k.store.Commit(ctx, store.Put{Key: d.Key, IfVersion: d.Version, WriteID: writeID, Data: data})
	}
	var conflict *store.ConflictError
	switch {
	case errors.As(err, &conflict):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("sweep of text key %s: %w", d.Key.Sort, err)
	}
	return true, nil
}

func (k *Keys) fillRandom(key []byte) (writeID store.WriteID, err error) {
	_, err = io.ReadFull(k.rand, key)
	if err == nil {
		_, err = io.ReadFull(k.rand, writeID[:])
	}
	if err != nil {
		return writeID, problem.Wrap(problem.Unavailable, err, "no randomness for a text key")
	}
	return writeID, nil
}

type dayKey struct {
	cipher.AEAD
	mac []byte
}

// macLabel separates the MAC key from the text key, so that a MAC does not reveal information about
// texts.
const macLabel = "vacancy:day-mac:v1"

func newDayKey(key []byte) (*dayKey, error) {
	if len(key) != keySize {
		return nil, problem.New(problem.Damaged, "a text key has %d bytes, got %d", keySize, len(key))
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, problem.Wrap(problem.Internal, err, "")
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, problem.Wrap(problem.Internal, err, "")
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(macLabel))
	return &dayKey{aead, mac.Sum(nil)}, nil
}
