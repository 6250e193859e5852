package booking

import (
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// bookingPartition contains the documents of a booking. The booking's id replaces the star.
const bookingPartition = KindBooking + "#*"

var (
	// BookingDocs contains the bookings. The index lists the bookings of a venue by their creation
	// time.
	BookingDocs = store.DocKind[storedBooking]{
		Shape:    store.Shape{Name: "booking", Partition: bookingPartition, Sort: "booking", Index: "bookings#*", Verify: store.VerifyWithRows},
		Codec:    store.JSONCodec[storedBooking](1),
		KeyParts: func(b storedBooking) []string { return []string{b.ID} },
	}
	// DetailsDocs contains the details, which expire 30 days after the booking's start or, without a
	// start, after the confirm.
	DetailsDocs = store.DocKind[Details]{
		Shape: store.Shape{Name: "details of a booking", Partition: bookingPartition, Sort: "details", Verify: store.VerifySkip},
		Codec: store.JSONCodec[Details](1),
	}
	// EventDocs contains the usage events of an account, ordered by time.
	EventDocs = store.DocKind[UsageEvent]{
		Shape: store.Shape{Name: "usage event", Partition: "bookevent#*", Sort: "*", Owner: store.OwnedByAccount, Verify: store.VerifyWithRows},
		Codec: store.JSONCodec[UsageEvent](1),
	}
	// ConfirmDocs maps the idempotency keys of confirms to the bookings that they created. A document
	// key consists of the id of the account's key and the hash of the idempotency key.
	ConfirmDocs = store.DocKind[confirmRecord]{
		Shape: store.Shape{Name: "idempotency key of a confirm", Partition: "bookidem#*", Sort: "*", Verify: store.VerifySkip},
		Codec: store.JSONCodec[confirmRecord](1),
	}
	// SlotDocs contains the number of guests per slot. A document key consists of the venue's id and
	// the slot's start.
	SlotDocs = store.DocKind[int64]{
		Shape: store.Shape{Name: "slot", Partition: "slot-taken#*", Sort: "*", Owner: store.OwnedByVacant, Verify: store.VerifySkip},
		Codec: store.CountCodec(),
	}
	BreakerDocs = store.DocKind[breaker]{
		Shape: store.Shape{Name: "breaker of a venue", Partition: "breaker#*", Sort: "breaker", Owner: store.OwnedByVacant, Verify: store.VerifySkip},
		Codec: store.JSONCodec[breaker](1),
	}
	// CounterDocs contains the counters of AGP. A document key consists of the counter's name and its
	// labels in the Prometheus text format.
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
	// DueDocs contains the reminders of bookings. The value is the booking's id.
	DueDocs = store.DocKind[string]{
		Shape: store.Shape{Name: "reminder of a booking", Partition: "bookdue#*#*", Sort: "*", Verify: store.VerifySkip},
		Codec: store.TextCodec(),
	}
)

// rowCodec is the codec of a booking's rows.
var rowCodec = store.JSONCodec[Row](1)
