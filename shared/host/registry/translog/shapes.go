package translog

import (
	"encoding/hex"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// InclusionShape is the JSON of GET /v1/proof/inclusion.
type InclusionShape struct {
	Seq   uint64        `json:"seq"`
	Leaf  identity.Hash `json:"event_hash_hex"`
	Size  uint64        `json:"tree_size"`
	Root  identity.Hash `json:"root_hash_hex"`
	Proof []string      `json:"proof"` // hex, from the leaf upward
}

// ConsistencyShape is the JSON of GET /v1/proof/consistency.
type ConsistencyShape struct {
	From     uint64        `json:"from"`
	FromRoot identity.Hash `json:"from_root_hex"`
	To       uint64        `json:"to"`
	ToRoot   identity.Hash `json:"to_root_hex"`
	Proof    []string      `json:"proof"`
}

// LeavesShape is the JSON of GET /v1/log/leaves.
type LeavesShape struct {
	From   uint64          `json:"from"`
	Leaves []identity.Hash `json:"event_hashes_hex"`
}

// EpochShape is the JSON of GET /v1/epoch/{n}.
type EpochShape struct {
	ID             uint64        `json:"epoch_id"`
	First          uint64        `json:"first_seq"`
	Last           uint64        `json:"last_seq"`
	TreeSize       uint64        `json:"tree_size"`
	Root           identity.Hash `json:"root_hash_hex"`
	SealedAt       int64         `json:"sealed_at"`
	Signature      string        `json:"registry_signature_hex"`
	Host           identity.ID   `json:"registry_pubkey_hex"`
	CheckpointSize uint64        `json:"checkpoint_size"`
	CheckpointRoot identity.Hash `json:"checkpoint_root_hex"`
}

// WitnessShape is the JSON body of POST /v1/witness. It contains a signed note.
type WitnessShape struct {
	Note string `json:"note" canon:"required"`
}

// WitnessedShape is the answer to POST /v1/witness.
type WitnessedShape struct {
	Size         uint64        `json:"tree_size"`
	Root         identity.Hash `json:"root_hash_hex"`
	Cosignatures int           `json:"cosignatures"`
}

func (i Inclusion) Shape() InclusionShape {
	return InclusionShape{i.Seq, i.Leaf, i.Tree.Size, i.Tree.Root, i.hex()}
}

func (c Consistency) Shape() ConsistencyShape {
	return ConsistencyShape{c.From.Size, c.From.Root, c.To.Size, c.To.Root, c.hex()}
}

func (e Epoch) Shape() EpochShape {
	return EpochShape{
		ID: e.ID, First: e.FirstSeq, Last: e.LastSeq, TreeSize: e.TreeSize, Root: e.Root, SealedAt: e.SealedAt,
		Signature: hex.EncodeToString(e.Signature), Host: e.Host,
		CheckpointSize: e.Checkpoint.Size, CheckpointRoot: e.Checkpoint.Root,
	}
}

func (p PublishedCheckpoint) Shape() WitnessedShape {
	return WitnessedShape{p.Size, p.Root, p.CosignatureCount}
}

func (p Proof) hex() []string {
	list := make([]string, len(p)) // a proof without nodes is [] and not null
	for i := range p {
		list[i] = hex.EncodeToString(p[i])
	}
	return list
}

func ParseProof(list []string) (Proof, error) {
	p := make(Proof, len(list))
	for i, s := range list {
		h, err := identity.ParseHash(s)
		if err != nil {
			return nil, problem.Wrap(problem.Untrusted, err, "node %d of the proof is not a hash", i)
		}
		p[i] = h[:]
	}
	return p, nil
}
