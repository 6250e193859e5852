package registry

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// The list of all revocations in one document, so that a call learns about both
// its keys with one read of one unit: the prefixes of revoked ids, and beyond
// maxPrefixes a Bloom filter over them. It can only rule out that an id is
// revoked; otherwise the revocation itself is read.
//
// Anybody may revoke their own keys by the thousand. The filter fails to rule
// out one id in 1,000 at 1,500 revocations and one in ten at 6,000, and each
// such id costs a read: making calls dearer costs an attacker in proportion.
const (
	revokedList = "#all" // sorts before all ids
	// prefixSize, maxPrefixes and filterSize keep the document below 4 KB, which
	// is a read unit.
	prefixSize  = 8
	maxPrefixes = 400
	filterSize  = 3584 // bytes
	filterBits  = 5    // bits set for each id

	listHeader = 2 // format, and one of:
	listFew    = 0
	listMany   = 1
)

// RevokedListKey is the key of the list of all revocations.
func RevokedListKey() store.Key { return store.Key{Partition: revokedPartition, Sort: revokedList} }

// RevokedListed reports whether the list of all revocations fails to rule out
// that id is revoked. An id that it rules out is accepted everywhere. The error
// is of kind Damaged if the list is unreadable.
func RevokedListed(d store.Doc, id identity.ID) (bool, error) {
	if d.Version == 0 {
		return false, nil
	}
	list, err := readList(d)
	if err != nil {
		return false, err
	}
	if d.Data[1] == listMany {
		for _, bit := range filterOf(id[:prefixSize]) {
			if list[bit/8]&(1<<(bit%8)) == 0 {
				return false, nil
			}
		}
		return true, nil
	}
	for prefix := range slices.Chunk(list, prefixSize) {
		if bytes.Equal(prefix, id[:prefixSize]) {
			return true, nil
		}
	}
	return false, nil
}

// readList returns a valid list without its header.
func readList(d store.Doc) ([]byte, error) {
	if len(d.Data) >= listHeader && d.Data[0] == format {
		list := d.Data[listHeader:]
		switch d.Data[1] {
		case listFew:
			if len(list)%prefixSize == 0 {
				return list, nil
			}
		case listMany:
			if len(list) == filterSize {
				return list, nil
			}
		}
	}
	return nil, problem.New(problem.Damaged, "the list of revocations is not readable")
}

// filterOf returns the filter bits of an id, from the prefix that a shorter
// list stores.
func filterOf(prefix []byte) (bits [filterBits]uint32) {
	sum := identity.Sum(prefix)
	for i := range bits {
		bits[i] = binary.BigEndian.Uint32(sum[4*i:]) % (filterSize * 8)
	}
	return bits
}

func setFilter(list, prefix []byte) {
	for _, bit := range filterOf(prefix) {
		list[bit/8] |= 1 << (bit % 8)
	}
}

// AnyRevoked reports for each id whether its key is revoked, strongly
// consistent. If none is, it costs one read.
func (r *Registry) AnyRevoked(ctx context.Context, ids ...identity.ID) ([]bool, error) {
	d, err := r.Store.Doc(ctx, RevokedListKey())
	if err != nil {
		return nil, Problem(err)
	}
	out := make([]bool, len(ids))
	for i, id := range ids {
		listed, err := RevokedListed(d, id)
		if err == nil && listed {
			listed, err = r.IsRevoked(ctx, id)
		}
		if err != nil {
			return nil, err
		}
		out[i] = listed
	}
	return out, nil
}

// listRevoked is the write that adds id to the list of all revocations.
func (r *Registry) listRevoked(ctx context.Context, id identity.ID, writeID store.WriteID) (store.Put, error) {
	d, err := r.Store.Doc(ctx, RevokedListKey())
	if err != nil {
		return store.Put{}, err
	}
	data, err := listWith(d, id)
	if err != nil {
		return store.Put{}, err
	}
	return store.Put{Key: RevokedListKey(), If: d.Version, WriteID: writeID, Data: data}, nil
}

// listWith returns list d with id added.
func listWith(d store.Doc, id identity.ID) ([]byte, error) {
	if d.Version == 0 {
		return append([]byte{format, listFew}, id[:prefixSize]...), nil
	}
	list, err := readList(d)
	if err != nil {
		return nil, err
	}
	if d.Data[1] == listFew && len(list) < maxPrefixes*prefixSize {
		return append(slices.Clip(d.Data), id[:prefixSize]...), nil
	}
	many := make([]byte, listHeader+filterSize)
	many[0], many[1] = format, listMany
	filter := many[listHeader:]
	if d.Data[1] == listMany {
		copy(filter, list)
	} else {
		for prefix := range slices.Chunk(list, prefixSize) {
			setFilter(filter, prefix)
		}
	}
	setFilter(filter, id[:prefixSize])
	return many, nil
}
