package logbook

import (
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// KindManifest is the kind of the entry of a vacant that becomes a child, or a
// closed child, by a manifest that it signed after its birth.
const KindManifest = "MANIFEST_TAKEN"

// ManifestTaken is the payload with the manifest and the parent.
func ManifestTaken(manifest identity.Hash, parent identity.ID) []byte {
	return object(text("manifest_hash", manifest.String()), text("parent_id", parent.String()))
}
