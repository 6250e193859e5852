package registry

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"

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

// RevokedList is the list of all revocations; nil has none.
type RevokedList []byte

// Has reports whether the list fails to rule out that id is revoked. An id that it
// rules out is accepted everywhere.
func (l RevokedList) Has(id identity.ID) bool {
	if len(l) < listHeader {
		return false
	}
	list := l[listHeader:]
	if l[1] == listMany {
		for _, bit := range filterOf(id[:prefixSize]) {
			if list[bit/8]&(1<<(bit%8)) == 0 {
				return false
			}
		}
		return true
	}
	for prefix := range slices.Chunk(list, prefixSize) {
		if bytes.Equal(prefix, id[:prefixSize]) {
			return true
		}
	}
	return false
}

func decodeRevokedList(d store.Doc) (RevokedList, error) {
	if len(d.Data) >= listHeader && d.Data[0] == format {
		size := len(d.Data) - listHeader
		if kind := d.Data[1]; kind == listFew && size%prefixSize == 0 || kind == listMany && size == filterSize {
			return d.Data, nil
		}
	}
	return nil, errors.New("it has neither prefixes of ids nor a filter of them")
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
	list, _, err := RevokedListDocs.Get(ctx, r.Store, RevokedListKey())
	if err != nil {
		return nil, Problem(err)
	}
	out := make([]bool, len(ids))
	for i, id := range ids {
		if !list.Has(id) {
			continue
		}
		if out[i], err = r.IsRevoked(ctx, id); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// with returns l with id added.
func (l RevokedList) with(id identity.ID) RevokedList {
	if l == nil {
		l = RevokedList{format, listFew}
	}
	list := l[listHeader:]
	if l[1] == listFew && len(list) < maxPrefixes*prefixSize {
		return append(slices.Clip(l), id[:prefixSize]...)
	}
	many := make(RevokedList, listHeader+filterSize)
	many[0], many[1] = format, listMany
	filter := many[listHeader:]
	if l[1] == listMany {
		copy(filter, list)
	} else {
		for prefix := range slices.Chunk(list, prefixSize) {
			setFilter(filter, prefix)
		}
	}
	setFilter(filter, id[:prefixSize])
	return many
}
