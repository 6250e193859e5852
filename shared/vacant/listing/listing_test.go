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
	l.Summary, l.Family, l.Owner, l.Price = "Deutsch und Englisch", "claude", "Example GmbH", 2000
	return l
}

func TestAListingIsSignedAndSerialisedAsDocumented(t *testing.T) {
	key := seeded(t, 1)
	l := full(key.ID())
	members := `"family":"claude","owner":"Example GmbH","price":2000,%s"skills":["contracts \"as is\""],"summary":"Deutsch und Englisch",` +
		`"tags":["translation","法律"],"vacant_id":"` + key.ID().String() + `","version":3`
	if want, got := "vacancy:listing:v1\x1f{"+fmt.Sprintf(members, "")+"}", string(l.AppendSigning(nil)); got != want {
		t.Errorf("AppendSigning() = %s, want %s", got, want)
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
		"family":       func(l *listing.Listing) { l.Family = "other" },
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
		"a long family":      {func(l *listing.Listing) { l.Family = strings.Repeat("f", 65) }, "family"},
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
		if err == nil || !strings.Contains(problem.Of(err).Text(), c.field) {
			t.Errorf("%s: Sign() = %v, want a refusal of %s", name, err, c.field)
		}
		if l.Signature != nil {
			t.Errorf("%s: Sign() signed all the same", name)
		}
	}
	// The largest listing fits into a blob.
	l := full(key.ID())
	l.Tags, l.Skills = nil, nil
	for i := range listing.MaxTags {
		l.Tags = append(l.Tags, fmt.Sprintf("%02d", i)+strings.Repeat(`"`, listing.MaxTag-2))
	}
	for i := range listing.MaxSkills {
		l.Skills = append(l.Skills, fmt.Sprintf("%02d", i)+strings.Repeat(`"`, listing.MaxSkill-2))
	}
	l.Summary, l.Family = strings.Repeat(`\`, listing.MaxSummary), strings.Repeat(`"`, listing.MaxFamily)
	l.Owner, l.Price, l.Version = strings.Repeat(`"`, listing.MaxOwner), listing.MaxPrice, listing.MaxVersion
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
		if got, err := listing.Parse([]byte(c.blob)); err == nil || !strings.Contains(problem.Of(err).Text(), c.want) {
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
