package callstats

import (
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

var CallsDocs = store.Kind[Calls]{
	Shape: store.Shape{Name: "call statistics", Partition: "obs#*", Sort: "calls", Owner: store.OfVacant, Verify: store.VerifyNot},
	Codec: store.Codec[Calls]{
		Decode: func(d store.Doc) (Calls, error) { return decode(d.Data) },
		Encode: func(c Calls) ([]byte, error) { return c.encode(), nil },
	},
}

func Key(id identity.ID) store.Key { return CallsDocs.Key(id.String()) }
