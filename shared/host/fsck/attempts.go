package fsck

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// attemptStart is the start of a child's attempt to graduate.
type attemptStart struct {
	parent    identity.ID
	startedAt int64 // Unix microseconds
}

// collectAttempts assigns attempts to the parent in the child's manifest. If the manifest is
// missing or unreadable, it uses the parent in the request.
func (r *run) collectAttempts(ctx context.Context, child identity.ID, starts []attemptStart) error {
	if len(starts) == 0 {
		return nil
	}
	d, err := r.view.Doc(ctx, registry.ManifestKey(child))
	if err != nil && !isDamaged(err) {
		return err
	}
	m, parseErr := registry.ManifestDocs.Parse(d)
	for _, t := range starts {
		if err == nil && parseErr == nil && d.Version > 0 {
			t.parent = m.Manifest.ParentID
		}
		r.attempts.startsByParent[t.parent] = append(r.attempts.startsByParent[t.parent], t.startedAt)
	}
	return nil
}

func (r *run) checkAttemptWindow(ctx context.Context, parent identity.ID) error {
	// A missing start time would let the parent's children begin too many attempts.
	k := graduation.AttemptWindowKey(parent)
	d, err := r.readDocument(ctx, k)
	if err != nil {
		return err
	}
	window, err := graduation.AttemptWindowDocs.Parse(d)
	if d.Version > 0 && err != nil { // a missing window is empty
		return r.reportDamage(k, Document, "the start times of attempts to graduate", err)
	}
	switch excess, missing := matchAttempts(window.StartTimes, r.attempts.startsByParent[parent]); {
	case excess > 0:
		r.addFindingAt(d.Version, newDocumentFinding(k, Graduation, "start times of attempts", fmt.Sprintf("%d times without an attempt", excess)))
	case missing > 0:
		r.addFindingAt(d.Version, newDocumentFinding(k, Graduation, "a start time for each attempt of the last day", fmt.Sprintf("no time for %d", missing)))
	}
	return nil
}

// matchAttempts counts listed times without an attempt (excess) and attempts without a listed time
// (missing).
func matchAttempts(listed, starts []int64) (excess, missing int) {
	unmatched, newest := slices.Clone(starts), int64(math.MinInt64)
	for _, start := range listed {
		newest = max(newest, start)
		if i := slices.Index(unmatched, start); i >= 0 {
			unmatched = slices.Delete(unmatched, i, i+1)
		} else {
			excess++
		}
	}
	for _, start := range unmatched {
		// Older times may have been removed.
		if len(listed) == 0 || start > newest-graduation.AttemptPeriod.Microseconds() {
			missing++
		}
	}
	return excess, missing
}
