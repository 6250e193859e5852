package booking

import (
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// bookingPartition has what belongs to a booking: its id is the star.
const bookingPartition = KindBooking + "#*"

// The documents of bookings and of AGP.
var (
	// BookingDocs are the bookings. The index lists the bookings of a venue by
	// their time.
	BookingDocs = store.Kind[stored]{
		Shape: store.Shape{Name: "booking", Partition: bookingPartition, Sort: "booking", Index: "bookings#*", Verify: store.Joined},
		Codec: store.JSON[stored](1),
		Own:   func(b stored) []string { return []string{b.ID} },
	}
	// DetailsDocs are deleted 30 days after the booking's start.
	DetailsDocs = store.Kind[Details]{
		Shape: store.Shape{Name: "details of a booking", Partition: bookingPartition, Sort: "details", Verify: store.Unread},
		Codec: store.JSON[Details](1),
	}
	// EventDocs are the usage events of an account, by their time.
	EventDocs = store.Kind[Event]{
		Shape: store.Shape{Name: "usage event", Partition: "bookevent#*", Sort: "*", Of: store.OfAccount, Verify: store.Joined},
		Codec: store.JSON[Event](1),
	}
	// OnceDocs are the confirms that idempotency keys made: the key of the account, and the
	// hash of the idempotency key.
	OnceDocs = store.Kind[once]{
		Shape: store.Shape{Name: "idempotency key of a confirm", Partition: "bookidem#*", Sort: "*", Verify: store.Unread},
		Codec: store.JSON[once](1),
	}
	// SlotDocs count the guests in a venue's slots: the venue's id, and the slot's start.
	SlotDocs = store.Kind[int64]{
		Shape: store.Shape{Name: "slot", Partition: "slot-taken#*", Sort: "*", Of: store.OfVacant, Verify: store.Unread},
		Codec: store.Count(),
	}
	BreakerDocs = store.Kind[breaker]{
		Shape: store.Shape{Name: "breaker of a venue", Partition: "breaker#*", Sort: "breaker", Of: store.OfVacant, Verify: store.Unread},
		Codec: store.JSON[breaker](1),
	}
	// CounterDocs are the counters of AGP: the name, and the labels as Prometheus writes them.
	CounterDocs = store.Kind[int64]{
		Shape: store.Shape{Name: "counter", Partition: "metric#*", Sort: "*", Verify: store.Unread},
		Codec: store.Count(),
		Valid: func(d store.Doc, _ int64) error {
			if !strings.HasPrefix(d.Key.Sort, "{") {
				return problem.New(problem.Damaged, "its labels are none")
			}
			return nil
		},
	}
	// DueDocs are the reminders of bookings: the text is the id.
	DueDocs = store.Kind[string]{
		Shape: store.Shape{Name: "reminder of a booking", Partition: "bookdue#*#*", Sort: "*", Verify: store.Unread},
		Codec: store.Text(),
	}
)

// rows is how the rows of a booking are stored.
var rows = store.JSON[Row](1)
