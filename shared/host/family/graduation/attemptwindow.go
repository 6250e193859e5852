package graduation

import (
	"context"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// AttemptWindow lists when children of one parent began attempts, in Unix
// microseconds. It need not be sorted: a clock may have gone back.
type AttemptWindow struct {
	Began []int64 `json:"began"`
}

// within returns the times that still count: less than a day old.
func (w AttemptWindow) within(now time.Time) []int64 {
	floor := now.Add(-Day).UnixMicro()
	return slices.DeleteFunc(slices.Clone(w.Began), func(at int64) bool { return at <= floor })
}

// tried is the write that counts an attempt at now against parent. It refuses
// if the parent's children began too many: a parent can make any number of
// children, also on other hosts, and each may attempt on its own. The write
// must be committed with the attempt.
func (s *Service) tried(ctx context.Context, parent identity.ID, now time.Time) (store.Put, error) {
	w, d, err := AttemptWindowDocs.Get(ctx, s.Store, AttemptWindowKey(parent))
	if err != nil {
		return store.Put{}, err
	}
	began := w.within(now)
	if len(began) >= MaxOfParent {
		return store.Put{}, problem.New(problem.TooMany, "parent %s: expected at most %d attempts of its children to graduate in 24 hours, got more", parent.Short(), MaxOfParent)
	}
	writeID, err := s.updater().NewWriteID()
	if err != nil {
		return store.Put{}, err
	}
	data, err := AttemptWindowDocs.Encode(AttemptWindow{append(began, now.UnixMicro())})
	return store.Put{Key: d.Key, If: d.Version, WriteID: writeID, Data: data}, err
}
