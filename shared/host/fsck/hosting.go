package fsck

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/documents"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/signingkey"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

func (r *run) eachDocument(ctx context.Context, docRange store.Range, fn func(store.Doc) error) error {
	for d, err := range store.Documents(ctx, r.Source, docRange) {
		if err != nil {
			return r.reportDamage(store.Key{Partition: docRange.Partition, Sort: "*"}, Document, "a list", err)
		}
		if err := fn(d); err != nil {
			return err
		}
	}
	return nil
}

// checkUnrelatedDocuments parses an owner's documents that are not compared with other data. parts
// replace the stars in the partition's pattern.
func (r *run) checkUnrelatedDocuments(ctx context.Context, owner store.OwnerKind, parts ...string) error {
	for _, kind := range documents.All() {
		s := kind.Shape
		if s.Owner != owner || s.Verify != store.VerifyParse {
			continue
		}
		check := func(d store.Doc) error {
			if keyKind, ok := documents.Find(d.Key); d.Version == 0 || !ok || keyKind.Shape != s {
				return nil // no document, or another kind in the same range
			}
			return r.reportDamage(d.Key, Document, "the "+s.Name, kind.Check(d))
		}
		if strings.Contains(s.Sort, "*") {
			if err := r.eachDocument(ctx, s.Range(parts...), check); err != nil {
				return err
			}
			continue
		}
		d, err := r.readDocument(ctx, s.Key(parts...))
		if err == nil {
			err = check(d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *run) checkNames(ctx context.Context) error {
	return r.eachDocument(ctx, vacants.NameDocs.Range(), func(d store.Doc) error { return r.checkNameDocument(ctx, d.Key) })
}

func (r *run) checkHostKeys(ctx context.Context) error {
	d, err := r.readDocument(ctx, vacants.HostIdentityKey())
	if err != nil {
		return err
	}
	var host identity.ID // zero if the key is in a key service
	if d.Version > 0 {
		host, err = vacants.CheckHostIdentity(ctx, d, r.Vault)
		if err := r.reportKeyDamage(vacants.HostIdentityKey(), "the host's key", err); err != nil {
			return err
		}
	}
	d, err = r.readDocument(ctx, signingkey.DocKey())
	if d.Version == 0 || err != nil {
		return err
	}
	if err := signingkey.CheckCertificates(d, host); err != nil {
		return r.reportDamage(signingkey.DocKey(), Document, "keys that the host certified", err)
	}
	return r.reportKeyDamage(signingkey.DocKey(), "the certified keys", signingkey.CheckKeys(ctx, d, r.Vault))
}

func (r *run) reportKeyDamage(k store.Key, want string, err error) error {
	if errors.Is(err, custody.ErrWithheld) {
		r.result.WithheldKeys++
		return nil
	}
	return r.reportDamage(k, Key, want, err)
}

// readDocument reports a damaged document and returns the zero Doc.
func (r *run) readDocument(ctx context.Context, k store.Key) (store.Doc, error) {
	d, err := r.view.Doc(ctx, k)
	if err != nil {
		return store.Doc{}, r.reportDamage(k, Document, "a document that can be read", err)
	}
	return d, nil
}

// reportDamage reports err if it means damage. Otherwise it returns err.
func (r *run) reportDamage(k store.Key, c Check, want string, err error) error {
	if isDamaged(err) {
		r.addFinding(newDocumentFinding(k, c, want, problem.AsError(err).Error()))
		return nil
	}
	return err
}

func (r *run) checkNameDocument(ctx context.Context, k store.Key) error {
	if err := r.flushIfFull(); err != nil {
		return err
	}
	d, err := r.readDocument(ctx, k)
	if d.Version == 0 || err != nil {
		return err
	}
	id, err := vacants.NameDocs.Parse(d)
	if err != nil {
		return r.reportDamage(k, Document, "a name", err)
	}
	d, err = r.view.Doc(ctx, vacants.RecordKey(id))
	switch {
	case isDamaged(err):
		// Reported with the vacant.
	case err != nil:
		return err
	case d.Version == 0:
		r.addFinding(newDocumentFinding(k, Name, "the id of a vacant hosted here", id.String()))
		return nil
	}
	if rec, err := vacants.RecordDocs.Parse(d); err == nil && rec.Name != k.Sort && vacants.NameKey(rec.Name) != k {
		r.addFinding(newDocumentFinding(k, Name, "the id of the vacant of this name", fmt.Sprintf("%s, which is %q", id, rec.Name)))
	}
	hasLogbook, err := r.hasRows(ctx, store.StreamOf(store.KindLogbook, id))
	if err == nil && !hasLogbook {
		r.addFinding(newDocumentFinding(vacants.RecordKey(id), State, "a logbook", "none"))
	}
	return err
}

func (r *run) checkLogbook(ctx context.Context, s store.Stream, owner identity.ID) error {
	logState := logbookState{state: lifecycle.Local, isComplete: true}
	rows := r.newReader(s)
	chain, isPrevReadable := logbook.Verifier{Owner: owner}, true
	for {
		row, more, err := rows.next(ctx)
		if err != nil {
			return err
		}
		if !more {
			r.kin.recordIncomparable(owner, &logState)
			return r.checkVacant(ctx, owner, &logState)
		}
		var e logbook.Entry
		if row.Position == 0 {
			isPrevReadable, logState.isComplete = false, false
			continue
		}
		if err := e.UnmarshalBinary(row.Data); err != nil {
			r.addFinding(newStreamFinding(s, row.Position, Row, "a logbook entry", problem.AsError(err).Error()))
			isPrevReadable, logState.isComplete = false, false
			continue
		}
		r.checkEntry(s, row.Position, &chain, &e, isPrevReadable)
		isPrevReadable = true
		if logState.deleted {
			r.addFinding(newStreamFinding(s, row.Position, State, "no entry after its deletion", fmt.Sprintf("%.80q", e.Kind)))
		}
		if err := logState.applyEntry(&e, owner); err != nil {
			r.addFinding(newStreamFinding(s, row.Position, Row, "an entry with the payload of its kind", problem.AsError(err).Error()))
			logState.isComplete = false
		}
		if e.Kind == logbook.KindBirth && row.Position > 1 {
			r.addFinding(newStreamFinding(s, row.Position, State, "no birth after the first entry", e.Kind))
		}
		r.kin.recordEntry(&e, row.Position, owner)
	}
}

func (r *run) checkEntry(s store.Stream, position uint64, chain *logbook.Verifier, e *logbook.Entry, isPrevReadable bool) {
	var chainErr *logbook.ChainError
	if !errors.As(chain.Verify(e), &chainErr) {
		return
	}
	if chainErr.IsLinkWrong() && isPrevReadable {
		r.addFinding(newStreamFinding(s, position, Prev, chainErr.Want.String(), chainErr.Got.String()))
	}
	if !chainErr.IsLinkWrong() || !e.Verify(chain.Owner) {
		r.addFinding(newStreamFinding(s, position, Signature, "a signature by "+chain.Owner.String(), "an invalid signature"))
	}
}

// checkVacant checks the record of a logbook's owner. The record may be missing, because an aborted
// import leaves only entries.
func (r *run) checkVacant(ctx context.Context, id identity.ID, logState *logbookState) error {
	k := vacants.RecordKey(id)
	d, err := r.readDocument(ctx, k)
	if d.Version == 0 || err != nil {
		return err
	}
	r.result.Vacants++
	rec, err := vacants.RecordDocs.Parse(d)
	if err != nil {
		return r.reportDamage(k, Document, "a record of "+id.String(), err)
	}
	r.attempts.tenants[rec.Tenant] = true
	if err := r.checkManifest(ctx, k, &rec, logState); err != nil {
		return err
	}
	if logState.isComplete && rec.State != logState.state {
		r.addFinding(newDocumentFinding(k, State, string(logState.state)+", as its logbook ends", string(rec.State)))
	}
	if err := r.checkUnrelatedDocuments(ctx, store.OwnedByVacant, id.String()); err != nil {
		return err
	}
	if err := r.checkReputationHasReviews(ctx, id); err != nil {
		return err
	}
	if err := r.checkUnregistered(ctx, &rec); err != nil {
		return err
	}
	if err := r.checkPlan(ctx, &rec, logState); err != nil {
		return err
	}
	if err := r.checkAgents(ctx, &rec); err != nil {
		return err
	}
	if rec.IsDeleted() {
		return r.checkTombstone(ctx, k, &rec, logState)
	}
	if logState.deleted {
		// The record was restored after its deletion, for example from a backup of the documents.
		r.addFinding(newDocumentFinding(k, State, "a tombstone, as its logbook ends in "+logbook.KindDeleted, "the record of a vacant that was not deleted"))
	}
	if rec.Floor.Before(logState.refusedUntil) {
		// If the floor were missing, envelopes from before the restore could be accepted again.
		r.addFinding(newDocumentFinding(k, Floor, "not before "+canon.FormatTime(logState.refusedUntil)+", according to its logbook", canon.FormatTime(rec.Floor)))
	}
	if rec.RestoredAt.After(r.result.RestoredAt) {
		r.result.RestoredAt, r.result.RefusedUntil = rec.RestoredAt, rec.Floor
	}
	r.checkCard(k, &rec, logState)
	if err := r.reportKeyDamage(k, "the key of "+id.String(), rec.CheckKey(ctx, r.Vault)); err != nil {
		return err
	}
	finding, err := r.findNameMismatch(ctx, k, &rec)
	if finding != nil {
		r.addFinding(*finding)
	}
	return err
}

func (r *run) checkCard(k store.Key, rec *vacants.Record, logState *logbookState) {
	c, err := card.Parse(rec.Card)
	switch {
	case err != nil:
		r.addFinding(newDocumentFinding(k, Card, "a capability card", problem.AsError(err).Text()))
	case c.VacantID != rec.ID:
		r.addFinding(newDocumentFinding(k, Card, "the card of "+rec.ID.String(), "the card of "+c.VacantID.String()))
	case !c.Verify():
		r.addFinding(newDocumentFinding(k, Card, "a card signed by "+rec.ID.String(), "an invalid signature"))
	case c.CapabilityText != rec.Capability:
		r.addFinding(newDocumentFinding(k, Card, fmt.Sprintf("the capability %.80q", rec.Capability), fmt.Sprintf("%.80q", c.CapabilityText)))
	case logState.isComplete && logState.capability != "" && logState.capability != c.CapabilityText:
		r.addFinding(newDocumentFinding(k, Card, fmt.Sprintf("the capability %.80q, with which it graduated", logState.capability), fmt.Sprintf("%.80q", c.CapabilityText)))
	case logState.isComplete && logState.cardHash != "" && logState.cardHash != c.Hash().String():
		r.addFinding(newDocumentFinding(k, Card, "the card "+logState.cardHash+", last signed by its logbook", c.Hash().String()))
	}
}

func (r *run) findNameMismatch(ctx context.Context, k store.Key, rec *vacants.Record) (*Finding, error) {
	newFinding := func(k store.Key, c Check, want, got string) (*Finding, error) {
		f := newDocumentFinding(k, c, want, got)
		return &f, nil
	}
	if err := registry.CheckName(rec.Name); err != nil {
		return newFinding(k, Name, "a name", fmt.Sprintf("%.80q", rec.Name))
	}
	d, err := vacants.ReadNameDoc(ctx, r.view, rec.Name)
	if isDamaged(err) {
		return newFinding(vacants.NameKey(rec.Name), Document, "a document that can be read", problem.AsError(err).Error())
	}
	if err != nil {
		return nil, err
	}
	id, err := vacants.NameDocs.Parse(d)
	want := fmt.Sprintf("the name %q to belong to this vacant", rec.Name)
	switch {
	case d.Version == 0 || err != nil:
		return newFinding(k, Name, want, "none")
	case id != rec.ID:
		return newFinding(k, Name, want, "another, "+id.String())
	}
	return nil, nil
}
