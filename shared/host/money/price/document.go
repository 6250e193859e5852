package price

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// format is the version of the stored form.
const format = 1

type stored struct {
	Format int `json:"format"`
	Price
}

const partition = "price#"

// IsKey reports whether k is the key of a version of a price.
func IsKey(k store.Key) bool { return strings.HasPrefix(k.Partition, partition) }

// Key is the key of a version of a vacant's price.
func Key(vacant identity.ID, version uint64) store.Key {
	return store.Key{Partition: partition + vacant.String(), Sort: fmt.Sprintf("%012d", version)}
}

// Encode returns the stored form.
func (p *Price) Encode() ([]byte, error) {
	b, err := json.Marshal(stored{format, *p})
	if err != nil {
		return nil, problem.Wrap(problem.Internal, err, "price")
	}
	return b, nil
}

// Decode reads a version of a vacant's price; the error is Damaged if it is missing.
func Decode(vacant identity.ID, version uint64, d store.Doc) (Price, error) {
	var s stored
	if d.Version == 0 {
		return s.Price, problem.New(problem.Damaged, "version %d of the price of %s is missing", version, vacant.Short())
	}
	if err := json.Unmarshal(d.Data, &s); err != nil || s.Format != format || s.Version != version || s.Check() != nil {
		return s.Price, problem.Wrap(problem.Damaged, err, "version %d of the price of %s is not readable", version, vacant.Short())
	}
	return s.Price, nil
}
