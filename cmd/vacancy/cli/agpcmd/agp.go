// Package agpcmd has the commands about bookings and AGP.
package agpcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/front/agp"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Group is the commands about bookings.
var Group = kit.Group{
	Topic: "venues",
	Title: "Bookings:",
	Commands: func(a *kit.App) []*cobra.Command {
		return []*cobra.Command{
			agpCommand(a), bookingsCommand(a), listingCommand(a),
		}
	},
}

func agpCommand(a *kit.App) *cobra.Command {
	return a.Parent(&cobra.Command{
		Use:   "agp",
		Short: "Find and book venues by AGP, the protocol of AGNT",
		Long: `Find and book venues at a host by AGP, the protocol of AGNT at /a2a/v1. The key in
$VACANCY_KEY needs a tier ("vacancy keys create --tier"). A booking costs money and needs the
tier pro or enterprise; everything else is free.`,
		Example: "  vacancy agp ping\n  vacancy agp search \"sunset dinner\" --location canggu\n  vacancy agp confirm warung-sunset --at 2026-12-24T19:00:00+08:00 --party 2",
	}, agpPingCommand(a), agpSearchCommand(a), agpVenuesCommand(a), agpConfirmCommand(a), agpStatusCommand(a))
}

// agpClient is the client of the key in the environment.
func agpClient(a *kit.App, ctx context.Context, w kit.Where, from string) (c agp.Client, err error) {
	key := a.Env[kit.AccountKeyEnv]
	if key == "" {
		return c, errNoTierKey()
	}
	base, err := a.HostURL(ctx, w)
	return agp.Client{HTTP: a.KeyedClient(stage.Key(key)), URL: base, From: from}, err
}

func errNoTierKey() error {
	return kit.WithHint(problem.New(problem.Usage, "expected a key with a tier in $%s", kit.AccountKeyEnv), "vacancy keys create TENANT --tier free")
}

// agpFlags are the flags of commands that send an envelope.
func agpFlags(cmd *cobra.Command, w *kit.Where, from *string) {
	cmd.Flags().StringVar(from, "from", "vacancy-cli", "the `AGENT` that asks")
	kit.HostFlags(cmd.Flags(), w)
}

// agpSend sends an envelope and shows the answer as T.
func agpSend[T any, R interface {
	*T
	kit.Result
}](ctx context.Context, a *kit.App, w kit.Where, from, to, intent string, payload map[string]any, header http.Header) error {
	c, err := agpClient(a, ctx, w, from)
	if err != nil {
		return err
	}
	raw, err := c.Send(ctx, to, intent, payload, header)
	if err != nil {
		return err
	}
	out := R(new(T))
	if err := json.Unmarshal(raw, out); err != nil {
		return problem.Wrap(problem.Untrusted, err, "the answer is not an AGP answer")
	}
	return a.Show(out)
}

type pingResult agp.Ping

func (r *pingResult) Print(w io.Writer) {
	fmt.Fprintf(w, "%s as %s, tier %s: %d venues\n", r.Status, kit.Printable(r.Agent), r.Tier, r.Venues)
}

func agpPingCommand(a *kit.App) *cobra.Command {
	var w kit.Where
	var from string
	cmd := &cobra.Command{
		Use: "ping", Short: "Show the agent and tier of your key, and the number of venues", Example: "  vacancy agp ping",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return agpSend[pingResult](cmd.Context(), a, w, from, "", "network.ping", map[string]any{}, nil)
		},
	}
	agpFlags(cmd, &w, &from)
	return cmd
}

func showVenues(w io.Writer, all []agp.Venue) {
	if len(all) == 0 {
		fmt.Fprintln(w, "no venues")
		return
	}
	wide := 4
	for i := range all {
		wide = max(wide, len(all[i].Slug))
	}
	for i := range all {
		v := &all[i]
		state := ""
		if !v.Live {
			state = "  not reached now"
		}
		fmt.Fprintf(w, "%-*s  %s, %s in %s%s\n", wide, kit.Printable(v.Slug), kit.Printable(v.Name), kit.Printable(v.Category), kit.Printable(v.Location), state)
	}
}

type venueSearchResult agp.Search

func (r *venueSearchResult) Print(w io.Writer) { showVenues(w, r.Venues) }

func agpSearchCommand(a *kit.App) *cobra.Command {
	var w kit.Where
	var from, location, category string
	var limit int
	cmd := &cobra.Command{
		Use: "search [WORDS...]", Short: "Search venues", Example: "  vacancy agp search \"sunset dinner\" --location canggu --limit 5",
		RunE: func(cmd *cobra.Command, args []string) error {
			payload := map[string]any{"query": strings.Join(args, " "), "limit": limit}
			for name, s := range map[string]string{"location": location, "category": category} {
				if s != "" {
					payload[name] = s
				}
			}
			return agpSend[venueSearchResult](cmd.Context(), a, w, from, "", "booking.search", payload, nil)
		},
	}
	cmd.Flags().StringVar(&location, "location", "", "where the venue is, or a place that it serves")
	cmd.Flags().StringVar(&category, "category", "", "the venue's category")
	cmd.Flags().IntVar(&limit, "limit", 10, "the most venues to show, 1 to 50")
	agpFlags(cmd, &w, &from)
	return cmd
}

type venueListResult agp.List

func (r *venueListResult) Print(w io.Writer) {
	showVenues(w, r.Venues)
	if r.Next != nil {
		fmt.Fprintf(w, "more: --cursor %s\n", kit.Printable(*r.Next))
	}
}

func agpVenuesCommand(a *kit.App) *cobra.Command {
	var w kit.Where
	var from, location, category, cursor string
	cmd := &cobra.Command{
		Use: "venues", Short: "List venues by category and location", Example: "  vacancy agp venues --category restaurant",
		RunE: func(cmd *cobra.Command, _ []string) error {
			payload := map[string]any{}
			for name, s := range map[string]string{"location": location, "category": category, "cursor": cursor} {
				if s != "" {
					payload[name] = s
				}
			}
			return agpSend[venueListResult](cmd.Context(), a, w, from, "", "venue.list", payload, nil)
		},
	}
	cmd.Flags().StringVar(&location, "location", "", "where the venue is, or a place that it serves")
	cmd.Flags().StringVar(&category, "category", "", "the venue's category")
	cmd.Flags().StringVar(&cursor, "cursor", "", "the cursor of the next page, as printed under a page")
	agpFlags(cmd, &w, &from)
	return cmd
}

type confirmResult agp.Confirm

func (r *confirmResult) Print(w io.Writer) {
	fmt.Fprintf(w, "booking %s at %s: %s\n", kit.Printable(r.Booking), kit.Printable(r.Venue.Name), kit.Printable(r.Status))
	if r.Metered != nil {
		fmt.Fprintf(w, "  cost    $%s\n", kit.Printable(r.Metered.Amount))
	}
	if r.VenuePrice != "" {
		fmt.Fprintf(w, "  venue   up to $%s\n", kit.Printable(r.VenuePrice))
	}
	if len(r.Result) > 0 {
		fmt.Fprintf(w, "  result  %s\n", kit.Printable(string(r.Result)))
	}
	if r.Cut != "" {
		fmt.Fprintf(w, "  answer cut  %s\n", kit.Printable(r.Cut))
	}
}

func agpConfirmCommand(a *kit.App) *cobra.Command {
	var w kit.Where
	var from, at, guest, contact, notes, input, once, most string
	var party int64
	cmd := &cobra.Command{
		Use:   "confirm VENUE",
		Short: "Book a venue",
		Long: `Book a venue, named by its slug or id. The booking costs money once it is made, whatever the
venue answers; the money is given back if the booking never reaches the venue. A venue with a
price charges for its answer, too: the most that it charges is held until the answer. With
--input the booking is a job for an agent, and the agent's answer is the result. With the same
--once KEY, a repeated command makes only one booking.`,
		Example: `  vacancy agp confirm warung-sunset --at 2026-12-24T19:00:00+08:00 --party 2 --guest "A. Guest"
  vacancy agp confirm clerk --input '{"task": "summarise this"}' --once job-17`,
		RunE: func(cmd *cobra.Command, args []string) error {
			payload := map[string]any{"venue_slug": args[0], "party_size": party}
			for name, s := range map[string]string{"starts_at": at, "notes": notes, "idempotency_key": once, "max_price_usd": most} {
				if s != "" {
					payload[name] = s
				}
			}
			if guest != "" || contact != "" {
				payload["guest"] = map[string]string{"name": guest, "contact": contact}
			}
			if input != "" {
				if !json.Valid([]byte(input)) {
					return &problem.Error{Kind: problem.Usage, Field: "--input", Want: "JSON", Got: fmt.Sprintf("%.40q", input)}
				}
				payload["input"] = json.RawMessage(input)
			}
			return agpSend[confirmResult](cmd.Context(), a, w, from, "", "booking.confirm", payload, nil)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&at, "at", "", "when it starts, a `TIME` with its offset")
	fs.Int64Var(&party, "party", 1, "how many guests")
	fs.StringVar(&guest, "guest", "", "the name of the guest")
	fs.StringVar(&contact, "contact", "", "how the guest is reached")
	fs.StringVar(&notes, "notes", "", "what the venue should know")
	fs.StringVar(&input, "input", "", "a job, in `JSON`")
	fs.StringVar(&once, "once", "", "an idempotency `KEY`")
	fs.StringVar(&most, "max-price", "", "the most `DOLLARS` that the booking and its venue may cost")
	agpFlags(cmd, &w, &from)
	return cmd
}

type networkStatus struct {
	Status  string `json:"status"`
	Venues  int64  `json:"venues"`
	Active  int    `json:"active_agents"`
	Version string `json:"network_version"`
	Window  int    `json:"window_seconds"`
	Time    string `json:"timestamp"`
}

func (r networkStatus) Print(w io.Writer) {
	fmt.Fprintf(w, "%s: %d venues, %d agents in the last %d s, version %s\n", kit.Printable(r.Status), r.Venues, r.Active, r.Window, kit.Printable(r.Version))
}

func agpStatusCommand(a *kit.App) *cobra.Command {
	var w kit.Where
	cmd := &cobra.Command{
		Use: "status", Short: "Show a host's status by AGP, without a key", Example: "  vacancy agp status",
		RunE: func(cmd *cobra.Command, _ []string) error {
			base, err := a.HostURL(cmd.Context(), w)
			if err != nil {
				return err
			}
			raw, err := agp.Client{HTTP: a.KeylessClient(), URL: base}.Status(cmd.Context())
			if err != nil {
				return err
			}
			var s networkStatus
			if err := json.Unmarshal(raw, &s); err != nil {
				return problem.Wrap(problem.Untrusted, err, "the answer is not an AGP answer")
			}
			return a.Show(s)
		},
	}
	kit.HostFlags(cmd.Flags(), &w)
	return cmd
}
