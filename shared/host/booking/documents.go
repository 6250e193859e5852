package booking

import (
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

const bookingPartition = KindBooking + "#*"

var (
	// The index of BookingDocs lists a venue's bookings by creation time.
	BookingDocs = store.DocKind[storedBooking]{
		Shape:    store.Shape{Name: "booking", Partition: bookingPartition, Sort: "booking", Index: "bookings#*", Verify: store.VerifyWithRows},
		Codec:    store.JSONCodec[storedBooking](1),
		KeyParts: func(b storedBooking) []string { return []string{b.ID} },
	}
	DetailsDocs = store.DocKind[Details]{
		Shape: store.Shape{Name: "details of a booking", Partition: bookingPartition, Sort: "details", Verify: store.VerifySkip},
		Codec: store.JSONCodec[Details](1),
	}
	EventDocs = store.DocKind[UsageEvent]{
		Shape: store.Shape{Name: "usage event", Partition: "bookevent#*", Sort: "*", Owner: store.OwnedByAccount, Verify: store.VerifyWithRows},
		Codec: store.JSONCodec[UsageEvent](1),
	}
	// The keys of ConfirmDocs contain a key id and a hashed idempotency key.
	ConfirmDocs = store.DocKind[confirmRecord]{
		Shape: store.Shape{Name: "idempotency key of a confirm", Partition: "bookidem#*", Sort: "*", Verify: store.VerifySkip},
		Codec: store.JSONCodec[confirmRecord](1),
	}
	// SlotDocs contains the number of guests by venue and start.
	SlotDocs = store.DocKind[int64]{
		Shape: store.Shape{Name: "slot", Partition: "slot-taken#*", Sort: "*", Owner: store.OwnedByVacant, Verify: store.VerifySkip},
		Codec: store.CountCodec(),
	}
	BreakerDocs = store.DocKind[breaker]{
		Shape: store.Shape{Name: "breaker of a venue", Partition: "breaker#*", Sort: "breaker", Owner: store.OwnedByVacant, Verify: store.VerifySkip},
		Codec: store.JSONCodec[breaker](1),
	}
	// CounterDocs contains counters by name and labels in the Prometheus text format.
	CounterDocs = store.DocKind[int64]{
		Shape: store.Shape{Name: "counter", Partition: "metric#*", Sort: "*", Verify: store.VerifySkip},
		Codec: store.CountCodec(),
		CheckValue: func(d store.Doc, _ int64) error {
			if !strings.HasPrefix(d.Key.Sort, "{") {
				return problem.New(problem.Damaged, "the counter's key has no labels")
			}
			return nil
		},
	}
	DueDocs = store.DocKind[string]{
		Shape: store.Shape{Name: "reminder of a booking", Partition: "bookdue#*#*", Sort: "*", Verify: store.VerifySkip},
		Codec: store.TextCodec(),
	}
)

var rowCodec = store.JSONCodec[Row](1)
