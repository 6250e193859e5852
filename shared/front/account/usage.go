package account

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/booking"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/usage"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// UsagePath is the usage of a tenant; OperatorUsagePath that of the operator's own vacants.
const (
	UsagePath         = "/v1/usage"
	OperatorUsagePath = "/v1/admin/usage"
)

// How usage is summed up.
const (
	ByHour   = "hour"
	ByDay    = "day"
	ByVacant = "vacant"
	ByCaller = "caller"
)

// Line is a sum of usage. Hour, Day, Vacant and Caller are "" unless it is summed up by
// them.
type Line struct {
	Hour   string `json:"hour,omitempty"`
	Day    string `json:"day,omitempty"`
	Vacant string `json:"vacant,omitempty"`
	Caller string `json:"caller,omitempty"`
	usage.Counts
}

// Usage is what an account has paid for, and what the vacants of its tenant have earned,
// from a time until another.
type Usage struct {
	Tenant string    `json:"tenant"`
	From   time.Time `json:"from"`
	Until  time.Time `json:"until"`
	Paid   []Line    `json:"paid"`
	Earned []Line    `json:"earned"`
	// Events are the bookings that the account has paid for, and what was given back.
	Events []Event `json:"events"`
}

// Event is a usage event. Cents are those of AGP; negative ones are given back.
type Event struct {
	ID      string    `json:"event_id"`
	Intent  string    `json:"intent"`
	Cents   int64     `json:"amount_cents"`
	Booking string    `json:"booking_id"`
	Key     string    `json:"key"`
	At      time.Time `json:"ts"`
}

// Statement is a month of an account. Gross is what callers have paid for the tenant's
// vacants, Fee the host's part of it, Net the rest. Credited is less what payments were
// taken back. Owed is what is spent of the line now, and what they left to pay.
type Statement struct {
	Tenant   string       `json:"tenant"`
	Month    string       `json:"month"` // 2026-11
	Credited money.Amount `json:"credited"`
	Spent    money.Amount `json:"spent"`
	Gross    money.Amount `json:"gross"`
	Fee      money.Amount `json:"fee"`
	Net      money.Amount `json:"net"`
	Balance  money.Amount `json:"balance"`
	Owed     money.Amount `json:"owed"`
}

// maxSpan bounds what one answer sums up.
const maxSpan = 400 * 24 * time.Hour

// span reads from, until and by in the query. The default is the UTC month of now.
func (d *api) span(q url.Values) (from, until time.Time, by string, err error) {
	now := d.Now().UTC()
	from = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	until = now.Add(time.Hour)
	for name, to := range map[string]*time.Time{"from": &from, "until": &until} {
		if s := q.Get(name); s != "" {
			if *to, err = day(name, s); err != nil {
				return from, until, by, err
			}
		}
	}
	by = cmp.Or(q.Get("by"), ByVacant)
	switch {
	case !slices.Contains([]string{ByHour, ByDay, ByVacant, ByCaller}, by):
		err = problem.Invalid("by", "hour, day, vacant or caller", httpapi.Clip(by))
	case !from.Before(until):
		err = problem.Invalid("until", "a time after from", httpapi.Clip(q.Get("until")))
	case until.Sub(from) > maxSpan:
		err = problem.Invalid("until", "at most 400 days after from", httpapi.Clip(q.Get("until")))
	}
	return from, until, by, err
}

// day parses a UTC day, or an hour of one.
func day(field, s string) (time.Time, error) {
	for _, form := range []string{time.DateOnly, "2006-01-02T15"} {
		if t, err := time.Parse(form, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, problem.Invalid(field, "a UTC day such as 2026-11-24, or an hour of one such as 2026-11-24T15", httpapi.Clip(s))
}

// lines sums up hours.
type lines struct {
	by string
	m  map[Line]*usage.Counts
}

func (l *lines) add(h usage.Hour) error {
	var key Line
	switch l.by {
	case ByHour:
		key.Hour = h.Start.Format("2006-01-02T15")
	case ByDay:
		key.Day = h.Start.Format(time.DateOnly)
	case ByCaller:
		if !h.Caller.IsZero() {
			key.Caller = h.Caller.String()
		}
	default:
		key.Vacant = h.Vacant.String()
	}
	if l.m[key] == nil {
		l.m[key] = &usage.Counts{}
	}
	l.m[key].Add(h.Counts)
	return nil
}

func (l *lines) sorted() []Line {
	all := make([]Line, 0, len(l.m))
	for key, c := range l.m {
		if key.Counts = *c; *c != (usage.Counts{}) { // which a correction leaves
			all = append(all, key)
		}
	}
	slices.SortFunc(all, func(a, b Line) int {
		return cmp.Or(strings.Compare(a.Hour+a.Day, b.Hour+b.Day), cmp.Compare(b.Charge, a.Charge), strings.Compare(a.Vacant+a.Caller, b.Vacant+b.Caller))
	})
	return all
}

// usage answers with the usage of an account and of its tenant's vacants.
func (d *api) usage(w http.ResponseWriter, r *http.Request) error {
	from, until, by, err := d.span(r.URL.Query())
	if err != nil {
		return err
	}
	a, _, err := d.find(r, billing.ScopeRead)
	if err != nil {
		return err
	}
	u := Usage{Tenant: a.Tenant, From: from, Until: until}
	paid, earned := lines{by, map[Line]*usage.Counts{}}, lines{by, map[Line]*usage.Counts{}}
	if err := usage.Paid(r.Context(), d.Store, a.ID, from, until, paid.add); err != nil {
		return err
	}
	if err := usage.Owned(r.Context(), d.Store, a.Tenant, from, until, earned.add); err != nil {
		return err
	}
	u.Events = []Event{}
	err = booking.Events(r.Context(), d.Store, a.ID, from, until, func(e booking.Event) error {
		u.Events = append(u.Events, Event{e.ID, e.Intent, int64(e.Amount / booking.Cent), e.Booking, e.Key, e.At})
		return nil
	})
	if err != nil {
		return err
	}
	u.Paid, u.Earned = paid.sorted(), earned.sorted()
	return httpapi.Answer(w, http.StatusOK, u)
}

// operatorUsage answers with the usage of the operator's own vacants.
func (d *api) operatorUsage(w http.ResponseWriter, r *http.Request) error {
	from, until, by, err := d.span(r.URL.Query())
	if err != nil {
		return err
	}
	earned := lines{by, map[Line]*usage.Counts{}}
	if err := usage.Owned(r.Context(), d.Store, "", from, until, earned.add); err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusOK, Usage{From: from, Until: until, Paid: []Line{}, Earned: earned.sorted(), Events: []Event{}})
}

// statement answers with a month of an account.
func (d *api) statement(w http.ResponseWriter, r *http.Request) error {
	month := r.URL.Query().Get("month")
	from := d.Now().UTC().Truncate(24 * time.Hour)
	if month != "" {
		var err error
		if from, err = time.Parse("2006-01", month); err != nil {
			return problem.Invalid("month", "a month such as 2026-11", httpapi.Clip(month))
		}
	}
	from = time.Date(from.Year(), from.Month(), 1, 0, 0, 0, 0, time.UTC)
	until := from.AddDate(0, 1, 0)
	a, _, err := d.find(r, billing.ScopeRead)
	if err != nil {
		return err
	}
	s := Statement{Tenant: a.Tenant, Month: from.Format("2006-01")}
	err = usage.Paid(r.Context(), d.Store, a.ID, from, until, func(h usage.Hour) error {
		s.Spent += h.Charge
		return nil
	})
	if err == nil {
		err = usage.Owned(r.Context(), d.Store, a.Tenant, from, until, func(h usage.Hour) error {
			s.Gross += h.Charge
			s.Fee += h.Fee
			return nil
		})
	}
	if err == nil {
		err = booking.Events(r.Context(), d.Store, a.ID, from, until, func(e booking.Event) error {
			s.Spent += e.Amount
			return nil
		})
	}
	if err == nil {
		s.Credited, err = d.Sum(r.Context(), &a, func(c billing.Change) money.Amount {
			if c.Kind == billing.LineSet || c.At.Before(from) || !c.At.Before(until) {
				return 0
			}
			return c.Amount - c.Owed
		})
	}
	if err == nil {
		s.Balance, err = d.Balance(r.Context(), &a)
	}
	if err != nil {
		return err
	}
	s.Net, s.Owed = s.Gross-s.Fee, max(a.Line-s.Balance, 0)+a.Owed
	return httpapi.Answer(w, http.StatusOK, s)
}

// Usage returns the usage of the account; without one, and for an operator, that of the
// operator's own vacants. from and until are UTC days or hours, "" for the month of now.
func (c Client) Usage(ctx context.Context, from, until, by string, operator bool) (u Usage, err error) {
	path := c.path("/usage")
	switch {
	case operator:
		path = OperatorUsagePath
	case c.Account == "":
		path = UsagePath
	}
	q := url.Values{}
	for name, value := range map[string]string{"from": from, "until": until, "by": by} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return u, c.send(ctx, http.MethodGet, path+"?"+q.Encode(), nil, nil, &u)
}

// Statement returns a month of the account, "" for that of now.
func (c Client) Statement(ctx context.Context, month string) (s Statement, err error) {
	return s, c.send(ctx, http.MethodGet, c.path("/statement?month="+url.QueryEscape(month)), nil, nil, &s)
}
