package translog

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// head is the sealed state of the log together with the version of its document.
type head struct {
	frontier
	host       identity.ID
	root       [hashSize]byte
	lastLeaf   identity.Hash
	epochCount uint64
	sealedAt   int64  // Unix milliseconds
	version    uint64 // 0 if the log was never sealed
}

func (l *Log) loadHead(ctx context.Context) (*head, error) {
	h, _, err := HeadDocs.Get(ctx, l.Store, HeadKey())
	return &h, wrapStoreError(err)
}

// loadSealedHead returns NotFound if the log was never sealed.
func (l *Log) loadSealedHead(ctx context.Context) (*head, error) {
	h, err := l.loadHead(ctx)
	if err == nil && h.version == 0 {
		return nil, problem.New(problem.NotFound, "the log is not sealed yet")
	}
	return h, err
}

func (h *head) newPut(id store.WriteID) (store.Put, error) {
	data, err := HeadDocs.Encode(*h)
	return store.Put{Key: HeadKey(), IfVersion: h.version, WriteID: id, Data: data}, err
}
