package usage

import (
	"errors"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

var AllDocs = store.Shape{Name: "usage", Partition: "use#*", Sort: "*"}

const subjectPartition = "use#subject#"

// The documents contain usage by UTC hour or day, ordered by time.
var (
	// PaidDocs contains an account's payments per hour, vacant and caller.
	PaidDocs = store.DocKind[Hour]{
		Shape: store.Shape{Name: "usage of an account", Partition: "use#paid#*", Sort: "*#*#*", Owner: store.OwnedByAccount, Verify: store.VerifyWithRows},
		Codec: hourCodec,
	}
	// EarnedDocs contains the earnings of a tenant's vacants per hour and vacant.
	EarnedDocs = store.DocKind[Hour]{
		Shape: store.Shape{Name: "usage of vacants", Partition: "use#owned#*", Sort: "*#*", Owner: store.OwnedByTenant, Verify: store.VerifySkip},
		Codec: hourCodec,
	}
	// SubjectDocs contains an account's payments per hour and subject, which PaidDocs also
	// contains.
	SubjectDocs = store.DocKind[Hour]{
		Shape: store.Shape{Name: "usage of subjects", Partition: subjectPartition + "*", Sort: "*#*", Owner: store.OwnedByAccount, Verify: store.VerifySkip},
		Codec: hourCodec,
	}
	SpentDocs = store.DocKind[Day]{
		Shape: store.Shape{Name: "day of an account", Partition: "use#spent#*", Sort: "*", Owner: store.OwnedByAccount, Verify: store.VerifyWithRows},
		Codec: store.Codec[Day]{
			Decode: func(d store.Doc) (Day, error) {
				at, err := time.Parse(time.DateOnly, d.Key.Sort)
				return Day{at, money.Amount(d.Number)}, err
			},
			Encode: func(Day) ([]byte, error) { return nil, nil },
		},
	}
	// OffsetDocs contains the folded offset of each partition. Number is 1 if the partition has
	// ended.
	OffsetDocs = store.DocKind[string]{
		Shape: store.Shape{Name: "offset of the meter", Partition: "meter", Sort: "*", Verify: store.VerifySkip},
		Codec: store.TextCodec(),
	}
)

var countsCodec = store.JSONCodec[Counts](1)

var hourCodec = store.Codec[Hour]{
	Decode: func(d store.Doc) (h Hour, err error) {
		c, err := countsCodec.Decode(d)
		if err == nil {
			h, err = parseHour(d.Key)
		}
		h.Counts = c
		return h, err
	},
	Encode: func(h Hour) ([]byte, error) { return countsCodec.Encode(h.Counts) },
}

func parseHour(k store.Key) (h Hour, err error) {
	parts := strings.Split(k.Sort, "#")
	if len(parts) != 2 && len(parts) != 3 {
		return h, errors.New("its key is not the key of a usage document")
	}
	if h.Start, err = time.Parse(hourLayout, parts[0]); err != nil {
		return h, err
	}
	if strings.HasPrefix(k.Partition, subjectPartition) {
		h.Subject = parts[1]
		return h, nil
	}
	h.Vacant, err = identity.ParseID(parts[1])
	if err == nil && len(parts) == 3 {
		h.Caller, err = identity.ParseID(parts[2])
	}
	return h, err
}

func spentKey(account string, spentAt time.Time) store.Key {
	return SpentDocs.Key(account, spentAt.UTC().Format(time.DateOnly))
}

func kindOfKey(k store.Key) *store.DocKind[Hour] {
	switch {
	case isEarnedKey(k):
		return &EarnedDocs
	case strings.HasPrefix(k.Partition, subjectPartition):
		return &SubjectDocs
	}
	return &PaidDocs
}

func isEarnedKey(k store.Key) bool { return EarnedDocs.HasPartition(k.Partition) }

func isSpentKey(k store.Key) bool { return SpentDocs.HasPartition(k.Partition) }
