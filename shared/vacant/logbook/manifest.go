package logbook

import (
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// KindManifestTaken is the kind of an entry about a manifest that a vacant signed after its birth.
const KindManifestTaken = "MANIFEST_TAKEN"

func ManifestTakenPayload(manifest identity.Hash, parent identity.ID) []byte {
	return encodeObject(stringMember("manifest_hash", manifest.String()), stringMember("parent_id", parent.String()))
}
