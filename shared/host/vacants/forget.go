package vacants

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const wildcard = "*"

func forgetMarkKey(id identity.ID, caller *identity.ID, thread *string) store.Key {
	callerPart, threadPart := wildcard, wildcard
	if caller != nil {
		callerPart = caller.String()
	}
	if thread != nil {
		sum := sha256.Sum256([]byte(*thread))
		threadPart = hex.EncodeToString(sum[:])
	}
	return ForgetMarkDocs.Key(id.String(), callerPart, threadPart)
}

type forgetMark struct {
	Time time.Time `json:"time"`
}

// ForgetAnswers makes id's agent forget its earlier answers to a caller in a thread. A nil caller
// means all callers, and a nil thread means all threads. The texts remain stored until their keys
// are destroyed.
func (v *Directory) ForgetAnswers(ctx context.Context, id identity.ID, caller *identity.ID, thread *string) (Record, error) {
	r, err := v.GetExisting(ctx, id)
	if err != nil {
		return r, err
	}
	return r, store.AsProblem(v.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.Doc(ctx, forgetMarkKey(id, caller, thread))
		if err != nil {
			return err
		}
		ForgetMarkDocs.Put(tx, store.Doc{Key: d.Key}, forgetMark{v.now()})
		return nil
	}))
}

// ForgottenUntil returns the time before which id's agent has forgotten a caller's thread, or the
// zero time.
func (v *Directory) ForgottenUntil(ctx context.Context, id, caller identity.ID, thread string) (until time.Time, err error) {
	keys := []store.Key{forgetMarkKey(id, nil, nil), forgetMarkKey(id, &caller, nil), forgetMarkKey(id, nil, &thread), forgetMarkKey(id, &caller, &thread)}
	marks := make([]forgetMark, len(keys))
	g, ctx := errgroup.WithContext(ctx)
	for i, k := range keys {
		g.Go(func() (err error) {
			marks[i], _, err = ForgetMarkDocs.Get(ctx, v.Store, k)
			return store.AsProblem(err)
		})
	}
	if err := g.Wait(); err != nil {
		return until, err
	}
	for _, m := range marks {
		if m.Time.After(until) {
			until = m.Time
		}
	}
	return until, nil
}
