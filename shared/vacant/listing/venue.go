package listing

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

const (
	MaxSlugBytes     = 64
	MaxNameBytes     = 128
	MaxCategoryBytes = 64
	MaxLocationBytes = 64
	MaxAreas         = 16
	MaxHoursBytes    = 256
	MaxCapacity      = 1_000_000
	// MaxReferralFee is 100 % in basis points.
	MaxReferralFee = 10_000
)

// A vacant whose listing has no venue has these values.
const (
	DefaultCategory    = "agent"
	DefaultLocation    = "global"
	DefaultReferralFee = 700 // basis points
	defaultSlugPrefix  = "v-"
)

// Venue is the part of a listing about taking bookings.
type Venue struct {
	Slug        string   `json:"slug"` // unique in a registry; DefaultSlug if empty
	Name        string   `json:"name"` // the vacant's name if empty
	Category    string   `json:"category"`
	Location    string   `json:"location"`
	Areas       []string `json:"areas"` // other locations that the venue serves
	Bookable    bool     `json:"bookable"`
	Capacity    int64    `json:"capacity"` // simultaneous guests; no limit if zero
	Hours       string   `json:"hours"`
	ReferralFee int64    `json:"referral_fee"` // basis points
}

func DefaultVenue() Venue {
	return Venue{Category: DefaultCategory, Location: DefaultLocation, Bookable: true, ReferralFee: DefaultReferralFee}
}

func DefaultSlug(short string) string { return defaultSlugPrefix + short }

func ParseDefaultSlug(slug string) (short string, ok bool) {
	short, ok = strings.CutPrefix(slug, defaultSlugPrefix)
	return short, ok && len(short) == 12 && strings.Trim(short, "0123456789abcdef") == ""
}

// CheckSlug returns an error unless a vacant may claim the slug s.
func CheckSlug(s string) error {
	if s == "" || len(s) > MaxSlugBytes || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return problem.Invalid("slug", fmt.Sprintf("1 to %d of a-z, 0-9 and -", MaxSlugBytes), fmt.Sprintf("%.80q", s))
	}
	if _, ok := ParseDefaultSlug(s); ok || s == TestSlug {
		return problem.Invalid("slug", "a slug that is not reserved", s)
	}
	return nil
}

// TestSlug is the slug of the venue for bookings by test keys.
const TestSlug = "test"

func (v *Venue) Check() error {
	if v.Slug != "" {
		if err := CheckSlug(v.Slug); err != nil {
			return err
		}
	}
	for _, t := range []struct {
		field, text string
		most        int
		needed      bool
	}{
		{"name", v.Name, MaxNameBytes, false}, {"category", v.Category, MaxCategoryBytes, true},
		{"location", v.Location, MaxLocationBytes, true}, {"hours", v.Hours, MaxHoursBytes, false},
	} {
		if t.needed && canon.IsBlank(t.text) {
			return problem.Invalid(t.field, "a word", "a blank string")
		}
		if err := checkText(t.field, t.text, t.most); err != nil {
			return err
		}
	}
	if err := checkList("areas", v.Areas, MaxAreas, MaxLocationBytes); err != nil {
		return err
	}
	if v.Capacity < 0 || v.Capacity > MaxCapacity {
		return problem.Invalid("capacity", fmt.Sprintf("0 to %d", MaxCapacity), strconv.FormatInt(v.Capacity, 10))
	}
	if v.ReferralFee < 0 || v.ReferralFee > MaxReferralFee {
		return problem.Invalid("referral_fee", fmt.Sprintf("0 to %d basis points", MaxReferralFee), strconv.FormatInt(v.ReferralFee, 10))
	}
	return nil
}

func (v *Venue) equal(other *Venue) bool {
	if v == nil || other == nil {
		return v == other
	}
	a, b := *v, *other
	a.Areas, b.Areas = nil, nil
	return slices.Equal(v.Areas, other.Areas) && a.Slug == b.Slug && a.Name == b.Name && a.Category == b.Category && a.Location == b.Location &&
		a.Bookable == b.Bookable && a.Capacity == b.Capacity && a.Hours == b.Hours && a.ReferralFee == b.ReferralFee
}

func (v *Venue) appendJSON(dst []byte) []byte {
	dst = appendList(append(dst, `{"areas":`...), v.Areas)
	dst = strconv.AppendBool(append(dst, `,"bookable":`...), v.Bookable)
	dst = strconv.AppendInt(append(dst, `,"capacity":`...), v.Capacity, 10)
	dst = canon.AppendString(append(dst, `,"category":`...), v.Category)
	dst = canon.AppendString(append(dst, `,"hours":`...), v.Hours)
	dst = canon.AppendString(append(dst, `,"location":`...), v.Location)
	dst = canon.AppendString(append(dst, `,"name":`...), v.Name)
	dst = strconv.AppendInt(append(dst, `,"referral_fee":`...), v.ReferralFee, 10)
	return append(canon.AppendString(append(dst, `,"slug":`...), v.Slug), '}')
}

// UnmarshalCanon implements canon.Unmarshaler. Missing members have the values of DefaultVenue.
func (v *Venue) UnmarshalCanon(d *canon.Decoder) error {
	type members Venue // without UnmarshalCanon
	*v = DefaultVenue()
	return d.Decode((*members)(v))
}
