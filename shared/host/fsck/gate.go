package fsck

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// acceptedAttempt is an attempt that took one of its parent's slots.
type acceptedAttempt struct{ startedAt, decidedAt time.Time }

// attemptData contains data about attempts to graduate. It is compared after all streams were read.
type attemptData struct {
	parents            map[identity.ID]bool
	accepted           map[identity.ID][]acceptedAttempt
	startsByParent     map[identity.ID][]int64       // keyed by the parent in the child's manifest
	graduatedManifests map[identity.ID]identity.Hash // hash of the graduated manifest, keyed by child
	tenants            map[string]bool               // tenants of hosted vacants, with "" for the operator
}

func (r *run) checkAttempts(ctx context.Context, s store.Stream, child identity.ID) error {
	rows, openPosition := r.newReader(s), uint64(0) // position of the previous attempt if it is open, or 0
	lastPosition, starts := uint64(0), []attemptStart(nil)
	for {
		row, more, err := rows.next(ctx)
		if err != nil {
			return err
		}
		if !more {
			if err := r.collectAttempts(ctx, child, starts); err != nil {
				return err
			}
			return r.checkNoLaterStatus(ctx, s, child, lastPosition)
		}
		if row.Position == 0 {
			continue
		}
		lastPosition = row.Position
		if openPosition > 0 {
			// The commit that begins an attempt ends the previous one.
			r.addFinding(newDocumentFinding(graduation.StatusKey(child, openPosition), Graduation, "a decided status, because another attempt follows", string(graduation.Open)))
		}
		openPosition = 0
		a, err := graduation.DecodeAttempt(child, row)
		if err != nil {
			r.addFinding(newStreamFinding(s, row.Position, Row, "an attempt to graduate", problem.AsError(err).Error()))
			continue
		}
		if err := a.Request.Verify(); err != nil {
			r.addFinding(newStreamFinding(s, row.Position, Signature, "a request that parent and child have signed", "one with an invalid signature"))
		}
		isOpen, err := r.checkAttempt(ctx, &a)
		if err != nil {
			return err
		}
		if isOpen {
			openPosition = row.Position
		}
		starts = append(starts, attemptStart{a.Request.ParentID, a.StartedAt.UnixMicro()})
	}
}

func (r *run) checkAttempt(ctx context.Context, a *graduation.Attempt) (isOpen bool, err error) {
	k := graduation.StatusKey(a.Child, a.Position)
	r.attempts.parents[a.Request.ParentID] = true
	d, err := r.readDocument(ctx, k)
	if err != nil {
		return false, err
	}
	if d.Version == 0 {
		r.addFinding(newDocumentFinding(k, Graduation, "the status of the attempt", "none"))
		return false, nil
	}
	st, err := graduation.DecodeStatus(*a, d)
	if err != nil {
		return false, r.reportDamage(k, Document, "the status of an attempt", err)
	}
	switch st.Phase {
	case graduation.Refused:
		if kind, ok := gate.ParseErrorName(st.Refusal.Error); !ok || !gate.IsRefusal(st.Refusal.Step, kind) {
			r.addFinding(newDocumentFinding(k, Graduation, "a refusal of one of the gate's steps", fmt.Sprintf("%.40q of %.40q", st.Refusal.Error, string(st.Refusal.Step))))
		}
	case graduation.Accepted:
		return false, r.checkAccepted(ctx, k, &st)
	}
	return st.Phase == graduation.Open, nil
}

// checkAccepted checks that the child has the manifest that the accepted attempt created.
func (r *run) checkAccepted(ctx context.Context, k store.Key, st *graduation.Status) error {
	parent := st.Request.ParentID
	r.attempts.accepted[parent] = append(r.attempts.accepted[parent], acceptedAttempt{st.StartedAt, st.DecidedAt})
	createdManifest, err := composite.ParseManifest(st.Outcome.Manifest)
	if err != nil || createdManifest.Verify() != nil {
		r.addFinding(newDocumentFinding(k, Graduation, "the manifest that opened the child, signed by parent and child", "a manifest that cannot be read or was not signed by both"))
		return nil
	}
	d, err := r.view.Doc(ctx, registry.ManifestKey(st.Child))
	if isDamaged(err) {
		return nil // reported with the child's registration
	}
	if err != nil {
		return err
	}
	m, err := registry.ManifestDocs.Parse(d)
	switch {
	case d.Version > 0 && err != nil:
		// Reported with the child's registration.
	case d.Version == 0 || !m.Graduated || m.Manifest.Hash() != createdManifest.Hash():
		r.addFinding(newDocumentFinding(registry.ManifestKey(st.Child), Graduation, fmt.Sprintf("the manifest of graduation %s, which was accepted", st.ID), "another, or none"))
	}
	return nil
}

func (r *run) checkNoLaterStatus(ctx context.Context, s store.Stream, child identity.ID, tip uint64) error {
	k := graduation.StatusKey(child, tip+1)
	d, err := r.readDocument(ctx, k)
	if d.Version == 0 || err != nil {
		return err
	}
	if _, condition, err := r.rowAt(ctx, s, tip+1); err != nil || condition != rowPastEnd {
		return err
	}
	r.addFinding(newDocumentFinding(k, Graduation, fmt.Sprintf("no status, because there are only %d attempts", tip), "a status"))
	return nil
}

func (r *run) checkGraduations(ctx context.Context) error {
	for _, tenant := range slices.Sorted(maps.Keys(r.attempts.tenants)) {
		if err := r.checkPolicy(ctx, graduation.PolicyKey(tenant)); err != nil {
			return err
		}
	}
	order := func(a, b identity.ID) int { return bytes.Compare(a[:], b[:]) }
	for _, parent := range slices.SortedFunc(maps.Keys(r.attempts.startsByParent), order) {
		if err := r.checkAttemptWindow(ctx, parent); err != nil {
			return err
		}
	}
	for _, parent := range slices.SortedFunc(maps.Keys(r.attempts.parents), order) {
		if err := r.checkGraduationWindow(ctx, parent); err != nil {
			return err
		}
	}
	for _, child := range slices.SortedFunc(maps.Keys(r.attempts.graduatedManifests), order) {
		if err := r.checkManifestHasAttempt(ctx, child, r.attempts.graduatedManifests[child]); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) checkPolicy(ctx context.Context, k store.Key) error {
	d, err := r.readDocument(ctx, k)
	if d.Version == 0 || err != nil {
		return err
	}
	return r.reportDamage(k, Document, "a policy of graduations", graduation.PolicyDocs.Check(d))
}

// slotSlack is the tolerance between a slot and its attempt, because a clock may have been set
// back.
const slotSlack = graduation.AttemptTimeout

func (r *run) checkGraduationWindow(ctx context.Context, parent identity.ID) error {
	k := graduation.WindowKey(parent)
	d, err := r.readDocument(ctx, k)
	if err != nil {
		return err
	}
	w, err := graduation.WindowDocs.Parse(d)
	if d.Version > 0 && err != nil { // a missing window is empty
		return r.reportDamage(k, Document, "a window of graduations", err)
	}
	switch excess, missing := matchSlots(w.SlotTimes, r.attempts.accepted[parent]); {
	case excess > 0:
		r.addFindingAt(d.Version, newDocumentFinding(k, Graduation, "slots of accepted attempts", fmt.Sprintf("%d without an accepted attempt", excess)))
	case missing > 0:
		r.addFindingAt(d.Version, newDocumentFinding(k, Graduation, "a slot for each accepted attempt", fmt.Sprintf("no slot for %d", missing)))
	}
	return nil
}

// matchSlots counts slots without an attempt (excess) and attempts without a slot (missing).
func matchSlots(w gate.Window, accepted []acceptedAttempt) (excess, missing int) {
	w = slices.Sorted(slices.Values(w))
	unmatched := slices.Clone(accepted)
	slices.SortFunc(unmatched, func(a, b acceptedAttempt) int { return a.decidedAt.Compare(b.decidedAt) })
	for _, t := range w {
		slot := time.UnixMicro(t)
		i := slices.IndexFunc(unmatched, func(p acceptedAttempt) bool {
			return !slot.Before(p.startedAt.Add(-slotSlack)) && !slot.After(p.decidedAt.Add(slotSlack))
		})
		if i < 0 {
			excess++
			continue
		}
		unmatched = slices.Delete(unmatched, i, i+1)
	}
	for _, p := range unmatched {
		// Adding the latest slot may have removed slots older than gate.RateWindow.
		if len(w) == 0 || p.startedAt.Add(-slotSlack).After(time.UnixMicro(w[len(w)-1]).Add(-gate.RateWindow)) {
			missing++
		}
	}
	return excess, missing
}

func (r *run) checkManifestHasAttempt(ctx context.Context, child identity.ID, manifestHash identity.Hash) error {
	// Only a graduation opens a child, so an accepted attempt must have created the manifest.
	hasAttempt := false
	err := r.eachRow(ctx, graduation.Stream(child), func(row store.Row) error {
		a, err := graduation.DecodeAttempt(child, row)
		if err != nil {
			return nil
		}
		d, err := r.view.Doc(ctx, graduation.StatusKey(child, row.Position))
		if isDamaged(err) {
			hasAttempt = true // this attempt may have created the manifest
			return nil
		}
		if err != nil {
			return err
		}
		st, err := graduation.DecodeStatus(a, d)
		if err != nil {
			hasAttempt = hasAttempt || d.Version > 0
			return nil
		}
		if st.Phase == graduation.Accepted {
			m, err := composite.ParseManifest(st.Outcome.Manifest)
			hasAttempt = hasAttempt || err == nil && m.Hash() == manifestHash
		}
		return nil
	})
	if err == nil && !hasAttempt {
		r.addFinding(newDocumentFinding(registry.ManifestKey(child), Graduation, "a manifest of an accepted attempt, because the child has graduated", "a manifest without an accepted attempt"))
	}
	return err
}
