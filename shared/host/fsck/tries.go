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

// attemptStart is the start of a child's attempt, which counts for the parent.
type attemptStart struct {
	parent    identity.ID // parent that signed the request
	startedAt int64       // Unix microseconds
}

// collectAttempts records a child's attempts for the parent in its manifest. If the manifest is
// unreadable, which another check reports, it uses the parent that signed the request.
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
		r.gate.attemptsByParent[t.parent] = append(r.gate.attemptsByParent[t.parent], t.startedAt)
	}
	return nil
}

func (r *run) checkAttemptWindow(ctx context.Context, parent identity.ID) error {
	// The window must contain exactly the attempts of the parent's children. Otherwise the parent
	// could begin too many attempts, or too few.
	k := graduation.AttemptWindowKey(parent)
	d, err := r.document(ctx, k)
	if err != nil {
		return err
	}
	window, err := graduation.AttemptWindowDocs.Parse(d)
	if d.Version > 0 && err != nil { // a missing window is empty
		return r.reportDamage(k, Document, "the start times of attempts to graduate", err)
	}
	switch excess, missing := matchAttempts(window.StartTimes, r.gate.attemptsByParent[parent]); {
	case excess > 0:
		r.addFindingAt(d.Version, inDocument(k, Graduation, "start times of attempts", fmt.Sprintf("%d times without an attempt", excess)))
	case missing > 0:
		r.addFindingAt(d.Version, inDocument(k, Graduation, "a start time for each attempt of the last day", fmt.Sprintf("no time for %d", missing)))
	}
	return nil
}

// matchAttempts returns the number of listed times without an attempt, and the number of unlisted attempts
// whose times cannot have been removed because of their age.
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
		if len(listed) == 0 || start > newest-graduation.AttemptPeriod.Microseconds() {
			missing++
		}
	}
	return excess, missing
}
