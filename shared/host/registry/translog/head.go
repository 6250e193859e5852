package translog

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Partitions of the log's documents: sealed state, and cosignatures, which come
// from outside.
const (
	Partition         = "tlog"
	CosignedPartition = "cosigned"
)

// format is the version of the stored documents.
const format = 1

// HeadKey is the key of the head.
func HeadKey() store.Key { return store.Key{Partition: Partition, Sort: "head"} }

func leaseKey() store.Key { return store.Key{Partition: Partition, Sort: "lease"} }

func tileKey(t tileID) store.Key {
	return store.Key{Partition: Partition, Sort: fmt.Sprintf("tile#%02x#%014x", t.level, t.index)}
}

func checkpointKey(size uint64) store.Key {
	return store.Key{Partition: Partition, Sort: fmt.Sprintf("cp#%016x", size)}
}

func cosignedKey(size uint64) store.Key {
	return store.Key{Partition: CosignedPartition, Sort: fmt.Sprintf("%016x", size)}
}

func epochKey(id uint64) store.Key {
	return store.Key{Partition: Partition, Sort: fmt.Sprintf("epoch#%08x", id)}
}

// head is the sealed state and the version of its document.
type head struct {
	frontier
	host    identity.ID
	root    [hashSize]byte
	last    identity.Hash // the last leaf, which the next Seal compares with its row
	epochs  uint64
	sealed  int64  // Unix milliseconds
	version uint64 // 0 if nothing was ever sealed
}

type storedHead struct {
	Format int           `json:"format"`
	Host   identity.ID   `json:"host"`
	Size   uint64        `json:"size"`
	Root   identity.Hash `json:"root"`
	Last   identity.Hash `json:"last"`
	Epochs uint64        `json:"epochs"`
	Sealed int64         `json:"sealed_ms"`
	Tails  [][]byte      `json:"tails"`
}

// head reads the sealed state; version 0 if nothing was ever sealed.
func (l *Log) head(ctx context.Context) (*head, error) {
	d, err := l.Store.Doc(ctx, HeadKey())
	if err != nil {
		return nil, fault(err)
	}
	if d.Version == 0 {
		return &head{}, nil
	}
	return decodeHead(d)
}

// sealedHead is head, but refuses if nothing was sealed.
func (l *Log) sealedHead(ctx context.Context) (*head, error) {
	h, err := l.head(ctx)
	if err == nil && h.version == 0 {
		return nil, problem.New(problem.NotFound, "nothing is sealed yet")
	}
	return h, err
}

func decodeHead(d store.Doc) (*head, error) {
	var s storedHead
	if err := json.Unmarshal(d.Data, &s); err != nil {
		return nil, problem.Wrap(problem.Damaged, err, "the log's head is not readable")
	}
	if s.Format != format {
		return nil, problem.New(problem.Damaged, "the log's head has format %d, want %d", s.Format, format)
	}
	h := &head{
		frontier: frontier{s.Size, s.Tails}, host: s.Host, root: s.Root, last: s.Last,
		epochs: s.Epochs, sealed: s.Sealed, version: d.Version,
	}
	if err := h.check(); err != nil {
		return nil, err
	}
	// The next signature builds on these hashes, so check them.
	root, err := h.frontier.root()
	if err == nil && root != h.root {
		err = problem.New(problem.Damaged, "the hashes of the log's head do not make its root")
	}
	return h, err
}

func (h *head) put(a store.WriteID) (store.Put, error) {
	// An empty tail and an absent tail are the same tree, and must be the same
	// bytes.
	tails := slices.Clone(h.tails)
	for i := range tails {
		if len(tails[i]) == 0 {
			tails[i] = []byte{}
		}
	}
	data, err := json.Marshal(storedHead{format, h.host, h.size, h.root, h.last, h.epochs, h.sealed, tails})
	if err != nil {
		return store.Put{}, problem.Wrap(problem.Internal, err, "the log's head")
	}
	return store.Put{Key: HeadKey(), If: h.version, WriteID: a, Data: data}, nil
}
