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
	BookingDocs = store.Kind[stored]{
		Shape:    store.Shape{Name: "booking", Partition: bookingPartition, Sort: "booking", Index: "bookings#*", Verify: store.VerifyWithRows},
		Codec:    store.JSONCodec[stored](1),
		KeyParts: func(b stored) []string { return []string{b.ID} },
	}
	// DetailsDocs contains the details, which expire 30 days after the booking's start or, without a
	// start, after the confirm.
	DetailsDocs = store.Kind[Details]{
		Shape: store.Shape{Name: "details of a booking", Partition: bookingPartition, Sort: "details", Verify: store.VerifyNot},
		Codec: store.JSONCodec[Details](1),
	}
	// EventDocs contains the usage events of an account, ordered by time.
	EventDocs = store.Kind[Event]{
		Shape: store.Shape{Name: "usage event", Partition: "bookevent#*", Sort: "*", Owner: store.OfAccount, Verify: store.VerifyWithRows},
		Codec: store.JSONCodec[Event](1),
	}
	// OnceDocs maps the idempotency keys of confirms to the bookings that they created. A document
	// key consists of the id of the account's key and the hash of the idempotency key.
	OnceDocs = store.Kind[confirmRecord]{
		Shape: store.Shape{Name: "idempotency key of a confirm", Partition: "bookidem#*", Sort: "*", Verify: store.VerifyNot},
		Codec: store.JSONCodec[confirmRecord](1),
	}
	// SlotDocs contains the number of guests per slot. A document key consists of the venue's id and
	// the slot's start.
	SlotDocs = store.Kind[int64]{
		Shape: store.Shape{Name: "slot", Partition: "slot-taken#*", Sort: "*", Owner: store.OfVacant, Verify: store.VerifyNot},
		Codec: store.Count(),
	}
	BreakerDocs = store.Kind[breaker]{
		Shape: store.Shape{Name: "breaker of a venue", Partition: "breaker#*", Sort: "breaker", Owner: store.OfVacant, Verify: store.VerifyNot},
		Codec: store.JSONCodec[breaker](1),
	}
	// CounterDocs contains the counters of AGP. A document key consists of the counter's name and its
	// labels in the Prometheus text format.
	CounterDocs = store.Kind[int64]{
		Shape: store.Shape{Name: "counter", Partition: "metric#*", Sort: "*", Verify: store.VerifyNot},
		Codec: store.Count(),
		CheckValue: func(d store.Doc, _ int64) error {
			if !strings.HasPrefix(d.Key.Sort, "{") {
				return problem.New(problem.Damaged, "the counter's key has no labels")
			}
			return nil
		},
	}
	// DueDocs contains the reminders of bookings. The value is the booking's id.
	DueDocs = store.Kind[string]{
		Shape: store.Shape{Name: "reminder of a booking", Partition: "bookdue#*#*", Sort: "*", Verify: store.VerifyNot},
		Codec: store.Text(),
	}
)

// rows is the codec of a booking's rows.
var rows = store.JSONCodec[Row](1)
