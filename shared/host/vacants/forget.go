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

// anyone, in the key of a mark, stands for all callers, or all threads.
const anyone = "*"

// forgetKey is the key of the mark before which id's agent remembers nothing of a
// caller's thread. A caller of nil, or a thread of nil, is every one.
func forgetKey(id identity.ID, caller *identity.ID, thread *string) store.Key {
	who, what := anyone, anyone
	if caller != nil {
		who = caller.String()
	}
	if thread != nil {
		sum := sha256.Sum256([]byte(*thread))
		what = hex.EncodeToString(sum[:])
	}
	return ForgetDocs.Key(id.String(), who, what)
}

// mark is a document of ForgetThread.
type mark struct {
	Time time.Time `json:"time"`
}

// ForgetThread lets id's agent remember nothing of what it has answered by now: to a
// caller, in a thread, or to everybody and in every thread if they are nil. The texts
// stay until their days' keys are destroyed. Repeating it is harmless.
func (v *Directory) ForgetThread(ctx context.Context, id identity.ID, caller *identity.ID, thread *string) (Record, error) {
	r, err := v.GetExisting(ctx, id)
	if err != nil {
		return r, err
	}
	return r, store.Problem(v.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.Doc(ctx, forgetKey(id, caller, thread))
		if err != nil {
			return err
		}
		ForgetDocs.Put(tx, store.Doc{Key: d.Key}, mark{v.now()})
		return nil
	}))
}

// ForgottenUntil returns the time before which id's agent remembers nothing of a caller's thread;
// zero if nothing was forgotten.
func (v *Directory) ForgottenUntil(ctx context.Context, id, caller identity.ID, thread string) (until time.Time, err error) {
	keys := []store.Key{forgetKey(id, nil, nil), forgetKey(id, &caller, nil), forgetKey(id, nil, &thread), forgetKey(id, &caller, &thread)}
	marks := make([]mark, len(keys))
	g, ctx := errgroup.WithContext(ctx)
	for i, k := range keys {
		g.Go(func() (err error) {
			marks[i], _, err = ForgetDocs.Get(ctx, v.Store, k)
			return store.Problem(err)
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
