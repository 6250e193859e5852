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

// kindAttemptWindow is the partition prefix of a parent's attempt window. It is
// not that of attempts, so roles can be allowed one without the other.
const kindAttemptWindow = "gradtry"

// AttemptWindowKey is the key of the times at which children of parent, by
// their manifests, began attempts.
func AttemptWindowKey(parent identity.ID) store.Key {
	return store.Key{Partition: kindAttemptWindow + "#" + parent.String(), Sort: "times"}
}

// AttemptWindow lists when children of one parent began attempts, in Unix
// microseconds. It need not be sorted: a clock may have gone back.
type AttemptWindow []int64

type storedAttemptWindow struct {
	Format int           `json:"format"`
	Began  AttemptWindow `json:"began"`
}

// DecodeAttemptWindow reads parent's attempt window. The error is of kind
// Damaged if it is unreadable. An absent document is an empty window.
func DecodeAttemptWindow(parent identity.ID, d store.Doc) (AttemptWindow, error) {
	if d.Version == 0 {
		return nil, nil
	}
	var w storedAttemptWindow
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

// within returns the times that still count: less than a day old.
func (t AttemptWindow) within(now time.Time) AttemptWindow {
	floor := now.Add(-Day).UnixMicro()
	return slices.DeleteFunc(slices.Clone(t), func(at int64) bool { return at <= floor })
}

// tried is the write that counts an attempt at now against parent. It refuses
// if the parent's children began too many: a parent can make any number of
// children, also on other hosts, and each may attempt on its own. The write
// must be committed with the attempt.
func (s *Service) tried(ctx context.Context, parent identity.ID, now time.Time) (store.Put, error) {
	k := AttemptWindowKey(parent)
	d, err := s.Store.Doc(ctx, k)
	if err != nil {
		return store.Put{}, err
	}
	t, err := DecodeAttemptWindow(parent, d)
	if err != nil {
		return store.Put{}, err
	}
	if t = t.within(now); len(t) >= MaxOfParent {
		return store.Put{}, problem.New(problem.TooMany, "parent %s: expected at most %d attempts of its children to graduate in 24 hours, got more", parent.Short(), MaxOfParent)
	}
	writeID, err := s.updater().NewWriteID()
	if err != nil {
		return store.Put{}, err
	}
	data, err := encode(storedAttemptWindow{format, append(t, now.UnixMicro())})
	return store.Put{Key: k, If: d.Version, WriteID: writeID, Data: data}, err
}
