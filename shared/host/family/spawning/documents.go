package spawning

import (
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

var SpawnsDocs = store.DocKind[storedRequests]{
	Shape: store.Shape{Name: "list of requests for children", Partition: "v#*", Sort: "spawns", Owner: store.OwnedByVacant, Verify: store.VerifyParse},
	Codec: store.JSONCodec[storedRequests](1),
}

func Key(parent identity.ID) store.Key { return SpawnsDocs.Key(parent.String()) }
