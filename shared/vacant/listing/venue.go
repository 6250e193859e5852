package listing

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// The limits of a venue, in bytes, or in elements for lists.
const (
	MaxSlug     = 64
	MaxName     = 128
	MaxCategory = 64
	MaxLocation = 64
	MaxAreas    = 16
	MaxHours    = 256
	MaxCapacity = 1_000_000
	// MaxReferral is the highest referral fee in basis points: everything.
	MaxReferral = 10_000
)

// The venue of a vacant that has none in its listing.
const (
	DefaultCategory = "agent"
	DefaultLocation = "global"
	DefaultReferral = 700
	// defaultSlug and the short id are the slug of a vacant that has claimed none.
	defaultSlug = "v-"
)

// Venue is the part of a listing that describes a vacant that takes bookings.
type Venue struct {
	Slug     string   `json:"slug"` // its own at a registry; "" means v- and the short id
	Name     string   `json:"name"` // "" means the vacant's name
	Category string   `json:"category"`
	Location string   `json:"location"`
	Areas    []string `json:"areas"` // other locations that it serves
	Bookable bool     `json:"bookable"`
	Capacity int64    `json:"capacity"`     // guests at one time; zero means any number
	Hours    string   `json:"hours"`        // in the venue's own words
	Referral int64    `json:"referral_fee"` // in basis points
}

// DefaultVenue is the venue of a vacant whose listing has none.
func DefaultVenue() Venue {
	return Venue{Category: DefaultCategory, Location: DefaultLocation, Bookable: true, Referral: DefaultReferral}
}

// DefaultSlug is the slug of a vacant that has claimed none, by its short id.
func DefaultSlug(short string) string { return defaultSlug + short }

// ShortOf is the short id in a default slug; false for another slug.
func ShortOf(slug string) (short string, ok bool) {
	short, ok = strings.CutPrefix(slug, defaultSlug)
	return short, ok && len(short) == 12 && strings.Trim(short, "0123456789abcdef") == ""
}

// CheckSlug checks a slug that a vacant claims. Default slugs are nobody's to claim.
func CheckSlug(s string) error {
	if s == "" || len(s) > MaxSlug || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return problem.Invalid("slug", fmt.Sprintf("1 to %d of a-z, 0-9 and -", MaxSlug), fmt.Sprintf("%.80q", s))
	}
	if _, ok := ShortOf(s); ok || s == TestSlug {
		return problem.Invalid("slug", "one that is not reserved", s)
	}
	return nil
}

// TestSlug is reserved for the venue that test keys meet.
const TestSlug = "test"

// Check returns nil if v is within the limits, or an error that names the wrong field.
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
		{"name", v.Name, MaxName, false}, {"category", v.Category, MaxCategory, true},
		{"location", v.Location, MaxLocation, true}, {"hours", v.Hours, MaxHours, false},
	} {
		if t.needed && canon.IsBlank(t.text) {
			return problem.Invalid(t.field, "a word", "a blank string")
		}
		if err := checkText(t.field, t.text, t.most); err != nil {
			return err
		}
	}
	if err := checkList("areas", v.Areas, MaxAreas, MaxLocation); err != nil {
		return err
	}
	if v.Capacity < 0 || v.Capacity > MaxCapacity {
		return problem.Invalid("capacity", fmt.Sprintf("0 to %d", MaxCapacity), strconv.FormatInt(v.Capacity, 10))
	}
	if v.Referral < 0 || v.Referral > MaxReferral {
		return problem.Invalid("referral_fee", fmt.Sprintf("0 to %d basis points", MaxReferral), strconv.FormatInt(v.Referral, 10))
	}
	return nil
}

// equal reports whether two venues, each maybe nil, say the same.
func (v *Venue) equal(other *Venue) bool {
	if v == nil || other == nil {
		return v == other
	}
	a, b := *v, *other
	a.Areas, b.Areas = nil, nil
	return slices.Equal(v.Areas, other.Areas) && a.Slug == b.Slug && a.Name == b.Name && a.Category == b.Category && a.Location == b.Location &&
		a.Bookable == b.Bookable && a.Capacity == b.Capacity && a.Hours == b.Hours && a.Referral == b.Referral
}

// append appends the canonical JSON of v.
func (v *Venue) append(dst []byte) []byte {
	dst = appendList(append(dst, `{"areas":`...), v.Areas)
	dst = strconv.AppendBool(append(dst, `,"bookable":`...), v.Bookable)
	dst = strconv.AppendInt(append(dst, `,"capacity":`...), v.Capacity, 10)
	dst = canon.AppendString(append(dst, `,"category":`...), v.Category)
	dst = canon.AppendString(append(dst, `,"hours":`...), v.Hours)
	dst = canon.AppendString(append(dst, `,"location":`...), v.Location)
	dst = canon.AppendString(append(dst, `,"name":`...), v.Name)
	dst = strconv.AppendInt(append(dst, `,"referral_fee":`...), v.Referral, 10)
	return append(canon.AppendString(append(dst, `,"slug":`...), v.Slug), '}')
}

// UnmarshalCanon implements canon.Unmarshaler. Missing members get the values of DefaultVenue.
func (v *Venue) UnmarshalCanon(d *canon.Decoder) error {
	type members Venue // without UnmarshalCanon
	*v = DefaultVenue()
	return d.Decode((*members)(v))
}
