package account

import (
	"cmp"
	"context"
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

// Values of Span.By.
const (
	ByHour    = "hour"
	ByDay     = "day"
	ByVacant  = "vacant"
	ByCaller  = "caller"
	BySubject = "subject"
)

// Line is a sum of usage. If usage is grouped by subject, the line without a subject contains the
// usage that keys and links paid.
type Line struct {
	Hour    string `json:"hour,omitempty"`
	Day     string `json:"day,omitempty"`
	Vacant  string `json:"vacant,omitempty"`
	Caller  string `json:"caller,omitempty"`
	Subject string `json:"subject,omitempty"`
	Issuer  string `json:"issuer,omitempty"`
	Name    string `json:"name,omitempty"`
	usage.Counts
}

type Usage struct {
	Tenant string    `json:"tenant"`
	From   time.Time `json:"from"`
	Until  time.Time `json:"until"`
	Paid   []Line    `json:"paid"`
	Earned []Line    `json:"earned"`
	Events []Event   `json:"events"`
}

// Event is a usage event. Cents is the amount in AGP's unit, negative for refunds.
type Event struct {
	ID        string    `json:"event_id"`
	Intent    string    `json:"intent"`
	Cents     int64     `json:"amount_cents"`
	BookingID string    `json:"booking_id"`
	KeyID     string    `json:"key"`
	Time      time.Time `json:"ts"`
}

// Statement summarizes a month of an account. Gross is the amount that callers paid for the
// tenant's vacants, and Fee is the host's share of Gross. Owed is the used part of the credit line
// plus unpaid amounts of withdrawn payments.
type Statement struct {
	Tenant   string       `json:"tenant"`
	Month    string       `json:"month"` // for example 2026-11
	Credited money.Amount `json:"credited"`
	Spent    money.Amount `json:"spent"`
	Gross    money.Amount `json:"gross"`
	Fee      money.Amount `json:"fee"`
	Net      money.Amount `json:"net"`
	Balance  money.Amount `json:"balance"`
	Owed     money.Amount `json:"owed"`
}

const maxSpan = 400 * 24 * time.Hour

// parse parses the span. The default is the current UTC month until an hour from now, which
// includes the current hour.
func (s Span) parse(now time.Time) (from, until time.Time, grouping string, err error) {
	now = now.UTC()
	from = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	until = now.Add(time.Hour)
	if s.From != "" {
		if from, err = parseDayOrHour("from", s.From); err != nil {
			return from, until, grouping, err
		}
	}
	if s.Until != "" {
		if until, err = parseDayOrHour("until", s.Until); err != nil {
			return from, until, grouping, err
		}
	}
	grouping = cmp.Or(s.By, ByVacant)
	switch {
	case !slices.Contains([]string{ByHour, ByDay, ByVacant, ByCaller, BySubject}, grouping):
		err = problem.Invalid("by", "hour, day, vacant, caller or subject", httpapi.QuoteTruncated(grouping))
	case !from.Before(until):
		err = problem.Invalid("until", "a time after from", httpapi.QuoteTruncated(s.Until))
	case until.Sub(from) > maxSpan:
		err = problem.Invalid("until", "at most 400 days after from", httpapi.QuoteTruncated(s.Until))
	}
	return from, until, grouping, err
}

func parseDayOrHour(field, s string) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, "2006-01-02T15"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, problem.Invalid(field, "a UTC day such as 2026-11-24, or a UTC hour such as 2026-11-24T15", httpapi.QuoteTruncated(s))
}

type usageGroups struct {
	grouping string
	lines    map[Line]*usage.Counts
}

func (l *usageGroups) add(h usage.Hour) error {
	var key Line
	switch l.grouping {
	case ByHour:
		key.Hour = h.Start.Format("2006-01-02T15")
	case ByDay:
		key.Day = h.Start.Format(time.DateOnly)
	case ByCaller:
		if !h.Caller.IsZero() {
			key.Caller = h.Caller.String()
		}
	case BySubject:
		key.Subject = h.Subject
	default:
		key.Vacant = h.Vacant.String()
	}
	if l.lines[key] == nil {
		l.lines[key] = &usage.Counts{}
	}
	l.lines[key].Add(h.Counts)
	return nil
}

func (l *usageGroups) sortedLines() []Line {
	list := make([]Line, 0, len(l.lines))
	for key, c := range l.lines {
		if key.Counts = *c; *c != (usage.Counts{}) { // a correction may leave empty counts
			list = append(list, key)
		}
	}
	slices.SortFunc(list, func(a, b Line) int {
		return cmp.Or(strings.Compare(a.Hour+a.Day, b.Hour+b.Day), cmp.Compare(b.Charge, a.Charge), strings.Compare(a.Vacant+a.Caller+a.Subject, b.Vacant+b.Caller+b.Subject))
	})
	return list
}

func (d *api) accountUsage(ctx context.Context, in UsageRequest) (u Usage, err error) {
	from, until, grouping, err := in.parse(d.Now())
	if err != nil {
		return u, err
	}
	a, err := d.findAccount(ctx, in)
	if err != nil {
		return u, err
	}
	u = Usage{Tenant: a.Tenant, From: from, Until: until, Events: []Event{}}
	paid, earned := usageGroups{grouping, map[Line]*usage.Counts{}}, usageGroups{grouping, map[Line]*usage.Counts{}}
	if grouping == BySubject {
		// EachPaidHour below adds the complete usage of the account to the line without a subject.
		// The usage of all subjects is therefore subtracted here.
		subjects, err := d.Subjects(ctx, a.ID)
		if err != nil {
			return u, err
		}
		subjectByID := make(map[string]*billing.NamedSubject, len(subjects))
		for i := range subjects {
			subjectByID[subjects[i].ID] = &subjects[i]
		}
		unattributed := &usage.Counts{}
		paid.lines[Line{}] = unattributed
		err = usage.EachSubjectHour(ctx, d.Store, a.ID, from, until, func(h usage.Hour) error {
			key := Line{Subject: h.Subject}
			if s := subjectByID[h.Subject]; s != nil {
				key.Issuer, key.Name = s.Issuer, s.Name
			}
			if paid.lines[key] == nil {
				paid.lines[key] = &usage.Counts{}
			}
			paid.lines[key].Add(h.Counts)
			unattributed.Sub(h.Counts)
			return nil
		})
		if err != nil {
			return u, err
		}
	}
	if err := usage.EachPaidHour(ctx, d.Store, a.ID, from, until, paid.add); err != nil {
		return u, err
	}
	if err := usage.EachEarnedHour(ctx, d.Store, a.Tenant, from, until, earned.add); err != nil {
		return u, err
	}
	err = booking.EachUsageEvent(ctx, d.Store, a.ID, from, until, func(e booking.UsageEvent) error {
		u.Events = append(u.Events, Event{e.ID, e.Intent, int64(e.Amount / booking.Cent), e.BookingID, e.KeyID, e.Time})
		return nil
	})
	u.Paid, u.Earned = paid.sortedLines(), earned.sortedLines()
	return u, err
}

func (d *api) operatorUsage(ctx context.Context, in Span) (u Usage, err error) {
	from, until, grouping, err := in.parse(d.Now())
	if err != nil {
		return u, err
	}
	earned := usageGroups{grouping, map[Line]*usage.Counts{}}
	err = usage.EachEarnedHour(ctx, d.Store, "", from, until, earned.add)
	return Usage{From: from, Until: until, Paid: []Line{}, Earned: earned.sortedLines(), Events: []Event{}}, err
}

func (d *api) monthStatement(ctx context.Context, in MonthRequest) (s Statement, err error) {
	from := d.Now().UTC().Truncate(24 * time.Hour)
	if in.Month != "" {
		if from, err = time.Parse("2006-01", in.Month); err != nil {
			return s, problem.Invalid("month", "a month such as 2026-11", httpapi.QuoteTruncated(in.Month))
		}
	}
	from = time.Date(from.Year(), from.Month(), 1, 0, 0, 0, 0, time.UTC)
	until := from.AddDate(0, 1, 0)
	a, err := d.findAccount(ctx, in)
	if err != nil {
		return s, err
	}
	s = Statement{Tenant: a.Tenant, Month: from.Format("2006-01")}
	err = usage.EachPaidHour(ctx, d.Store, a.ID, from, until, func(h usage.Hour) error {
		s.Spent += h.Charge
		return nil
	})
	if err == nil {
		err = usage.EachEarnedHour(ctx, d.Store, a.Tenant, from, until, func(h usage.Hour) error {
			s.Gross += h.Charge
			s.Fee += h.Fee
			return nil
		})
	}
	if err == nil {
		err = booking.EachUsageEvent(ctx, d.Store, a.ID, from, until, func(e booking.UsageEvent) error {
			s.Spent += e.Amount
			return nil
		})
	}
	if err == nil {
		s.Credited, err = d.SumChanges(ctx, &a, func(c billing.Change) money.Amount {
			if c.Kind == billing.CreditLineSet || c.Time.Before(from) || !c.Time.Before(until) {
				return 0
			}
			return c.Amount - c.Owed
		})
	}
	if err == nil {
		s.Balance, err = d.Balance(ctx, &a)
	}
	s.Net, s.Owed = s.Gross-s.Fee, max(a.CreditLine-s.Balance, 0)+a.Owed
	return s, err
}
