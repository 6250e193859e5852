package logbook

import (
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// KindManifestTaken is the kind of the entry that a vacant gets when a manifest that it signed after
// its birth makes it a child or a closed child.
const KindManifestTaken = "MANIFEST_TAKEN"

func ManifestTakenPayload(manifest identity.Hash, parent identity.ID) []byte {
	return encodeObject(stringMember("manifest_hash", manifest.String()), stringMember("parent_id", parent.String()))
}
