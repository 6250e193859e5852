package translog

import (
	"context"

	"github.com/transparency-dev/merkle/compact"
)

func (l *Log) readNodes(ctx context.Context, h *head, ids []compact.NodeID) ([][]byte, error) {
	tiles := map[tileID][]byte{}
	hashes := make([][]byte, len(ids))
	for i, id := range ids {
		t := tileContaining(id)
		tile, ok := tiles[t]
		if !ok {
			var err error
			if tile, err = l.readTile(ctx, h, t); err != nil {
				return nil, err
			}
			tiles[t] = tile
		}
		hashes[i] = nodeHash(tile, id)
	}
	return hashes, nil
}

func (l *Log) readTile(ctx context.Context, h *head, t tileID) ([]byte, error) {
	if fullTiles := h.size >> (tileHeight * (t.level + 1)); t.index >= fullTiles {
		return h.partialTiles[t.level], nil
	}
	hashes, _, err := TileDocs.Require(ctx, l.Store, tileKey(t))
	return hashes, wrapStoreError(err)
}

func (l *Log) computeCheckpoint(ctx context.Context, h *head, size uint64) (Checkpoint, error) {
	if size == h.size {
		return Checkpoint{h.host, size, h.root}, nil
	}
	hashes, err := l.readNodes(ctx, h, compact.RangeNodes(0, size, nil))
	if err != nil {
		return Checkpoint{}, err
	}
	root, err := rootOf(size, hashes)
	return Checkpoint{h.host, size, root}, err
}
