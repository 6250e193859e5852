package listing_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

func seeded(t testing.TB, n byte) *identity.Key {
	t.Helper()
	key, err := identity.KeyFromSeed([]byte(strings.Repeat(string(rune(n)), identity.Size)))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func full(id identity.ID) listing.Listing {
	l := listing.New(id, 3)
	l.Tags, l.Skills = []string{"translation", "法律"}, []string{"contracts \"as is\""}
	l.Summary, l.ModelFamily, l.Owner, l.Price = "Deutsch und Englisch", "claude", "Example GmbH", 2000
	return l
}

func TestAListingIsSignedAndSerialisedAsDocumented(t *testing.T) {
	key := seeded(t, 1)
	l := full(key.ID())
	members := `"family":"claude","owner":"Example GmbH","price":2000,%s"skills":["contracts \"as is\""],"summary":"Deutsch und Englisch",` +
		`"tags":["translation","法律"],"vacant_id":"` + key.ID().String() + `","version":3`
	if want, got := "vacancy:listing:v1\x1f{"+fmt.Sprintf(members, "")+"}", string(l.AppendSignedBytes(nil)); got != want {
		t.Errorf("AppendSignedBytes() = %s, want %s", got, want)
	}
	if want, got := "{"+fmt.Sprintf(members, `"signature":"",`)+"}", string(l.Blob()); got != want {
		t.Errorf("Blob() = %s, want %s", got, want)
	}
	if err := l.Sign(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	back, err := listing.Parse(l.Blob())
	if diff := cmp.Diff(l, back); err != nil || diff != "" {
		t.Errorf("Parse(Blob()) = %v (-want +got):\n%s", err, diff)
	}
	if !back.Verify() || back.Hash() != l.Hash() {
		t.Errorf("Verify(), Hash() = %v, %v, want true, %v", back.Verify(), back.Hash(), l.Hash())
	}
}

func TestAListingThatIsChangedDoesNotVerify(t *testing.T) {
	key := seeded(t, 1)
	for name, change := range map[string]func(*listing.Listing){
		"id":           func(l *listing.Listing) { l.VacantID = seeded(t, 2).ID() },
		"version":      func(l *listing.Listing) { l.Version++ },
		"a tag":        func(l *listing.Listing) { l.Tags = l.Tags[:1] },
		"order":        func(l *listing.Listing) { l.Tags[0], l.Tags[1] = l.Tags[1], l.Tags[0] },
		"a skill":      func(l *listing.Listing) { l.Skills = nil },
		"summary":      func(l *listing.Listing) { l.Summary = "" },
		"family":       func(l *listing.Listing) { l.ModelFamily = "other" },
		"owner":        func(l *listing.Listing) { l.Owner = "somebody" },
		"price":        func(l *listing.Listing) { l.Price = 0 },
		"no signature": func(l *listing.Listing) { l.Signature = nil },
	} {
		l := full(key.ID())
		if err := l.Sign(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		change(&l)
		if l.Verify() {
			t.Errorf("Verify() after a change of %s = true, want false", name)
		}
	}
}

func TestEveryLimitIsHeldAndNamed(t *testing.T) {
	key := seeded(t, 1)
	words := func(n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprint("w", i))
		}
		return list
	}
	for name, c := range map[string]struct {
		change func(*listing.Listing)
		field  string
	}{
		"version 0":          {func(l *listing.Listing) { l.Version = 0 }, "version"},
		"a version of 2^53":  {func(l *listing.Listing) { l.Version = 1 << 53 }, "version"},
		"17 tags":            {func(l *listing.Listing) { l.Tags = words(17) }, "tags"},
		"a long tag":         {func(l *listing.Listing) { l.Tags = []string{strings.Repeat("t", 65)} }, "tags[0]"},
		"a blank tag":        {func(l *listing.Listing) { l.Tags = []string{"a", " "} }, "tags[1]"},
		"a tag twice":        {func(l *listing.Listing) { l.Tags = []string{"a", "b", "a"} }, "tags[2]"},
		"33 skills":          {func(l *listing.Listing) { l.Skills = words(33) }, "skills"},
		"a long skill":       {func(l *listing.Listing) { l.Skills = []string{strings.Repeat("s", 129)} }, "skills[0]"},
		"a control in one":   {func(l *listing.Listing) { l.Skills = []string{"a\x1fb"} }, "skills[0]"},
		"a long summary":     {func(l *listing.Listing) { l.Summary = strings.Repeat("s", 1025) }, "summary"},
		"a long family":      {func(l *listing.Listing) { l.ModelFamily = strings.Repeat("f", 65) }, "family"},
		"a long owner":       {func(l *listing.Listing) { l.Owner = strings.Repeat("o", 129) }, "owner"},
		"an owner of bytes":  {func(l *listing.Listing) { l.Owner = "\xff" }, "owner"},
		"a price below 0":    {func(l *listing.Listing) { l.Price = -1 }, "price"},
		"a price of all":     {func(l *listing.Listing) { l.Price = listing.MaxPrice + 1 }, "price"},
		"no id":              {func(l *listing.Listing) { l.VacantID = identity.ID{} }, "small order"},
		"a stranger's key":   {func(l *listing.Listing) { l.VacantID = seeded(t, 2).ID() }, "cannot be signed by"},
		"a summary of bytes": {func(l *listing.Listing) { l.Summary = "\xff" }, "summary"},
	} {
		l := full(key.ID())
		c.change(&l)
		err := l.Sign(t.Context(), key)
		if err == nil || !strings.Contains(problem.AsError(err).Text(), c.field) {
			t.Errorf("%s: Sign() = %v, want a refusal of %s", name, err, c.field)
		}
		if l.Signature != nil {
			t.Errorf("%s: Sign() signed all the same", name)
		}
	}
	// The largest listing must fit into MaxBlob.
	l := full(key.ID())
	l.Tags, l.Skills = nil, nil
	for i := range listing.MaxTags {
		l.Tags = append(l.Tags, fmt.Sprintf("%02d", i)+strings.Repeat(`"`, listing.MaxTagBytes-2))
	}
	for i := range listing.MaxSkills {
		l.Skills = append(l.Skills, fmt.Sprintf("%02d", i)+strings.Repeat(`"`, listing.MaxSkillBytes-2))
	}
	l.Summary, l.ModelFamily = strings.Repeat(`\`, listing.MaxSummaryBytes), strings.Repeat(`"`, listing.MaxModelFamilyBytes)
	l.Owner, l.Price, l.Version = strings.Repeat(`"`, listing.MaxOwnerBytes), listing.MaxPrice, listing.MaxVersion
	if err := l.Sign(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if _, err := listing.Parse(l.Blob()); err != nil {
		t.Errorf("Parse() of the largest listing, %d bytes = %v, want nil", len(l.Blob()), err)
	}
}

func TestParseRefusesInvalidListings(t *testing.T) {
	id := seeded(t, 1).ID().String()
	for name, c := range map[string]struct{ blob, want string }{
		"no JSON":             {`{`, "listing:"},
		"a list":              {`[]`, "listing:"},
		"no id":               {`{"version":1}`, "vacant_id"},
		"no version":          {`{"vacant_id":"` + id + `"}`, "version"},
		"an unknown member":   {`{"vacant_id":"` + id + `","version":1,"rank":9}`, `"rank"`},
		"a member twice":      {`{"vacant_id":"` + id + `","version":1,"version":2}`, "twice"},
		"a float for a price": {`{"vacant_id":"` + id + `","version":1,"price":0.5}`, "listing: price: expected an integer"},
		"a text for a list":   {`{"vacant_id":"` + id + `","version":1,"tags":"a"}`, "tags"},
		"a number in a list":  {`{"vacant_id":"` + id + `","version":1,"tags":[1]}`, "tags"},
		"null":                {`{"vacant_id":"` + id + `","version":1,"owner":null}`, "owner"},
		"bad hex":             {`{"vacant_id":"` + id + `","version":1,"signature":"zz"}`, "signature"},
		"too many tags":       {`{"vacant_id":"` + id + `","version":1,"tags":[` + strings.Repeat(`"a",`, 16) + `"b"]}`, "tags"},
		"too large":           {strings.Repeat(" ", listing.MaxBlob+1), "listing"},
	} {
		if got, err := listing.Parse([]byte(c.blob)); err == nil || !strings.Contains(problem.AsError(err).Text(), c.want) {
			t.Errorf("%s: Parse() = %+v, %v, want a refusal of %s", name, got, err, c.want)
		}
	}
}

func TestTwoListingsAreEqualButForVersionAndSignature(t *testing.T) {
	a, b := full(seeded(t, 1).ID()), full(seeded(t, 1).ID())
	b.Version, b.Signature = 9, []byte{1}
	if !a.Equal(&b) {
		t.Error("Equal() = false, want true")
	}
	b.Summary += "."
	if a.Equal(&b) {
		t.Error("Equal() of another summary = true, want false")
	}
}

func FuzzAListingThatIsReadIsWrittenAgain(f *testing.F) {
	key := seeded(f, 1)
	l := full(key.ID())
	if err := l.Sign(f.Context(), key); err != nil {
		f.Fatal(err)
	}
	f.Add(l.Blob())
	f.Add([]byte(`{"vacant_id":"` + key.ID().String() + `","version":1}`))
	f.Fuzz(func(t *testing.T, blob []byte) {
		l, err := listing.Parse(blob)
		if err != nil {
			return
		}
		again, err := listing.Parse(l.Blob())
		if err != nil {
			t.Fatalf("Parse(Blob()) = %v, want nil", err)
		}
		if string(again.Blob()) != string(l.Blob()) || again.Hash() != l.Hash() {
			t.Errorf("Parse(Blob()).Blob() = %s, want %s", again.Blob(), l.Blob())
		}
	})
}

func venue() *listing.Venue {
	return &listing.Venue{
		Slug: "warung-sunset", Name: "Warung Sunset", Category: "restaurant", Location: "echo-beach", Areas: []string{"canggu"},
		Bookable: true, Capacity: 40, Hours: "12-22", ReferralFee: 700,
	}
}

func TestAVenueIsSignedUnderATagOfItsOwn(t *testing.T) {
	key := seeded(t, 1)
	l := listing.New(key.ID(), 3)
	l.Venue = venue()
	want := "vacancy:listing:v2\x1f" + `{"family":"","owner":"","price":0,"skills":[],"summary":"","tags":[],"vacant_id":"` + key.ID().String() +
		`","venue":{"areas":["canggu"],"bookable":true,"capacity":40,"category":"restaurant","hours":"12-22","location":"echo-beach",` +
		`"name":"Warung Sunset","referral_fee":700,"slug":"warung-sunset"},"version":3}`
	if got := string(l.AppendSignedBytes(nil)); got != want {
		t.Errorf("AppendSignedBytes() = %s, want %s", got, want)
	}
	if err := l.Sign(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	back, err := listing.Parse(l.Blob())
	if diff := cmp.Diff(l, back); err != nil || diff != "" || !back.Verify() || !back.Equal(&l) {
		t.Errorf("Parse(Blob()) = %v (-want +got):\n%s", err, diff)
	}
	for name, change := range map[string]func(*listing.Listing){
		"no venue": func(l *listing.Listing) { l.Venue = nil }, "slug": func(l *listing.Listing) { l.Venue.Slug = "x" },
		"name": func(l *listing.Listing) { l.Venue.Name = "" }, "category": func(l *listing.Listing) { l.Venue.Category = "x" },
		"location": func(l *listing.Listing) { l.Venue.Location = "x" }, "areas": func(l *listing.Listing) { l.Venue.Areas = nil },
		"bookable": func(l *listing.Listing) { l.Venue.Bookable = false }, "capacity": func(l *listing.Listing) { l.Venue.Capacity++ },
		"hours": func(l *listing.Listing) { l.Venue.Hours = "" }, "referral": func(l *listing.Listing) { l.Venue.ReferralFee++ },
	} {
		other := back
		other.Venue = venue()
		change(&other)
		if other.Verify() || other.Equal(&l) {
			t.Errorf("Verify(), Equal() after a change of %s = %v, %v, want false", name, other.Verify(), other.Equal(&l))
		}
	}
}

func TestEveryLimitOfAVenueIsHeldAndNamed(t *testing.T) {
	key := seeded(t, 1)
	for name, c := range map[string]struct {
		change func(*listing.Venue)
		field  string
	}{
		"a slug with a space":     {func(v *listing.Venue) { v.Slug = "a b" }, "slug"},
		"a slug in capitals":      {func(v *listing.Venue) { v.Slug = "Warung" }, "slug"},
		"a long slug":             {func(v *listing.Venue) { v.Slug = strings.Repeat("s", 65) }, "slug"},
		"another's default slug":  {func(v *listing.Venue) { v.Slug = listing.DefaultSlug("0123456789ab") }, "slug"},
		"the test venue's slug":   {func(v *listing.Venue) { v.Slug = listing.TestSlug }, "slug"},
		"a long name":             {func(v *listing.Venue) { v.Name = strings.Repeat("n", 129) }, "name"},
		"no category":             {func(v *listing.Venue) { v.Category = "" }, "category"},
		"a blank location":        {func(v *listing.Venue) { v.Location = " " }, "location"},
		"17 areas":                {func(v *listing.Venue) { v.Areas = strings.Split(strings.Repeat("a,", 16)+"a", ",") }, "areas"},
		"an area twice":           {func(v *listing.Venue) { v.Areas = []string{"a", "a"} }, "areas[1]"},
		"long hours":              {func(v *listing.Venue) { v.Hours = strings.Repeat("h", 257) }, "hours"},
		"a capacity below 0":      {func(v *listing.Venue) { v.Capacity = -1 }, "capacity"},
		"a referral fee of twice": {func(v *listing.Venue) { v.ReferralFee = 20_000 }, "referral_fee"},
	} {
		l := listing.New(key.ID(), 1)
		l.Venue = venue()
		c.change(l.Venue)
		if err := l.Sign(t.Context(), key); err == nil || !strings.Contains(problem.AsError(err).Text(), "venue: "+c.field) {
			t.Errorf("%s: Sign() = %v, want a refusal of venue: %s", name, err, c.field)
		}
	}
	for _, blob := range []string{`"venue":[]`, `"venue":{"slug":1}`, `"venue":{"bookable":"yes"}`, `"venue":{"capacity":"1"}`, `"venue":{"areas":{}}`, `"venue":{"color":"red"}`} {
		_, err := listing.Parse([]byte(`{"vacant_id":"` + key.ID().String() + `","version":1,` + blob + `}`))
		if err == nil || !strings.Contains(problem.AsError(err).Text(), "venue") {
			t.Errorf("Parse(%s) = %v, want a refusal of venue", blob, err)
		}
	}
}
