package logbook

import (
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// KindManifest is the kind of an entry of a vacant that signs a manifest after its birth and so
// becomes a child, or a closed child.
const KindManifest = "MANIFEST_TAKEN"

func ManifestTaken(manifest identity.Hash, parent identity.ID) []byte {
	return object(text("manifest_hash", manifest.String()), text("parent_id", parent.String()))
}
