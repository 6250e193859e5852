package price

import (
	"context"
	"errors"
	"fmt"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

var VersionDocs = store.DocKind[Price]{
	Shape: store.Shape{Name: "version of a price", Partition: "price#*", Sort: "*", Owner: store.OwnedByVacant, Verify: store.VerifyParse},
	Codec: store.JSONCodec[Price](1),
	CheckValue: func(d store.Doc, p Price) error {
		if formatVersion(p.Version) != d.Key.Sort {
			return errors.New("it is another version")
		}
		return p.Check()
	},
}

func formatVersion(version uint64) string { return fmt.Sprintf("%012d", version) }

func VersionKey(vacant identity.ID, version uint64) store.Key {
	return VersionDocs.Key(vacant.String(), formatVersion(version))
}

func Get(ctx context.Context, r store.Reader, vacant identity.ID, version uint64) (Price, error) {
	p, _, err := VersionDocs.Require(ctx, r, VersionKey(vacant, version))
	return p, err
}
