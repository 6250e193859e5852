package translog

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// A tile contains up to 256 adjacent node hashes of one level. Only every eighth level, counted
// from the leaves, is stored in tiles. The levels between are computed, which saves storage and
// reads.
const (
	tileHeight = 8
	tileWidth  = 1 << tileHeight
	hashSize   = sha256.Size
)

// tileID identifies a tile. Tile level n contains the hashes of tree level 8 × n.
type tileID struct {
	level uint
	index uint64
}

// frontier is a growing tree. It stores only the incomplete tile of each tile level.
type frontier struct {
	size         uint64
	partialTiles [][]byte
}

func hashLeaf(eventHash identity.Hash) []byte { return rfc6962.DefaultHasher.HashLeaf(eventHash[:]) }

func (f *frontier) add(eventHash identity.Hash, storeTile func(tileID, []byte) error) error {
	node := hashLeaf(eventHash)
	for level := uint(0); ; level++ {
		if int(level) == len(f.partialTiles) {
			f.partialTiles = append(f.partialTiles, nil)
		}
		f.partialTiles[level] = append(f.partialTiles[level], node...)
		if len(f.partialTiles[level]) < tileWidth*hashSize {
			break
		}
		tile := f.partialTiles[level]
		if err := storeTile(tileID{level, f.size >> (tileHeight * (level + 1))}, tile); err != nil {
			return err
		}
		node = perfectRoot(tile)
		f.partialTiles[level] = f.partialTiles[level][:0]
	}
	f.size++
	return nil
}

func (f *frontier) clone() frontier {
	c := frontier{size: f.size, partialTiles: make([][]byte, len(f.partialTiles))}
	for i, tile := range f.partialTiles {
		c.partialTiles[i] = slices.Clone(tile)
	}
	return c
}

func (f *frontier) check() error {
	for level := 0; level < len(f.partialTiles) || f.size>>(tileHeight*level) > 0; level++ {
		want := int(f.size>>(tileHeight*level)) % tileWidth * hashSize
		got := 0
		if level < len(f.partialTiles) {
			got = len(f.partialTiles[level])
		}
		if got != want {
			return problem.New(problem.Damaged, "the log's head has %d bytes of level %d, want %d for %d leaves", got, level, want, f.size)
		}
	}
	return nil
}

// root returns the tree's root. check must have accepted the frontier.
func (f *frontier) root() ([hashSize]byte, error) {
	var hashes [][]byte
	for _, id := range compact.RangeNodes(0, f.size, nil) {
		tile := f.partialTiles[id.Level/tileHeight]
		hashes = append(hashes, nodeHash(tile, id))
	}
	return rootOf(f.size, hashes)
}

// rootOf returns the root of a tree, given the roots of its perfect subtrees.
func rootOf(size uint64, hashes [][]byte) (root [hashSize]byte, err error) {
	if size == 0 {
		return [hashSize]byte(rfc6962.DefaultHasher.EmptyRoot()), nil
	}
	r, err := newRangeFactory().NewRange(0, size, hashes)
	if err != nil {
		return root, problem.Wrap(problem.Damaged, err, "the log's head does not fit its size")
	}
	b, err := r.GetRootHash(nil)
	if err != nil {
		return root, problem.Wrap(problem.Internal, err, "the log's root")
	}
	return [hashSize]byte(b), nil
}

func newRangeFactory() *compact.RangeFactory {
	return &compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}
}

func tileContaining(id compact.NodeID) tileID {
	level := id.Level / tileHeight
	return tileID{level, id.Index << (id.Level % tileHeight) / tileWidth}
}

func nodeHash(tile []byte, id compact.NodeID) []byte {
	span := uint64(1) << (id.Level % tileHeight)
	first := id.Index * span % tileWidth
	return perfectRoot(tile[first*hashSize : (first+span)*hashSize])
}

func perfectRoot(hashes []byte) []byte {
	if len(hashes) == hashSize {
		return slices.Clone(hashes)
	}
	half := len(hashes) / 2
	return rfc6962.DefaultHasher.HashChildren(perfectRoot(hashes[:half]), perfectRoot(hashes[half:]))
}

func (t tileID) String() string { return fmt.Sprintf("tile %d of level %d", t.index, t.level) }

// Tree computes the log's root from its leaves without storing them.
type Tree struct {
	leafRange *compact.Range
}

func (t *Tree) Add(eventHash identity.Hash) error {
	if t.leafRange == nil {
		t.leafRange = newRangeFactory().NewEmptyRange(0)
	}
	return t.leafRange.Append(hashLeaf(eventHash), nil)
}

func (t *Tree) Size() uint64 {
	if t.leafRange == nil {
		return 0
	}
	return t.leafRange.End()
}

func (t *Tree) Root() ([hashSize]byte, error) {
	if t.leafRange == nil {
		return rootOf(0, nil)
	}
	return rootOf(t.leafRange.End(), t.leafRange.Hashes())
}
