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

// The list of all revocations is one document, so that a call can check both its keys with one
// small read. It contains the prefixes of revoked ids or, for more than maxPrefixes, a Bloom filter
// of the prefixes. The list can only rule out that an id is revoked. For all other ids, the
// revocation itself is read.
//
// Anyone may revoke any number of their own keys. The filter fails to rule out one id in 1,000 with
// 1,500 revocations and one in ten with 6,000, and each of these ids costs an additional read. An
// attacker who wants to make calls more expensive must therefore pay for a proportional number of
// revocations.
const (
	// prefixSize, maxPrefixes and filterSize keep the document below 4 KB, which is one read unit.
	prefixSize  = 8
	maxPrefixes = 400
	filterSize  = 3584 // bytes
	filterBits  = 5    // bits set per id

	listHeader = 2 // bytes: format, then listFew or listMany
	listFew    = 0
	listMany   = 1
)

// RevokedList is the list of all revocations. A nil list is empty.
type RevokedList []byte

// Has reports whether id may be revoked. If it returns false, id is certainly not revoked.
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

// AnyRevoked reports for each id whether its key is revoked, with strongly consistent reads. It
// costs one read if the list rules out all ids.
func (r *Registry) AnyRevoked(ctx context.Context, ids ...identity.ID) ([]bool, error) {
	list, _, err := RevokedListDocs.Get(ctx, r.Store, RevokedListKey())
	if err != nil {
		return nil, WrapStoreError(err)
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

func (l RevokedList) withID(id identity.ID) RevokedList {
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
