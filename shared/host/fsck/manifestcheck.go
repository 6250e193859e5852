package fsck

import (
	"context"
	"fmt"
	"slices"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// checkManifest reports the first difference between a hosted vacant's record, manifest and
// logbook. The record must be right, because the host uses it to admit calls.
func (r *run) checkManifest(ctx context.Context, k store.Key, rec *vacants.Record, logState *logbookState) error {
	d, err := r.view.Doc(ctx, registry.ManifestKey(rec.ID))
	if isDamaged(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var m *registry.ManifestDocument
	if d.Version > 0 {
		parsed, err := registry.ManifestDocs.Parse(d)
		if err != nil {
			return nil
		}
		m = &parsed
	}
	if finding := compareRecord(k, rec, m, logState); finding != nil {
		r.addFinding(*finding)
	}
	return nil
}

func compareRecord(k store.Key, rec *vacants.Record, m *registry.ManifestDocument, logState *logbookState) *Finding {
	newFinding := func(what string, want, got any) *Finding {
		f := newDocumentFinding(k, Kin, fmt.Sprintf("%s %v, according to its manifest", what, want), fmt.Sprint(got))
		return &f
	}
	if m == nil {
		if rec.Parent != nil {
			return newFinding("parent", "none", rec.Parent)
		}
		if logState.isComplete && logState.birth != nil && !logState.keyExported {
			f := newDocumentFinding(registry.ManifestKey(rec.ID), Kin, "a manifest, because the logbook begins with BIRTH", "none")
			return &f
		}
		return findMissingKinMark(k, rec, logState)
	}
	if rec.Parent == nil || *rec.Parent != m.Manifest.ParentID {
		got := "none"
		if rec.Parent != nil {
			got = rec.Parent.String()
		}
		return newFinding("parent", m.Manifest.ParentID, got)
	}
	reach, outbound := composite.Reachability(""), composite.OutboundPolicy("")
	if m.Manifest.SchemaVersion == composite.SchemaV2 {
		reach, outbound = m.Manifest.Reachability, m.Manifest.OutboundPolicy
	}
	switch {
	case rec.Closed != m.IsClosed():
		return newFinding("closed", m.IsClosed(), rec.Closed)
	case rec.Reachability != reach:
		return newFinding("endpoint_reachability", fmt.Sprintf("%q", reach), fmt.Sprintf("%q", rec.Reachability))
	case rec.OutboundPolicy != outbound:
		return newFinding("outbound_policy", fmt.Sprintf("%q", outbound), fmt.Sprintf("%q", rec.OutboundPolicy))
	}
	if f := compareManifestWithLogbook(rec, m, logState); f != nil {
		return f
	}
	return findMissingKinMark(k, rec, logState)
}

func compareManifestWithLogbook(rec *vacants.Record, m *registry.ManifestDocument, logState *logbookState) *Finding {
	if !logState.isComplete {
		return nil
	}
	var want, got string
	switch {
	case logState.birth != nil && !matchesBirth(m, logState):
		want, got = fmt.Sprintf("a manifest of path %s with the parent %s, as its logbook begins", logState.birth.BirthPath, logState.birth.Parent), "others"
	case logState.graduated && m.IsClosed():
		want, got = "an open manifest, because its logbook records a graduation", "a closed one"
	case m.Graduated && !logState.graduated && !logState.keyExported:
		want, got = "a closed manifest, because its logbook records no graduation", "one that has graduated"
	default:
		return nil
	}
	f := newDocumentFinding(registry.ManifestKey(rec.ID), Kin, want, got)
	return &f
}

func matchesBirth(m *registry.ManifestDocument, logState *logbookState) bool {
	return slices.ContainsFunc([]*composite.Manifest{&m.Manifest, m.PreviousManifest, m.ManifestBeforePrevious}, func(m *composite.Manifest) bool {
		return m != nil && m.ParentID == logState.birth.Parent && string(m.BirthPath) == logState.birth.BirthPath
	})
}

func findMissingKinMark(k store.Key, rec *vacants.Record, logState *logbookState) *Finding {
	// The host looks up the children of a vacant only if its record has HasKin.
	if !logState.hasChild || rec.HasKin || rec.IsDeleted() {
		return nil
	}
	f := newDocumentFinding(k, Kin, "kin, because its logbook records a child", "none")
	return &f
}

// checkUnregistered checks the manifest and the edges of a hosted vacant without events.
func (r *run) checkUnregistered(ctx context.Context, rec *vacants.Record) error {
	hasRows, err := r.hasRows(ctx, registry.ActorStream(rec.ID))
	if err != nil || hasRows {
		return err
	}
	k := registry.RegistrationKey(rec.ID)
	d, err := r.readDocument(ctx, k)
	if err != nil {
		return err
	}
	reg := registry.Registration{ID: rec.ID}
	if d.Version > 0 {
		if reg, err = registry.RegistrationDocs.Parse(d); err != nil {
			return r.reportDamage(k, Document, "a registration of "+rec.ID.String(), err)
		}
	}
	if err := r.checkRegisteredManifest(ctx, k, &reg); err != nil || !rec.HasKin {
		return err
	}
	return r.checkEdges(ctx, rec.ID)
}

func (r *run) checkAgents(ctx context.Context, rec *vacants.Record) error {
	for version := 1; version <= rec.AgentVersion; version++ {
		k := vacants.AgentKey(rec.ID, version)
		d, err := r.readDocument(ctx, k)
		if err != nil {
			return err
		}
		if d.Version == 0 && rec.State == lifecycle.Archived {
			continue // a deletion removes the agents before it writes the tombstone
		}
		a, err := vacants.AgentDocs.Parse(d)
		if err != nil {
			if err := r.reportDamage(k, Agent, fmt.Sprintf("version %d of the agent", version), err); err != nil {
				return err
			}
			continue
		}
		if spec, err := a.Spec(); version == rec.AgentVersion && rec.Substrate != plan.Kind && (err != nil || spec.String() != rec.Substrate) {
			r.addFinding(newDocumentFinding(k, Agent, fmt.Sprintf("the substrate %.80q of its record", rec.Substrate), fmt.Sprintf("%.80q", spec)))
		}
	}
	return nil
}

// checkPlan compares a composite's plan with its logbook. The plan of an imported vacant may be
// missing, and a deletion removes the plan before the record.
func (r *run) checkPlan(ctx context.Context, rec *vacants.Record, logState *logbookState) error {
	k := vacants.PlanKey(rec.ID)
	want := "the plan " + logState.planHash.String() + ", according to its logbook"
	p, d, err := vacants.PlanDocs.Get(ctx, r.view, k)
	switch {
	case err != nil:
		return r.reportDamage(k, Plan, "a plan over children", err)
	case d.Version == 0 && (!logState.isComplete || logState.planHash.IsZero() || logState.keyExported || rec.State == lifecycle.Archived || logState.state == lifecycle.Archived):
	case d.Version == 0:
		r.addFinding(newDocumentFinding(k, Plan, want, "none"))
	case rec.IsDeleted():
		r.addFinding(newDocumentFinding(k, Plan, "none, as its vacant is deleted", "one"))
	case !logState.isComplete || logState.planHash == p.Hash():
	case logState.planHash.IsZero():
		r.addFinding(newDocumentFinding(k, Plan, "none, as its logbook names none", p.Hash().String()))
	default:
		r.addFinding(newDocumentFinding(k, Plan, want, p.Hash().String()))
	}
	return nil
}
