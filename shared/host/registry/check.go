package registry

import (
	"strings"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Feed is where all registrations are listed by their last change, for verify.
func Feed() store.Range { return store.Range{Partition: FeedPartition, Index: true} }

// RevocationList is where all revocations lie, for verify: behind the list.
func RevocationList() store.Range { return store.Range{Partition: revokedPartition, First: "0"} }

// Edges is where the edges from a parent to its children lie, for verify: the
// sort of each is a child. One may be left over from a manifest that a closed
// one replaced.
func Edges(parent identity.ID) store.Range {
	return store.Range{Partition: kinPrefix + parent.String()}
}

// EdgesOf is the parent whose Edges lie in r; false where r is another range.
func EdgesOf(r store.Range) (identity.ID, bool) {
	parent, ok := strings.CutPrefix(r.Partition, kinPrefix)
	if !ok {
		return identity.ID{}, false
	}
	id, err := identity.ParseID(parent)
	return id, err == nil && Edges(id) == r
}

// IsChecked reports whether verify reads a document of this package: a
// registration, a manifest, an edge, a revocation, or the list of revocations.
func IsChecked(k store.Key) bool {
	isID := func(s string) bool {
		_, err := identity.ParseID(s)
		return err == nil
	}
	if child, ok := strings.CutPrefix(k.Partition, registrationPrefix); ok {
		return isID(child) && (k.Sort == cardSort || k.Sort == manifestSort)
	}
	if parent, ok := strings.CutPrefix(k.Partition, kinPrefix); ok {
		return isID(parent) && isID(k.Sort)
	}
	return k == RevokedListKey() || k.Partition == revokedPartition && isID(k.Sort)
}
