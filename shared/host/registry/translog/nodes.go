package translog

import (
	"context"

	"github.com/transparency-dev/merkle/compact"
)

func (l *Log) nodes(ctx context.Context, h *head, ids []compact.NodeID) ([][]byte, error) {
	read := map[tileID][]byte{}
	hashes := make([][]byte, len(ids))
	for i, id := range ids {
		t := tileOf(id)
		tile, ok := read[t]
		if !ok {
			var err error
			if tile, err = l.tile(ctx, h, t); err != nil {
				return nil, err
			}
			read[t] = tile
		}
		hashes[i] = hashWithin(tile, id)
	}
	return hashes, nil
}

func (l *Log) tile(ctx context.Context, h *head, t tileID) ([]byte, error) {
	if full := h.size >> (tileHeight * (t.level + 1)); t.index >= full {
		return h.tails[t.level], nil
	}
	hashes, _, err := TileDocs.Require(ctx, l.Store, tileKey(t))
	return hashes, wrapStoreError(err)
}

// tree returns the log's checkpoint for an earlier or the current size.
func (l *Log) tree(ctx context.Context, h *head, size uint64) (Checkpoint, error) {
	if size == h.size {
		return Checkpoint{h.host, size, h.root}, nil
	}
	hashes, err := l.nodes(ctx, h, compact.RangeNodes(0, size, nil))
	if err != nil {
		return Checkpoint{}, err
	}
	root, err := rootOf(size, hashes)
	return Checkpoint{h.host, size, root}, err
}
