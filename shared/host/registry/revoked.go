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

// The list of all revocations in one document, so that a call learns of both
// its ends what it must by one read of one unit: the beginnings of the ids that
// are revoked, and of more than maxPrefixes a Bloom filter over them. It can
// only say that an id is not revoked; else the revocation itself is asked for.
//
// Anybody may revoke keys of their own by the thousand. The filter leaves one
// id in 1,000 open at 1,500 revocations and one in ten at 6,000, and each that
// it leaves open costs a read: what it takes to make calls dearer grows with
// how much dearer they get.
const (
	revokedList = "#all" // sorts before all ids
	// prefixSize, maxPrefixes and filterSize keep the document below 4 KB, which
	// is a read unit.
	prefixSize  = 8
	maxPrefixes = 400
	filterSize  = 3584 // bytes
	filterBits  = 5    // of each id

	listHeader = 2 // format, and one of:
	listFew    = 0
	listMany   = 1
)

// RevokedListKey is where the list of all revocations lies.
func RevokedListKey() store.Key { return store.Key{Partition: revokedPartition, Sort: revokedList} }

// RevokedListed tells whether the list of all revocations, as it was read,
// leaves it open that id is revoked: an id that it rules out is accepted
// everywhere. For verify too; a problem of kind Damaged says what is wrong.
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

// readList is what follows the header of a list that is sound.
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

// filterOf are the bits of the filter that stand for an id, from the beginning
// of it that a shorter list has.
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

// AnyRevoked tells of each id whether its key is revoked, strongly consistent.
// Where none of them is, that is one read.
func (r *Registry) AnyRevoked(ctx context.Context, ids ...identity.ID) ([]bool, error) {
	d, err := r.Store.Doc(ctx, RevokedListKey())
	if err != nil {
		return nil, fault(err)
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

// listRevoked is the write that puts id on the list of all revocations.
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

// listWith is the list d with id on it.
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
