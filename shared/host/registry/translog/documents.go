package translog

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const partition = "tlog"

var (
	HeadDocs = store.DocKind[head]{
		Shape: store.Shape{Name: "head of the log", Partition: partition, Sort: "head", Verify: store.VerifyWithRows},
		Codec: store.Codec[head]{Decode: decodeHead, Encode: encodeHead},
	}
	LeaseDocs = store.DocKind[lease]{
		Shape: store.Shape{Name: "lease of the log", Partition: partition, Sort: "lease", Verify: store.VerifySkip},
		Codec: store.JSONCodec[lease](1),
	}
	// TileDocs contains the complete tiles. The key is the level and the index.
	TileDocs = store.DocKind[[]byte]{
		Shape: store.Shape{Name: "tile", Partition: partition, Sort: "tile#*#*", Verify: store.VerifyWithRows},
		Codec: store.BytesCodec(),
		CheckValue: func(_ store.Doc, hashes []byte) error {
			if want := tileWidth * hashSize; len(hashes) != want {
				return problem.New(problem.Damaged, "it has %d bytes, want %d", len(hashes), want)
			}
			return nil
		},
	}
	CheckpointDocs = store.DocKind[storedCheckpoint]{
		Shape: store.Shape{Name: "checkpoint", Partition: partition, Sort: "cp#*", Verify: store.VerifyWithRows},
		Codec: store.JSONCodec[storedCheckpoint](1),
	}
	EpochDocs = store.DocKind[Epoch]{
		Shape: store.Shape{Name: "epoch", Partition: partition, Sort: "epoch#*", Verify: store.VerifyWithRows},
		Codec: store.Codec[Epoch]{Decode: decodeEpoch, Encode: encodeEpoch},
	}
	// CosignatureDocs has its own partition, because roles get permissions by partition. A role
	// that accepts cosignatures from strangers must not write the log.
	CosignatureDocs = store.DocKind[storedWitnesses]{
		Shape: store.Shape{Name: "list of cosignatures", Partition: "cosigned", Sort: "*", Verify: store.VerifyWithRows},
		Codec: store.JSONCodec[storedWitnesses](1),
	}
)

var (
	headCodec  = store.JSONCodec[storedHead](1)
	epochCodec = store.JSONCodec[storedEpoch](1)
)

func HeadKey() store.Key { return HeadDocs.Key() }

func tileKey(t tileID) store.Key {
	return TileDocs.Key(fmt.Sprintf("%02x", t.level), fmt.Sprintf("%014x", t.index))
}

func checkpointKey(size uint64) store.Key { return CheckpointDocs.Key(fmt.Sprintf("%016x", size)) }

func cosignaturesKey(size uint64) store.Key { return CosignatureDocs.Key(fmt.Sprintf("%016x", size)) }

func epochKey(id uint64) store.Key { return EpochDocs.Key(fmt.Sprintf("%08x", id)) }

type storedHead struct {
	Host         identity.ID   `json:"host"`
	Size         uint64        `json:"size"`
	Root         identity.Hash `json:"root"`
	LastLeaf     identity.Hash `json:"last"`
	EpochCount   uint64        `json:"epochs"`
	SealedAt     int64         `json:"sealed_ms"`
	PartialTiles [][]byte      `json:"tails"`
}

func encodeHead(h head) ([]byte, error) {
	// A nil and an empty partial tile must have the same stored bytes.
	partialTiles := slices.Clone(h.partialTiles)
	for i := range partialTiles {
		if len(partialTiles[i]) == 0 {
			partialTiles[i] = []byte{}
		}
	}
	return headCodec.Encode(storedHead{h.host, h.size, h.root, h.lastLeaf, h.epochCount, h.sealedAt, partialTiles})
}

func decodeHead(d store.Doc) (head, error) {
	s, err := headCodec.Decode(d)
	if err != nil {
		return head{}, err
	}
	h := head{
		frontier: frontier{s.Size, s.PartialTiles}, host: s.Host, root: s.Root, lastLeaf: s.LastLeaf,
		epochCount: s.EpochCount, sealedAt: s.SealedAt, version: d.Version,
	}
	if err := h.check(); err != nil {
		return head{}, err
	}
	// The next Seal computes the root that it signs from these hashes.
	root, err := h.frontier.root()
	if err == nil && root != h.root {
		err = errors.New("its hashes do not match its root")
	}
	return h, err
}

type storedEpoch struct {
	ID             uint64        `json:"id"`
	First          uint64        `json:"first"`
	Last           uint64        `json:"last"`
	Root           identity.Hash `json:"root"`
	SealedAt       int64         `json:"sealed_ms"`
	Signature      []byte        `json:"signature"`
	Host           identity.ID   `json:"host"`
	CheckpointRoot identity.Hash `json:"checkpoint_root"`
}

func encodeEpoch(e Epoch) ([]byte, error) {
	return epochCodec.Encode(storedEpoch{e.ID, e.FirstSeq, e.LastSeq, e.Root, e.SealedAt, e.Signature, e.Host, e.Checkpoint.Root})
}

func decodeEpoch(d store.Doc) (Epoch, error) {
	s, err := epochCodec.Decode(d)
	if err == nil && s.First > s.Last {
		err = problem.New(problem.Damaged, "it begins at event %d and ends at %d", s.First, s.Last)
	}
	return Epoch{
		ID: s.ID, FirstSeq: s.First, LastSeq: s.Last, TreeSize: s.Last - s.First + 1, Root: s.Root, SealedAt: s.SealedAt,
		Signature: s.Signature, Host: s.Host, Checkpoint: Checkpoint{s.Host, s.Last, s.CheckpointRoot},
	}, err
}
