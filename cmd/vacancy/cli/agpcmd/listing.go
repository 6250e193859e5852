package agpcmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/vacantcmd"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func listingCommand(a *kit.App) *cobra.Command {
	var slug, name, category, location, hours string
	var areas []string
	var bookable bool
	var capacity, referral int64
	var request kit.Request
	return a.ParentCommand(&cobra.Command{
		Use:     "listing",
		Short:   "Describe a vacant as a venue that can be booked by AGP",
		Long:    `Describe a published vacant as a venue. AGP clients search and see this description.`,
		Example: "  vacancy listing set clerk --slug clerk --category office --location zurich",
	}, kit.Operation[admin.VacantRequest[admin.Publication], admin.Published]{
		Use:   "set VACANT",
		Short: "Set the description of a venue",
		Long: `Set the description of a published vacant as a venue. Values that are not given do not change.
A venue without a description has the category agent and the location global, and takes
bookings.

A slug belongs to the tenant of the first vacant that claims it. If the slug is given up, only
that tenant and the operator may use the slug again.`,
		Example: `  vacancy listing set warung --slug warung-sunset --name "Warung Sunset" --category restaurant --location echo-beach --area canggu --capacity 40
  vacancy listing set clerk --bookable=false`,
		Op: admin.PublishVacant,
		AddFlags: func(fs *pflag.FlagSet) {
			fs.StringVar(&slug, "slug", "", "its `SLUG`: 1 to 64 of a-z, 0-9 and -")
			fs.StringVar(&name, "name", "", "its name")
			fs.StringVar(&category, "category", "", "its category, such as restaurant")
			fs.StringVar(&location, "location", "", "where it is")
			fs.StringArrayVar(&areas, "area", nil, "another `LOCATION` that it serves; may be repeated")
			fs.BoolVar(&bookable, "bookable", true, "whether it takes bookings")
			fs.Int64Var(&capacity, "capacity", 0, "the maximum number of guests at one time (default no limit)")
			fs.StringVar(&hours, "hours", "", "its opening hours, as free text")
			fs.Int64Var(&referral, "referral", 0, "the referral fee in `BASIS` points")
		},
		Request: func(q kit.Request) (in admin.VacantRequest[admin.Publication], err error) {
			change := admin.VenueChange{
				Slug: flagValue(q, "slug", &slug), Name: flagValue(q, "name", &name), Category: flagValue(q, "category", &category), Location: flagValue(q, "location", &location),
				Hours: flagValue(q, "hours", &hours), Areas: flagValue(q, "area", &areas), Bookable: flagValue(q, "bookable", &bookable),
				Capacity: flagValue(q, "capacity", &capacity), ReferralFee: flagValue(q, "referral", &referral),
			}
			if change == (admin.VenueChange{}) {
				return in, kit.WithHint(problem.New(problem.Usage, "expected a value to set, for example --slug clerk, got none"), "vacancy listing set %s --slug %s", q.Args[0], q.Args[0])
			}
			request = q
			return admin.NewVacantRequest(q.Args[0], admin.Publication{Venue: &change}), nil
		},
		JSONObject: func(published admin.Published) any { return vacantcmd.NewPublishedResult(&published) },
		Print: func(w io.Writer, published admin.Published) {
			venue := kit.EscapeLine(published.Vacant.Name)
			if published.Receipt.Unchanged {
				fmt.Fprintf(w, "nothing changed: the venue %s already has this description\n", venue)
				return
			}
			fmt.Fprintf(w, "the description of the venue %s is published, event %d\n", venue, published.Receipt.Seq)
			for _, field := range []struct{ flag, value string }{
				{"slug", slug}, {"name", name}, {"category", category}, {"location", location}, {"area", strings.Join(areas, ", ")}, {"hours", hours},
				{"bookable", fmt.Sprint(bookable)}, {"capacity", fmt.Sprint(capacity)}, {"referral", fmt.Sprintf("%d basis points", referral)},
			} {
				if request.Changed(field.flag) {
					fmt.Fprintf(w, "  %-10s %s\n", field.flag, kit.EscapeLine(field.value))
				}
			}
		},
	}.Command(a))
}

// flagValue returns the value of a flag, or nil if the flag was not given.
func flagValue[T any](q kit.Request, flag string, value *T) *T {
	if q.Changed(flag) {
		return value
	}
	return nil
}
