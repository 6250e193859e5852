package logbook

import (
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// KindManifestTaken is the kind of the entry about a manifest that a vacant signed after its birth.
// The manifest makes the vacant a child or a closed child.
const KindManifestTaken = "MANIFEST_TAKEN"

func ManifestTakenPayload(manifest identity.Hash, parent identity.ID) []byte {
	return encodeObject(stringMember("manifest_hash", manifest.String()), stringMember("parent_id", parent.String()))
}
