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

// A tile holds 256 adjacent node hashes of every eighth level, from the leaves
// up; the levels between are computed. So a leaf costs little more than its own
// hash, and a proof few reads.
const (
	tileHeight = 8
	tileWidth  = 1 << tileHeight
	hashSize   = sha256.Size
)

// tileID names a tile: a level of tiles, and an index from the left.
type tileID struct {
	level uint
	index uint64
}

// frontier is a growing tree: the number of leaves, and the incomplete tile of
// each level of tiles.
type frontier struct {
	size  uint64
	tails [][]byte
}

// hashLeaf is the leaf's node: RFC 6962 over the 32 bytes of an event's hash.
func hashLeaf(event identity.Hash) []byte { return rfc6962.DefaultHasher.HashLeaf(event[:]) }

// add appends a leaf and passes each tile that becomes full to fill.
func (f *frontier) add(event identity.Hash, fill func(tileID, []byte) error) error {
	node := hashLeaf(event)
	for level := uint(0); ; level++ {
		if int(level) == len(f.tails) {
			f.tails = append(f.tails, nil)
		}
		f.tails[level] = append(f.tails[level], node...)
		if len(f.tails[level]) < tileWidth*hashSize {
			break
		}
		tile := f.tails[level]
		if err := fill(tileID{level, f.size >> (tileHeight * (level + 1))}, tile); err != nil {
			return err
		}
		node = fold(tile)
		f.tails[level] = f.tails[level][:0]
	}
	f.size++
	return nil
}

// clone returns an independent copy.
func (f *frontier) clone() frontier {
	c := frontier{size: f.size, tails: make([][]byte, len(f.tails))}
	for i, tail := range f.tails {
		c.tails[i] = slices.Clone(tail)
	}
	return c
}

// check refuses tails that do not fit size.
func (f *frontier) check() error {
	for level := 0; level < len(f.tails) || f.size>>(tileHeight*level) > 0; level++ {
		want := int(f.size>>(tileHeight*level)) % tileWidth * hashSize
		got := 0
		if level < len(f.tails) {
			got = len(f.tails[level])
		}
		if got != want {
			return problem.New(problem.Damaged, "the log's head has %d bytes of level %d, want %d for %d leaves", got, level, want, f.size)
		}
	}
	return nil
}

// root is the tree's root; tails must be checked.
func (f *frontier) root() ([hashSize]byte, error) {
	var hashes [][]byte
	for _, id := range compact.RangeNodes(0, f.size, nil) {
		tail := f.tails[id.Level/tileHeight]
		hashes = append(hashes, within(tail, id))
	}
	return rootOf(f.size, hashes)
}

// rootOf is the root of the perfect trees that make up size leaves.
func rootOf(size uint64, hashes [][]byte) (root [hashSize]byte, err error) {
	if size == 0 {
		return [hashSize]byte(rfc6962.DefaultHasher.EmptyRoot()), nil
	}
	r, err := factory().NewRange(0, size, hashes)
	if err != nil {
		return root, problem.Wrap(problem.Damaged, err, "the log's head does not fit its size")
	}
	b, err := r.GetRootHash(nil)
	if err != nil {
		return root, problem.Wrap(problem.Internal, err, "the log's root")
	}
	return [hashSize]byte(b), nil
}

func factory() *compact.RangeFactory {
	return &compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}
}

// tileOf is the tile that determines a node.
func tileOf(id compact.NodeID) tileID {
	level := id.Level / tileHeight
	return tileID{level, id.Index << (id.Level % tileHeight) / tileWidth}
}

// within computes a node from its tile.
func within(tile []byte, id compact.NodeID) []byte {
	span := uint64(1) << (id.Level % tileHeight)
	first := id.Index * span % tileWidth
	return fold(tile[first*hashSize : (first+span)*hashSize])
}

// fold is the root of the perfect tree over a power of two of hashes.
func fold(hashes []byte) []byte {
	if len(hashes) == hashSize {
		return slices.Clone(hashes)
	}
	half := len(hashes) / 2
	return rfc6962.DefaultHasher.HashChildren(fold(hashes[:half]), fold(hashes[half:]))
}

func (t tileID) String() string { return fmt.Sprintf("tile %d of level %d", t.index, t.level) }

// Tree computes the log's root from its leaves one by one, in memory that grows
// with the logarithm of their number, for verifiers outside. The zero Tree is
// empty.
type Tree struct {
	over *compact.Range
}

// Add appends the leaf of an event.
func (t *Tree) Add(event identity.Hash) error {
	if t.over == nil {
		t.over = factory().NewEmptyRange(0)
	}
	return t.over.Append(hashLeaf(event), nil)
}

// Size is the number of leaves.
func (t *Tree) Size() uint64 {
	if t.over == nil {
		return 0
	}
	return t.over.End()
}

// Root is the root over the leaves so far.
func (t *Tree) Root() ([hashSize]byte, error) {
	if t.over == nil {
		return rootOf(0, nil)
	}
	return rootOf(t.over.End(), t.over.Hashes())
}
