package registry

import (
	"strings"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Feed is the range of all registrations by their last change, for fsck.
func Feed() store.Range { return store.Range{Partition: FeedPartition, Index: true} }

// RevocationList is the range of all revocations, without the list document,
// for fsck.
func RevocationList() store.Range { return store.Range{Partition: revokedPartition, First: "0"} }

// Edges is the range of the edges from a parent to its children, for fsck; the
// sort key is the child. An edge may come from a replaced manifest.
func Edges(parent identity.ID) store.Range {
	return store.Range{Partition: kinPrefix + parent.String()}
}

// EdgesOf is the parent whose Edges are r; false if r is another range.
func EdgesOf(r store.Range) (identity.ID, bool) {
	parent, ok := strings.CutPrefix(r.Partition, kinPrefix)
	if !ok {
		return identity.ID{}, false
	}
	id, err := identity.ParseID(parent)
	return id, err == nil && Edges(id) == r
}

// IsChecked reports whether fsck reads a document of this package: a
// registration, a manifest, what opened a child, an edge, a revocation, the
// list of revocations, the count of venues, or the claim of a slug.
func IsChecked(k store.Key) bool {
	isID := func(s string) bool {
		_, err := identity.ParseID(s)
		return err == nil
	}
	if child, ok := strings.CutPrefix(k.Partition, registrationPrefix); ok {
		return isID(child) && (k.Sort == cardSort || k.Sort == manifestSort)
	}
	if child, ok := strings.CutPrefix(k.Partition, openedPrefix); ok {
		return isID(child) && k.Sort == manifestSort
	}
	if parent, ok := strings.CutPrefix(k.Partition, kinPrefix); ok {
		return isID(parent) && isID(k.Sort)
	}
	return k == RevokedListKey() || k == VenueCountKey() || strings.HasPrefix(k.Partition, slugPrefix) && k.Sort == venueSort || k.Partition == revokedPartition && isID(k.Sort)
}
