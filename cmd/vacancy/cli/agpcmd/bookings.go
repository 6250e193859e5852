package agpcmd

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/agp"
	"github.com/vacancy-host/vacancy/shared/front/op"
	hostbooking "github.com/vacancy-host/vacancy/shared/host/booking"
	"github.com/vacancy-host/vacancy/shared/vacant/booking"
)

func bookingsCommand(a *kit.App) *cobra.Command {
	var venue string
	list := kit.Operation[agp.BookingsRequest, agp.Bookings]{
		Use:     "list",
		Short:   "List bookings",
		Example: "  vacancy bookings list --venue warung-sunset",
		Op:      agp.ListBookings.For(isOperator(a)),
		API:     &bookingsAPI{},
		AddFlags: func(fs *pflag.FlagSet) {
			fs.StringVar(&venue, "venue", "", "show only the bookings of this `VENUE`, named by its slug or id")
		},
		Request: func(kit.Request) (agp.BookingsRequest, error) { return agp.BookingsRequest{Venue: venue}, nil },
		AppendPage: func(in *agp.BookingsRequest, result *agp.Bookings, page agp.Bookings) bool {
			result.Bookings, in.Cursor = append(result.Bookings, page.Bookings...), page.Next
			return page.Next != ""
		},
		JSONObject: func(result agp.Bookings) any {
			return map[string]any{"bookings": append([]agp.Booking{}, result.Bookings...)} // encodes as [] if empty
		},
		Print: printBookings,
	}.Command(a)
	cmd := a.ParentCommand(&cobra.Command{
		Use:   "bookings",
		Short: "Show bookings, and answer bookings of your venues",
		Long: `Show bookings, and answer bookings of your venues. "vacancy bookings" lists them.

An operator answers for all venues of the host. A tenant uses a key in $VACANCY_KEY. The key
sees the bookings that it has made. If --venue names a venue of the tenant, the key sees the
bookings of that venue. A key with the scope manage also sees and cancels the bookings of the
account's other keys, and answers for the venues of the tenant.`,
		Example: "  vacancy bookings\n  vacancy bookings list --venue warung-sunset\n  vacancy bookings accept BOOKING\n  VACANCY_KEY=agnt_live_… vacancy bookings list",
	},
		list,
		kit.Operation[agp.BookingRef, agp.Booking]{
			Use:     "show BOOKING",
			Short:   "Show a booking and its history",
			Example: "  vacancy bookings show BOOKING",
			Op:      agp.GetBooking.For(isOperator(a)),
			API:     &bookingsAPI{},
			Request: func(q kit.Request) (agp.BookingRef, error) { return agp.BookingRef{ID: q.Args[0]}, nil },
			Print:   printBooking,
		}.Command(a),
		kit.Operation[agp.CancelRequest, agp.Booking]{
			Use:     "cancel BOOKING",
			Short:   "Cancel a booking that your key has made",
			Example: "  VACANCY_KEY=agnt_live_… vacancy bookings cancel BOOKING",
			Op:      agp.CancelBooking,
			API:     &bookingsAPI{},
			Request: func(q kit.Request) (in agp.CancelRequest, err error) {
				if isOperator(a) {
					err = missingTierKeyError()
				}
				in.ID = q.Args[0]
				return in, err
			},
			Print: printBooking,
		}.Command(a),
		bookingsMoveCommand(a, "accept", "Accept a booking, for its venue", booking.Accepted),
		bookingsMoveCommand(a, "reject", "Reject a booking, for its venue", booking.Rejected),
		bookingsMoveCommand(a, "complete", "Mark a booking as completed", booking.Completed),
		bookingsMoveCommand(a, "no-show", "Record that the guest did not come", booking.NoShow),
	)
	cmd.Flags().AddFlagSet(list.Flags())
	cmd.RunE = list.RunE
	return cmd
}

// bookingsAPI is the API for bookings. The client acts for the tenant of the key in the
// environment, or for the operator if the environment has no key.
type bookingsAPI struct{ kit.HostAPI }

func (b *bookingsAPI) WithClient(ctx context.Context, a *kit.App, _ kit.Request, f func(op.Client) error) error {
	if isOperator(a) {
		return a.WithAdmin(b.Where, false, func(c *kit.AdminAPI) error {
			if c.InProcess {
				return a.NoHostError(b.Where.Data)
			}
			return f(agp.Client{HTTP: c.HTTP, URL: c.URL})
		})
	}
	c, err := newAGPClient(a, ctx, b.Where, "")
	if err != nil {
		return err
	}
	return f(c)
}

func isOperator(a *kit.App) bool { return a.Env[kit.AccountKeyEnv] == "" }

func printBookings(w io.Writer, list agp.Bookings) {
	kit.PrintTable(w, "no bookings", list.Bookings, func(b agp.Booking) []any {
		start := "at once"
		if !b.Start.IsZero() {
			start = b.Start.Format("2006-01-02T15:04Z07:00")
		}
		return []any{b.ID, b.Status, start, fmt.Sprintf("%d at %s, from %s", b.PartySize, b.Slug, b.From)}
	})
}

func printBooking(w io.Writer, r agp.Booking) {
	printBookings(w, agp.Bookings{Bookings: []agp.Booking{r}})
	kit.PrintFields(w, "reason", r.Reason, "guest", string(r.Guest), "notes", r.Notes, "input", string(r.Input), "result", string(r.Result),
		"answer cut", r.CutReason, "venue's price", r.VenuePrice, "refunded", r.Refunded)
	for _, h := range r.History {
		event := string(h.To)
		if h.Kind == hostbooking.RowPaid {
			event = "venue paid"
		}
		fmt.Fprintf(w, "  %s  %-15s by %s%s\n", h.Time.Format("2006-01-02T15:04:05Z07:00"), kit.EscapeLine(event), kit.EscapeLine(h.Actor), kit.EscapeLine(kit.FormatIf(h.Reason != "", ": %s", h.Reason)))
	}
}

func bookingsMoveCommand(a *kit.App, use, short string, state booking.State) *cobra.Command {
	var reason string
	return kit.Operation[agp.MoveRequest, agp.Booking]{
		Use:      use + " BOOKING",
		Short:    short,
		Example:  "  vacancy bookings " + use + " BOOKING",
		Op:       agp.MoveBooking.For(isOperator(a)),
		API:      &bookingsAPI{},
		AddFlags: func(fs *pflag.FlagSet) { fs.StringVar(&reason, "reason", "", "the reason, for the guest") },
		Request: func(q kit.Request) (agp.MoveRequest, error) {
			return agp.MoveRequest{BookingRef: agp.BookingRef{ID: q.Args[0]}, Body: agp.Move{To: string(state), Reason: reason}}, nil
		},
		Print: printBooking,
	}.Command(a)
}
