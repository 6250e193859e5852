package registry

import (
	"bytes"
	"context"
	"slices"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// The list of all revocations in one document, so that a call learns of both
// its ends what it must by one read of one unit: the beginnings of the ids that
// are revoked, or that there are too many for that. It can only say that an id
// is not revoked; else the revocation itself is asked for.
const (
	revokedList = "#all" // sorts before all ids
	// prefixSize and maxPrefixes keep the document below 4 KB, which is a read
	// unit.
	prefixSize  = 8
	maxPrefixes = 400

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
	if len(d.Data) < listHeader || d.Data[0] != format || d.Data[1] > listMany ||
		(len(d.Data)-listHeader)%prefixSize != 0 || d.Data[1] == listMany && len(d.Data) > listHeader {
		return false, problem.New(problem.Damaged, "the list of revocations is not readable")
	}
	if d.Data[1] == listMany {
		return true, nil
	}
	for prefix := range slices.Chunk(d.Data[listHeader:], prefixSize) {
		if bytes.Equal(prefix, id[:prefixSize]) {
			return true, nil
		}
	}
	return false, nil
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
func (r *Registry) listRevoked(ctx context.Context, id identity.ID, attempt store.Attempt) (store.Put, error) {
	d, err := r.Store.Doc(ctx, RevokedListKey())
	if err != nil {
		return store.Put{}, err
	}
	if _, err := RevokedListed(d, id); err != nil {
		return store.Put{}, err
	}
	data := d.Data
	switch {
	case d.Version == 0:
		data = append([]byte{format, listFew}, id[:prefixSize]...)
	case data[1] == listMany:
	case len(data) >= listHeader+maxPrefixes*prefixSize:
		data = []byte{format, listMany}
	default:
		data = append(slices.Clip(data), id[:prefixSize]...)
	}
	return store.Put{Key: RevokedListKey(), If: d.Version, Attempt: attempt, Data: data}, nil
}
