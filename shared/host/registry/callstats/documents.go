package callstats

import (
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

var CallsDocs = store.DocKind[Calls]{
	Shape: store.Shape{Name: "call statistics", Partition: "obs#*", Sort: "calls", Owner: store.OwnedByVacant, Verify: store.VerifySkip},
	Codec: store.Codec[Calls]{
		Decode: func(d store.Doc) (Calls, error) { return decode(d.Data) },
		Encode: func(c Calls) ([]byte, error) { return c.encode(), nil },
	},
}

func CallsKey(id identity.ID) store.Key { return CallsDocs.Key(id.String()) }
