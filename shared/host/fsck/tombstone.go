package fsck

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// checkTombstone checks the record of a deleted vacant. A deleted vacant has no key, card or floor.
func (r *run) checkTombstone(ctx context.Context, k store.Key, rec *vacants.Record, logState *logbookState) error {
	if logState.isComplete && !logState.deleted {
		r.addFinding(newDocumentFinding(k, State, "a logbook that ends in "+logbook.KindDeleted, "one that does not"))
	}
	if rec.HasKey() {
		r.addFinding(newDocumentFinding(k, State, "a tombstone without a key", "one with a sealed key"))
	}
	finding, err := r.findNameMismatch(ctx, k, rec) // read before the nameless tombstone, which the name's next owner writes
	if err != nil {
		return err
	}
	tombstoneDoc, err := r.readDocument(ctx, vacants.NamelessTombstoneKey(rec.ID))
	if err != nil {
		return err
	}
	if tombstoneDoc.Version == 0 {
		if finding != nil {
			r.addFinding(*finding)
		}
		return nil
	}
	if id, err := vacants.NamelessTombstoneDocs.Parse(tombstoneDoc); err != nil || id != rec.ID {
		r.addFinding(newDocumentFinding(tombstoneDoc.Key, Name, "the id of "+rec.ID.String(), "another"))
	}
	return nil
}
