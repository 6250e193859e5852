package graduation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// kindTries is the kind of the partition of a parent's tries. It is not that of
// attempts: who may write one need not write the other.
const kindTries = "gradtry"

// TriesKey is where the times lie at which children of parent have begun
// attempts, the parent being the one that their manifests name.
func TriesKey(parent identity.ID) store.Key {
	return store.Key{Partition: kindTries + "#" + parent.String(), Sort: "times"}
}

// Tries is when children of one parent began attempts, in Unix microseconds. It
// need not be in order: a clock may have gone back.
type Tries []int64

type storedTries struct {
	Format int   `json:"format"`
	Began  Tries `json:"began"`
}

// DecodeTries reads parent's tries, for verify too. A problem of kind Damaged
// says what is wrong with them. What is not there is none.
func DecodeTries(parent identity.ID, d store.Doc) (Tries, error) {
	if d.Version == 0 {
		return nil, nil
	}
	var w storedTries
	err := json.Unmarshal(d.Data, &w)
	if err == nil {
		err = checkFormat(w.Format)
	}
	if err == nil && len(w.Began) > MaxOfParent {
		err = problem.Invalid("began", fmt.Sprintf("at most %d", MaxOfParent), fmt.Sprint(len(w.Began)))
	}
	if err != nil {
		return nil, problem.Wrap(problem.Damaged, err, "the attempts of children of %s are not readable: %s", parent.Short(), problem.Of(err).Text())
	}
	return w.Began, nil
}

// within is what of t still counts: what is exactly a day old does not.
func (t Tries) within(now time.Time) Tries {
	floor := now.Add(-Day).UnixMicro()
	return slices.DeleteFunc(slices.Clone(t), func(at int64) bool { return at <= floor })
}

// tried is the write that counts an attempt of now against parent, unless its
// children have begun too many: a parent makes children as it likes, also such
// as run elsewhere, and each may try on its own account. It is to be committed
// with the attempt.
func (s *Service) tried(ctx context.Context, parent identity.ID, now time.Time) (store.Put, error) {
	k := TriesKey(parent)
	d, err := s.Store.Doc(ctx, k)
	if err != nil {
		return store.Put{}, err
	}
	t, err := DecodeTries(parent, d)
	if err != nil {
		return store.Put{}, err
	}
	if t = t.within(now); len(t) >= MaxOfParent {
		return store.Put{}, problem.New(problem.TooMany, "parent %s: expected at most %d attempts of its children to graduate in 24 hours, got more", parent.Short(), MaxOfParent)
	}
	attempt, err := s.attempt()
	if err != nil {
		return store.Put{}, err
	}
	data, err := encode(storedTries{format, append(t, now.UnixMicro())})
	return store.Put{Key: k, If: d.Version, Attempt: attempt, Data: data}, err
}
