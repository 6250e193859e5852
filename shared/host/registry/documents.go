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
	// vacantPartition has what a vacant has registered: its id is the star.
	vacantPartition  = "reg#*"
	manifestSort     = "manifest"
	revokedPartition = "revoked"
)

// The documents of a registry.
var (
	// RegistrationDocs are the registrations. The index lists them by their last change: it is
	// the feed of a search index.
	RegistrationDocs = store.Kind[Registration]{
		Shape: store.Shape{Name: "registration", Partition: vacantPartition, Sort: "card", Index: "registry", Of: store.OfVacant, Verify: store.Joined},
		Codec: store.Codec[Registration]{Decode: decodeRegistration, Encode: encodeRegistration},
	}
	// ManifestDocs are the manifests of children. The index lists the manifests of a parent's
	// children: graduated children first, then the latest.
	ManifestDocs = store.Kind[ManifestDocument]{
		Shape: store.Shape{Name: "manifest", Partition: vacantPartition, Sort: manifestSort, Index: "children#*", Of: store.OfVacant, Verify: store.Joined},
		Codec: store.Codec[ManifestDocument]{Decode: decodeManifest, Encode: encodeManifest},
	}
	// OpenedDocs are written by Graduate beside the manifests of children. They have a
	// partition of their own, so that a role that may write manifests opens no child.
	OpenedDocs = store.Kind[opening]{
		Shape: store.Shape{Name: "opening of a child", Partition: "opened#*", Sort: manifestSort, Of: store.OfVacant, Verify: store.Joined},
		Codec: store.JSON[opening](1),
	}
	// KinDocs are the edges from parents to their children.
	KinDocs = store.Kind[struct{}]{
		Shape: store.Shape{Name: "edge", Partition: "kin#*", Sort: "*", Of: store.OfVacant, Verify: store.Joined},
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
	RevokedDocs = store.Kind[Revoked]{
		Shape: store.Shape{Name: "revocation", Partition: revokedPartition, Sort: "*", Verify: store.Joined},
		Codec: store.Codec[Revoked]{
			Decode: func(d store.Doc) (Revoked, error) {
				v, err := revocations.Decode(d)
				if err == nil {
					v.ID, err = identity.ParseID(d.Key.Sort)
				}
				return v, err
			},
			Encode: revocations.Encode,
		},
	}
	// RevokedListDocs has the list of all revocations. Its key sorts before all ids.
	RevokedListDocs = store.Kind[RevokedList]{
		Shape: store.Shape{Name: "list of revocations", Partition: revokedPartition, Sort: "#all", Verify: store.Joined},
		Codec: store.Codec[RevokedList]{
			Decode: decodeRevokedList,
			Encode: func(l RevokedList) ([]byte, error) { return l, nil },
		},
	}
	// UnreachedDocs are the endpoints that wait for a probe: when it is due, the vacant's id,
	// and the seq of the publication.
	UnreachedDocs = store.Kind[wait]{
		Shape: store.Shape{Name: "endpoint that waits", Partition: "unreached", Sort: "*#*#*", Verify: store.Unread},
		Codec: store.Codec[wait]{Decode: decodeWait, Encode: waits.Encode},
	}
	// SlugDocs are the claims of slugs. The text is the id of the vacant that claimed the slug last,
	// which keeps others from it also after its listing has another slug. Earlier programs stored ""
	// for a slug that was given up.
	SlugDocs = store.Kind[string]{
		Shape: store.Shape{Name: "claim of a slug", Partition: "slug#*", Sort: "venue", Verify: store.Joined},
		Codec: store.Text(),
	}
	// VenueCountDocs has the number of listed vacants.
	VenueCountDocs = store.Kind[int64]{
		Shape: store.Shape{Name: "count of venues", Partition: "venues", Sort: "count", Verify: store.Joined},
		Codec: store.Count(),
	}
)

// format begins the documents that are not JSON.
const format = 1

// The JSON of documents whose keys have a part of what they hold.
var (
	registrations = store.JSON[storedRegistration](1)
	manifests     = store.JSON[storedManifest](1)
	revocations   = store.JSON[Revoked](1)
	waits         = store.JSON[wait](1)
)

// RegistrationKey is the key of id's registration.
func RegistrationKey(id identity.ID) store.Key { return RegistrationDocs.Key(id.String()) }

// ManifestKey is the key of child's manifest.
func ManifestKey(child identity.ID) store.Key { return ManifestDocs.Key(child.String()) }

// OpenedKey is the key of what Graduate writes beside child's manifest.
func OpenedKey(child identity.ID) store.Key { return OpenedDocs.Key(child.String()) }

// KinKey is the key of the edge from a parent to its child.
func KinKey(parent, child identity.ID) store.Key {
	return KinDocs.Key(parent.String(), child.String())
}

// RevokedKey is the key of id's revocation.
func RevokedKey(id identity.ID) store.Key { return RevokedDocs.Key(id.String()) }

// RevokedListKey is the key of the list of all revocations.
func RevokedListKey() store.Key { return RevokedListDocs.Key() }

// SlugKey is the key of the claim of a slug.
func SlugKey(slug string) store.Key { return SlugDocs.Key(slug) }

// VenueCountKey is the key of the number of listed vacants.
func VenueCountKey() store.Key { return VenueCountDocs.Key() }

// key is the key of an endpoint whose probe is due at a time.
func (w wait) key(due time.Time) store.Key {
	return UnreachedDocs.Key(ChangeKeyAt(due), w.id.String(), strconv.FormatUint(w.seq, 16))
}

// vacantOf returns the id in a partition that ends in one.
func vacantOf(k store.Key) (identity.ID, error) {
	_, digits, _ := strings.Cut(k.Partition, "#")
	id, err := identity.ParseID(digits)
	if err != nil {
		return id, fmt.Errorf("its key has no id: %w", err)
	}
	return id, nil
}
