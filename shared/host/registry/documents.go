package registry

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const (
	vacantPartition  = "reg#*"
	manifestSort     = "manifest"
	revokedPartition = "revoked"
)

var (
	RegistrationDocs = store.DocKind[Registration]{
		Shape: store.Shape{Name: "registration", Partition: vacantPartition, Sort: "card", Index: "registry", Owner: store.OwnedByVacant, Verify: store.VerifyWithRows},
		Codec: store.Codec[Registration]{Decode: decodeRegistration, Encode: encodeRegistration},
	}
	ManifestDocs = store.DocKind[ManifestDocument]{
		Shape: store.Shape{Name: "manifest", Partition: vacantPartition, Sort: manifestSort, Index: "children#*", Owner: store.OwnedByVacant, Verify: store.VerifyWithRows},
		Codec: store.Codec[ManifestDocument]{Decode: decodeManifest, Encode: encodeManifest},
	}
	// OpeningDocs has its own partition, because roles get permissions by partition. A role that
	// may write manifests must not open children.
	OpeningDocs = store.DocKind[openingDocument]{
		Shape: store.Shape{Name: "opening of a child", Partition: "opened#*", Sort: manifestSort, Owner: store.OwnedByVacant, Verify: store.VerifyWithRows},
		Codec: store.JSONCodec[openingDocument](1),
	}
	ChildEdgeDocs = store.DocKind[struct{}]{
		Shape: store.Shape{Name: "edge", Partition: "kin#*", Sort: "*", Owner: store.OwnedByVacant, Verify: store.VerifyWithRows},
		Codec: store.Codec[struct{}]{
			Decode: func(d store.Doc) (struct{}, error) {
				if len(d.Data) != 1 || d.Data[0] != format {
					return struct{}{}, problem.New(problem.Damaged, "it is not the byte %d", format)
				}
				return struct{}{}, nil
			},
			Encode: func(struct{}) ([]byte, error) { return []byte{format}, nil },
		},
	}
	RevokedDocs = store.DocKind[RevocationRecord]{
		Shape: store.Shape{Name: "revocation", Partition: revokedPartition, Sort: "*", Verify: store.VerifyWithRows},
		Codec: store.Codec[RevocationRecord]{
			Decode: func(d store.Doc) (RevocationRecord, error) {
				v, err := revocationCodec.Decode(d)
				if err == nil {
					v.ID, err = identity.ParseID(d.Key.Sort)
				}
				return v, err
			},
			Encode: revocationCodec.Encode,
		},
	}
	RevokedListDocs = store.DocKind[RevokedList]{
		Shape: store.Shape{Name: "list of revocations", Partition: revokedPartition, Sort: "#all", Verify: store.VerifyWithRows},
		Codec: store.Codec[RevokedList]{
			Decode: decodeRevokedList,
			Encode: func(l RevokedList) ([]byte, error) { return l, nil },
		},
	}
	PendingProbeDocs = store.DocKind[pendingProbe]{
		Shape: store.Shape{Name: "endpoint to probe", Partition: "unreached", Sort: "*#*#*", Verify: store.VerifySkip},
		Codec: store.Codec[pendingProbe]{Decode: decodePendingProbe, Encode: pendingProbeCodec.Encode},
	}
	// SlugDocs contains the vacant that claimed a slug last. Earlier versions of the program stored
	// "" for a released slug.
	SlugDocs = store.DocKind[string]{
		Shape: store.Shape{Name: "claim of a slug", Partition: "slug#*", Sort: "venue", Verify: store.VerifyWithRows},
		Codec: store.TextCodec(),
	}
	ListedCountDocs = store.DocKind[int64]{
		Shape: store.Shape{Name: "count of venues", Partition: "venues", Sort: "count", Verify: store.VerifyWithRows},
		Codec: store.CountCodec(),
	}
)

const format = 1

var (
	registrationCodec = store.JSONCodec[storedRegistration](1)
	manifestCodec     = store.JSONCodec[storedManifest](1)
	revocationCodec   = store.JSONCodec[RevocationRecord](1)
	pendingProbeCodec = store.JSONCodec[pendingProbe](1)
)

func RegistrationKey(id identity.ID) store.Key { return RegistrationDocs.Key(id.String()) }

func ManifestKey(child identity.ID) store.Key { return ManifestDocs.Key(child.String()) }

func OpeningKey(child identity.ID) store.Key { return OpeningDocs.Key(child.String()) }

func ChildEdgeKey(parent, child identity.ID) store.Key {
	return ChildEdgeDocs.Key(parent.String(), child.String())
}

func RevokedKey(id identity.ID) store.Key { return RevokedDocs.Key(id.String()) }

func RevokedListKey() store.Key { return RevokedListDocs.Key() }

func SlugKey(slug string) store.Key { return SlugDocs.Key(slug) }

func ListedCountKey() store.Key { return ListedCountDocs.Key() }

func (p pendingProbe) key(due time.Time) store.Key {
	return PendingProbeDocs.Key(FormatChangeKey(due), p.id.String(), strconv.FormatUint(p.seq, 16))
}

func parseVacantID(k store.Key) (identity.ID, error) {
	_, digits, _ := strings.Cut(k.Partition, "#")
	id, err := identity.ParseID(digits)
	if err != nil {
		return id, fmt.Errorf("its key has no id: %w", err)
	}
	return id, nil
}
