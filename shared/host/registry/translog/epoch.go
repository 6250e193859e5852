package translog

import (
	"encoding/binary"
	"math/bits"

	"golang.org/x/crypto/blake2b"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Epoch is a sealed range of the log in the form of the reference implementation. Epochs that
// differ in TreeSize may have the same Root, so verifiers should trust checkpoints instead.
type Epoch struct {
	ID         uint64 // starts at 1
	FirstSeq   uint64
	LastSeq    uint64
	TreeSize   uint64 // number of leaves in the epoch
	Root       identity.Hash
	SealedAt   int64 // Unix milliseconds
	Signature  []byte
	Host       identity.ID
	Checkpoint Checkpoint // checkpoint of the log up to LastSeq
}

// epochDomain starts the bytes that a host signs for an epoch (PROTOCOL §19.3).
const epochDomain = "vacant:registry:epoch:"

func EpochBytes(root identity.Hash) []byte { return append([]byte(epochDomain), root[:]...) }

// EpochTree computes an epoch's root from its leaves without storing them. The leaves are padded
// with copies of the last leaf to a power of two.
type EpochTree struct {
	size         uint64
	lastNode     identity.Hash   // node of the last leaf
	perfectRoots []identity.Hash // roots of perfect trees, largest first, one per set bit of size
}

func (t *EpochTree) Add(eventHash identity.Hash) {
	node := epochLeaf(eventHash)
	t.lastNode = node
	for n := t.size; n&1 == 1; n >>= 1 {
		node = epochNode(t.perfectRoots[len(t.perfectRoots)-1], node)
		t.perfectRoots = t.perfectRoots[:len(t.perfectRoots)-1]
	}
	t.perfectRoots = append(t.perfectRoots, node)
	t.size++
}

func (t *EpochTree) Size() uint64 { return t.size }

func (t *EpochTree) Root() identity.Hash {
	if t.size == 0 {
		return identity.Sum([]byte{0})
	}
	// paddingRoot is the root of a perfect tree that contains only copies of the last leaf.
	paddingRoot, height := t.lastNode, 0
	remaining := t.perfectRoots
	root := remaining[len(remaining)-1]
	level := bits.TrailingZeros64(t.size)
	if t.size>>level == 1 {
		return root
	}
	for remaining = remaining[:len(remaining)-1]; ; {
		for ; height < level; height++ {
			paddingRoot = epochNode(paddingRoot, paddingRoot)
		}
		// root covers 2^level leaves.
		index := (t.size - 1) >> level
		if index&1 == 1 {
			root = epochNode(remaining[len(remaining)-1], root)
			remaining = remaining[:len(remaining)-1]
		} else {
			root = epochNode(root, paddingRoot)
		}
		level++
		if index>>1 == 0 {
			return root
		}
	}
}

func epochLeaf(eventHash identity.Hash) identity.Hash {
	var b [1 + identity.Size]byte
	copy(b[1:], eventHash[:])
	return blake2b.Sum256(b[:])
}

func epochNode(left, right identity.Hash) identity.Hash {
	var b [1 + 2*identity.Size]byte
	b[0] = 1
	copy(b[1:], left[:])
	copy(b[1+identity.Size:], right[:])
	return blake2b.Sum256(b[:])
}

// WitnessStatement returns the hash that a witness of the reference implementation signs (PROTOCOL
// §19.3).
func (e Epoch) WitnessStatement() identity.Hash {
	b := []byte("vacant:registry:epoch:witness")
	appendNumber := func(n uint64) { b = binary.BigEndian.AppendUint64(append(b, 0x1f), n) }
	for _, n := range []uint64{e.ID, e.FirstSeq, e.LastSeq, e.TreeSize} {
		appendNumber(n)
	}
	b = append(append(b, 0x1f), e.Root[:]...)
	appendNumber(uint64(e.SealedAt))
	return identity.Sum(b)
}
