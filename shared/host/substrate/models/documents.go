package models

import (
	"encoding/json"
	"fmt"

	"github.com/vacancy-host/vacancy/shared/store"
)

const partition = "models"

// VersionDocs contains all versions that the operator has set, because the rows of calls refer to
// them.
var (
	CurrentDocs = store.DocKind[Table]{
		Shape: store.Shape{Name: "table of models", Partition: partition, Sort: "current", Verify: store.VerifyParse},
		Codec: tableCodec,
	}
	VersionDocs = store.DocKind[Table]{
		Shape: store.Shape{Name: "version of the table of models", Partition: partition, Sort: "*", Verify: store.VerifyParse},
		Codec: tableCodec,
	}
)

var tableCodec = store.Codec[Table]{
	Decode: func(d store.Doc) (t Table, err error) {
		if err = json.Unmarshal(d.Data, &t); err == nil && t.Version < 2 {
			err = fmt.Errorf("it has version %d", t.Version)
		}
		return t, err
	},
	Encode: func(t Table) ([]byte, error) { return t.Blob(), nil },
}
