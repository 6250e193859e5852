package logbook

import (
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// KindManifestTaken is the kind of an entry of a vacant that signs a manifest after its birth and so
// becomes a child, or a closed child.
const KindManifestTaken = "MANIFEST_TAKEN"

func ManifestTakenPayload(manifest identity.Hash, parent identity.ID) []byte {
	return object(stringMember("manifest_hash", manifest.String()), stringMember("parent_id", parent.String()))
}
