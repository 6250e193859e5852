package graduation

import (
	"context"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// AttemptWindow contains the start times of attempts in Unix microseconds.
type AttemptWindow struct {
	StartTimes []int64 `json:"began"`
}

func (w AttemptWindow) recentStarts(now time.Time) []int64 {
	oldest := now.Add(-AttemptPeriod).UnixMicro()
	return slices.DeleteFunc(slices.Clone(w.StartTimes), func(start int64) bool { return start <= oldest })
}

// newAttemptCountPut returns the write that counts an attempt for parent. The limit is per parent,
// because a parent can create any number of children, even on other hosts. The write must be
// committed together with the attempt.
func (s *Service) newAttemptCountPut(ctx context.Context, parent identity.ID, now time.Time) (store.Put, error) {
	w, d, err := AttemptWindowDocs.Get(ctx, s.Store, AttemptWindowKey(parent))
	if err != nil {
		return store.Put{}, err
	}
	starts := w.recentStarts(now)
	if len(starts) >= MaxAttemptsOfParent {
		return store.Put{}, problem.New(problem.TooManyRequests, "parent %s has reached the limit of %d attempts of its children to graduate in 24 hours", parent.Short(), MaxAttemptsOfParent)
	}
	writeID, err := s.updater().NewWriteID()
	if err != nil {
		return store.Put{}, err
	}
	data, err := AttemptWindowDocs.Encode(AttemptWindow{append(starts, now.UnixMicro())})
	return store.Put{Key: d.Key, IfVersion: d.Version, WriteID: writeID, Data: data}, err
}
