// Package agpcmd contains the commands for bookings and for AGP, the protocol of AGNT by which
// agents find and book venues.
package agpcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/front/agp"
	"github.com/vacancy-host/vacancy/shared/problem"
)

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
	return a.ParentCommand(&cobra.Command{
		Use:   "agp",
		Short: "Find and book venues by AGP, the protocol of AGNT",
		Long: `Find and book venues at a host by AGP, the protocol of AGNT at /a2a/v1. The key in
$VACANCY_KEY needs a tier ("vacancy keys create --tier"). Only bookings cost money. A booking
needs the tier pro or enterprise.`,
		Example: "  vacancy agp ping\n  vacancy agp search \"sunset dinner\" --location canggu\n  vacancy agp confirm warung-sunset --at 2026-12-24T19:00:00+08:00 --party 2",
	},
		newSendCommand(a, &cobra.Command{Use: "ping", Short: "Show the agent and tier of your key, and the number of venues", Example: "  vacancy agp ping"}, "network.ping",
			func([]string) (map[string]any, error) { return map[string]any{}, nil },
			func(w io.Writer, r agp.PingAnswer) {
				fmt.Fprintf(w, "%s as %s, tier %s: %d venues\n", r.Status, kit.EscapeLine(r.Agent), r.Tier, r.Venues)
			}),
		agpSearchCommand(a), agpVenuesCommand(a), agpConfirmCommand(a), agpStatusCommand(a))
}

func newAGPClient(a *kit.App, ctx context.Context, where kit.HostFlags, sender string) (c agp.Client, err error) {
	key := a.Env[kit.AccountKeyEnv]
	if key == "" {
		return c, missingTierKeyError()
	}
	base, err := a.GatewayURL(ctx, where)
	return agp.Client{HTTP: a.KeyedClient(stage.Key(key)), URL: base, From: sender}, err
}

func missingTierKeyError() error {
	return kit.WithHint(problem.New(problem.Usage, "expected a key with a tier in $%s", kit.AccountKeyEnv), "vacancy keys create TENANT --tier free")
}

// newSendCommand completes cmd, so that it sends an AGP envelope with the intent and the payload
// from buildPayload to a host, and prints the answer.
func newSendCommand[T any](a *kit.App, cmd *cobra.Command, intent string, buildPayload func(args []string) (map[string]any, error), printResult func(io.Writer, T)) *cobra.Command {
	var where kit.HostFlags
	var sender string
	cmd.Flags().StringVar(&sender, "from", "vacancy-cli", "the name of the `AGENT` that sends the request")
	kit.AddHostFlags(cmd.Flags(), &where)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		body, err := buildPayload(args)
		if err != nil {
			return err
		}
		c, err := newAGPClient(a, cmd.Context(), where, sender)
		if err != nil {
			return err
		}
		raw, err := c.Send(cmd.Context(), "", intent, body, nil)
		if err != nil {
			return err
		}
		return printAnswer(a, raw, printResult)
	}
	return cmd
}

func printAnswer[T any](a *kit.App, raw []byte, printResult func(io.Writer, T)) error {
	var answer T
	if err := json.Unmarshal(raw, &answer); err != nil {
		return problem.Wrap(problem.Untrusted, err, "the answer is not an AGP answer")
	}
	return a.Print(answer, func(w io.Writer) { printResult(w, answer) })
}

func omitEmpty(fields map[string]string) map[string]any {
	payload := map[string]any{}
	for name, text := range fields {
		if text != "" {
			payload[name] = text
		}
	}
	return payload
}

func printVenues(w io.Writer, venues []agp.Venue) {
	kit.PrintTable(w, "no venues", venues, func(v agp.Venue) []any {
		return []any{v.Slug, fmt.Sprintf("%s, %s in %s", v.Name, v.Category, v.Location), kit.FormatIf(!v.Live, "currently unreachable")}
	})
}

func agpSearchCommand(a *kit.App) *cobra.Command {
	var location, category string
	var limit int
	cmd := &cobra.Command{Use: "search [WORDS...]", Short: "Search venues", Example: "  vacancy agp search \"sunset dinner\" --location canggu --limit 5"}
	cmd.Flags().StringVar(&location, "location", "", "where the venue is, or a place that it serves")
	cmd.Flags().StringVar(&category, "category", "", "the venue's category")
	cmd.Flags().IntVar(&limit, "limit", 10, "the maximum number of venues to show, 1 to 50")
	return newSendCommand(a, cmd, "booking.search", func(args []string) (map[string]any, error) {
		payload := omitEmpty(map[string]string{"location": location, "category": category})
		payload["query"], payload["limit"] = strings.Join(args, " "), limit
		return payload, nil
	}, func(w io.Writer, r agp.SearchAnswer) { printVenues(w, r.Venues) })
}

func agpVenuesCommand(a *kit.App) *cobra.Command {
	var location, category, cursor string
	cmd := &cobra.Command{Use: "venues", Short: "List venues by category and location", Example: "  vacancy agp venues --category restaurant"}
	cmd.Flags().StringVar(&location, "location", "", "where the venue is, or a place that it serves")
	cmd.Flags().StringVar(&category, "category", "", "the venue's category")
	cmd.Flags().StringVar(&cursor, "cursor", "", "the cursor of the next page, as printed under a page")
	return newSendCommand(a, cmd, "venue.list", func([]string) (map[string]any, error) {
		return omitEmpty(map[string]string{"location": location, "category": category, "cursor": cursor}), nil
	}, func(w io.Writer, r agp.ListAnswer) {
		printVenues(w, r.Venues)
		if r.Next != nil {
			fmt.Fprintf(w, "more: --cursor %s\n", kit.EscapeLine(*r.Next))
		}
	})
}

func agpConfirmCommand(a *kit.App) *cobra.Command {
	var start, guest, contact, notes, input, idempotencyKey, maxPrice string
	var party int64
	cmd := &cobra.Command{
		Use:   "confirm VENUE",
		Short: "Book a venue",
		Long: `Book a venue, named by its slug or id. A booking is charged when it is made, even if the venue
rejects it. The money is refunded if the booking never reaches the venue. If the venue has a
price, its answer is charged too. The maximum price of the venue is reserved until it answers.

A booking with --input is a job for an agent, and the result is the agent's answer. If a
command is repeated with the same --once KEY, only one booking is made.`,
		Example: `  vacancy agp confirm warung-sunset --at 2026-12-24T19:00:00+08:00 --party 2 --guest "A. Guest"
  vacancy agp confirm clerk --input '{"task": "summarise this"}' --once job-17`,
	}
	fs := cmd.Flags()
	fs.StringVar(&start, "at", "", "the start, a `TIME` with its UTC offset")
	fs.Int64Var(&party, "party", 1, "the number of guests")
	fs.StringVar(&guest, "guest", "", "the name of the guest")
	fs.StringVar(&contact, "contact", "", "how to reach the guest")
	fs.StringVar(&notes, "notes", "", "what the venue should know")
	fs.StringVar(&input, "input", "", "the job for an agent, as `JSON`")
	fs.StringVar(&idempotencyKey, "once", "", "an idempotency `KEY`: with the same key, a repeated command makes no second booking")
	fs.StringVar(&maxPrice, "max-price", "", "the maximum `DOLLARS` that the booking and its venue may cost")
	return newSendCommand(a, cmd, "booking.confirm", func(args []string) (map[string]any, error) {
		payload := omitEmpty(map[string]string{"starts_at": start, "notes": notes, "idempotency_key": idempotencyKey, "max_price_usd": maxPrice})
		payload["venue_slug"], payload["party_size"] = args[0], party
		if guest != "" || contact != "" {
			payload["guest"] = map[string]string{"name": guest, "contact": contact}
		}
		if input != "" {
			if !json.Valid([]byte(input)) {
				return nil, &problem.Error{Kind: problem.Usage, Field: "--input", Want: "JSON", Got: fmt.Sprintf("%.40q", input)}
			}
			payload["input"] = json.RawMessage(input)
		}
		return payload, nil
	}, func(w io.Writer, r agp.ConfirmAnswer) {
		fmt.Fprintf(w, "booking %s at %s: %s\n", kit.EscapeLine(r.BookingID), kit.EscapeLine(r.Venue.Name), kit.EscapeLine(r.Status))
		if r.Metered != nil {
			kit.PrintFields(w, "cost", "$"+r.Metered.Amount)
		}
		kit.PrintFields(w, "venue", kit.FormatIf(r.VenuePrice != "", "up to $%s", r.VenuePrice), "result", string(r.Result), "answer cut", r.CutReason)
	})
}

type networkStatus struct {
	Status        string `json:"status"`
	Venues        int64  `json:"venues"`
	ActiveAgents  int    `json:"active_agents"`
	Version       string `json:"network_version"`
	WindowSeconds int    `json:"window_seconds"`
	Time          string `json:"timestamp"`
}

func agpStatusCommand(a *kit.App) *cobra.Command {
	var w kit.HostFlags
	cmd := &cobra.Command{
		Use: "status", Short: "Show a host's status by AGP, without a key", Example: "  vacancy agp status",
		RunE: func(cmd *cobra.Command, _ []string) error {
			base, err := a.GatewayURL(cmd.Context(), w)
			if err != nil {
				return err
			}
			raw, err := agp.Client{HTTP: a.KeylessClient(), URL: base}.Status(cmd.Context())
			if err != nil {
				return err
			}
			return printAnswer(a, raw, func(w io.Writer, r networkStatus) {
				fmt.Fprintf(w, "%s: %d venues, %d agents in the last %d s, version %s\n", kit.EscapeLine(r.Status), r.Venues, r.ActiveAgents, r.WindowSeconds, kit.EscapeLine(r.Version))
			})
		},
	}
	kit.AddHostFlags(cmd.Flags(), &w)
	return cmd
}
