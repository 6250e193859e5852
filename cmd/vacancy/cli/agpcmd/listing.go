package agpcmd

import (
	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/vacantcmd"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func ListingCommand(a *kit.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "listing",
		Short:   "Say what a vacant is as a venue, for AGP",
		Long:    `Say what a published vacant is as a venue: what AGP tells of it, and finds it by.`,
		Example: "  vacancy listing set clerk --slug clerk --category office --location zurich",
		Args:    a.KnownCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(listingSetCommand(a))
	return cmd
}

func listingSetCommand(a *kit.App) *cobra.Command {
	var w kit.Where
	var slug, name, category, location, hours string
	var areas []string
	var bookable bool
	var capacity, referral int64
	cmd := &cobra.Command{
		Use:   "set VACANT",
		Short: "Set what a vacant is as a venue",
		Long: `Set what a published vacant is as a venue. What is not given stays as it is. Without a
venue of its own a vacant is an agent that is reached everywhere (category agent, location
global), and takes bookings. A slug is the first vacant's that claims it.`,
		Example: `  vacancy listing set warung --slug warung-sunset --name "Warung Sunset" --category restaurant --location echo-beach --area canggu --capacity 40
  vacancy listing set clerk --bookable=false`,
		Args: kit.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var change admin.VenueChange
			given := cmd.Flags().Changed
			for _, f := range []struct {
				flag string
				from *string
				to   **string
			}{{"slug", &slug, &change.Slug}, {"name", &name, &change.Name}, {"category", &category, &change.Category}, {"location", &location, &change.Location}, {"hours", &hours, &change.Hours}} {
				if given(f.flag) {
					*f.to = f.from
				}
			}
			if given("area") {
				change.Areas = &areas
			}
			if given("bookable") {
				change.Bookable = &bookable
			}
			if given("capacity") {
				change.Capacity = &capacity
			}
			if given("referral") {
				change.Referral = &referral
			}
			if change == (admin.VenueChange{}) {
				return kit.WithHint(problem.New(problem.Usage, "expected what to set"), "vacancy listing set %s --slug %s", args[0], args[0])
			}
			return a.WithAdmin(w, false, func(c *kit.AdminAPI) error {
				done, err := admin.PublishVacant.Call(cmd.Context(), c, admin.About(args[0], admin.Publication{Venue: &change}))
				if err != nil {
					return err
				}
				return a.Show(vacantcmd.PublishedOf(&done))
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&slug, "slug", "", "its `SLUG`: 1 to 64 of a-z, 0-9 and -")
	fs.StringVar(&name, "name", "", "its name")
	fs.StringVar(&category, "category", "", "what it is, such as restaurant")
	fs.StringVar(&location, "location", "", "where it is")
	fs.StringArrayVar(&areas, "area", nil, "another `LOCATION` that it serves; may be repeated")
	fs.BoolVar(&bookable, "bookable", true, "whether it takes bookings")
	fs.Int64Var(&capacity, "capacity", 0, "guests at one time (0: any number)")
	fs.StringVar(&hours, "hours", "", "when it is open, in its own words")
	fs.Int64Var(&referral, "referral", 0, "the referral fee in `BASIS` points")
	kit.HostFlags(fs, &w)
	return cmd
}
