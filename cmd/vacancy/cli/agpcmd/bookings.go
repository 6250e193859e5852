package agpcmd

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/agp"
	"github.com/vacancy-host/vacancy/shared/front/op"
	hostbooking "github.com/vacancy-host/vacancy/shared/host/booking"
	"github.com/vacancy-host/vacancy/shared/vacant/booking"
)

func BookingsCommand(a *kit.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bookings",
		Short: "Show bookings, and answer those of your venues",
		Long: `Show bookings, and answer those of your venues. Operators see all venues of their host.
With a key in $VACANCY_KEY a tenant sees the bookings that the key has made, and with --venue
those of a venue of the tenant.`,
		Example: "  vacancy bookings list --venue warung-sunset\n  vacancy bookings accept BOOKING\n  VACANCY_KEY=agnt_live_… vacancy bookings list",
		Args:    a.KnownCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(bookingsListCommand(a), bookingsShowCommand(a), bookingsCancelCommand(a))
	for _, one := range []struct {
		use, short string
		to         booking.State
	}{
		{"accept", "Accept a booking, for its venue", booking.Accepted},
		{"reject", "Reject a booking, for its venue", booking.Rejected},
		{"complete", "Say that a booking took place", booking.Completed},
		{"no-show", "Say that the guest of a booking did not come", booking.NoShow},
	} {
		cmd.AddCommand(bookingsMoveCommand(a, one.use, one.short, one.to))
	}
	return cmd
}

// withBookings runs f as the tenant of the key in the environment, or as the operator.
func withBookings(a *kit.App, ctx context.Context, w kit.Where, f func(c op.Client, operator bool) error) error {
	if a.Env[kit.AccountKeyEnv] != "" {
		c, err := agpClient(a, ctx, w, "")
		if err != nil {
			return err
		}
		return f(c, false)
	}
	return a.WithAdmin(w, false, func(c *kit.AdminAPI) error {
		return f(agp.Client{HTTP: c.HTTP, URL: c.URL}, true)
	})
}

// bookingsResult is bookings, the oldest first.
type bookingsResult struct {
	Bookings []agp.Booking `json:"bookings"`
}

func (r bookingsResult) Print(w io.Writer) {
	if len(r.Bookings) == 0 {
		fmt.Fprintln(w, "no bookings")
	}
	for i := range r.Bookings {
		b := &r.Bookings[i]
		at := "at once"
		if !b.Starts.IsZero() {
			at = b.Starts.Format("2006-01-02T15:04Z07:00")
		}
		fmt.Fprintf(w, "%s  %-9s  %s  %d at %s, from %s\n", kit.Printable(b.ID), kit.Printable(string(b.Status)), at, b.Party, kit.Printable(b.Slug), kit.Printable(b.From))
	}
}

func bookingsListCommand(a *kit.App) *cobra.Command {
	var w kit.Where
	var venue string
	cmd := &cobra.Command{
		Use: "list", Short: "List bookings", Example: "  vacancy bookings list --venue warung-sunset", Args: kit.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withBookings(a, cmd.Context(), w, func(c op.Client, operator bool) error {
				all := bookingsResult{Bookings: []agp.Booking{}}
				for cursor := ""; ; {
					page, err := agp.ListBookings.For(operator).Call(cmd.Context(), c, agp.BookingList{Venue: venue, Cursor: cursor})
					if err != nil {
						return err
					}
					all.Bookings = append(all.Bookings, page.Bookings...)
					if cursor = page.Next; cursor == "" {
						return a.Show(all)
					}
				}
			})
		},
	}
	cmd.Flags().StringVar(&venue, "venue", "", "those of a `VENUE`, by its slug or id")
	kit.HostFlags(cmd.Flags(), &w)
	return cmd
}

// bookingResult is a booking with its history.
type bookingResult agp.Booking

func (r bookingResult) Print(w io.Writer) {
	bookingsResult{[]agp.Booking{agp.Booking(r)}}.Print(w)
	for _, one := range []struct{ what, text string }{
		{"reason", r.Reason}, {"guest", string(r.Guest)}, {"notes", r.Notes}, {"input", string(r.Input)}, {"result", string(r.Result)}, {"venue's price", r.VenuePrice}, {"given back", r.Credited},
	} {
		if one.text != "" {
			fmt.Fprintf(w, "  %-11s %s\n", one.what, kit.Printable(one.text))
		}
	}
	for _, h := range r.History {
		why := ""
		if h.Reason != "" {
			why = ": " + h.Reason
		}
		what := string(h.To)
		if h.Kind == hostbooking.RowPaid {
			what = "venue paid"
		}
		fmt.Fprintf(w, "  %s  %-15s by %s%s\n", h.At.Format("2006-01-02T15:04:05Z07:00"), kit.Printable(what), kit.Printable(h.Actor), kit.Printable(why))
	}
}

func bookingsShowCommand(a *kit.App) *cobra.Command {
	var w kit.Where
	cmd := &cobra.Command{
		Use: "show BOOKING", Short: "Show a booking and its history", Example: "  vacancy bookings show BOOKING", Args: kit.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withBookings(a, cmd.Context(), w, func(c op.Client, operator bool) error {
				b, err := agp.GetBooking.For(operator).Call(cmd.Context(), c, agp.OneBooking{ID: args[0]})
				if err != nil {
					return err
				}
				return a.Show(bookingResult(b))
			})
		},
	}
	kit.HostFlags(cmd.Flags(), &w)
	return cmd
}

func bookingsMoveCommand(a *kit.App, use, short string, to booking.State) *cobra.Command {
	var w kit.Where
	var reason string
	cmd := &cobra.Command{
		Use: use + " BOOKING", Short: short, Example: "  vacancy bookings " + use + " BOOKING", Args: kit.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withBookings(a, cmd.Context(), w, func(c op.Client, operator bool) error {
				b, err := agp.MoveBooking.For(operator).Call(cmd.Context(), c, agp.Moving{OneBooking: agp.OneBooking{ID: args[0]}, Body: agp.Move{To: string(to), Reason: reason}})
				if err != nil {
					return err
				}
				return a.Show(bookingResult(b))
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the guest")
	kit.HostFlags(cmd.Flags(), &w)
	return cmd
}

func bookingsCancelCommand(a *kit.App) *cobra.Command {
	var w kit.Where
	cmd := &cobra.Command{
		Use: "cancel BOOKING", Short: "Cancel a booking that your key has made", Example: "  VACANCY_KEY=agnt_live_… vacancy bookings cancel BOOKING", Args: kit.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := agpClient(a, cmd.Context(), w, "")
			if err != nil {
				return err
			}
			b, err := agp.CancelBooking.Call(cmd.Context(), c, agp.Cancelling{OneBooking: agp.OneBooking{ID: args[0]}})
			if err != nil {
				return err
			}
			return a.Show(bookingResult(b))
		},
	}
	kit.HostFlags(cmd.Flags(), &w)
	return cmd
}
