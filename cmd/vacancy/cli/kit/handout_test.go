package kit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

func TestHandoutsHaveAShortAddressAndACommandThatWorks(t *testing.T) {
	id := identity.ID{1}
	const at = "https://agents.example.org"
	for name, tc := range map[string]struct {
		change func(*admin.Vacant)
		want   []string
	}{
		"by its name":      {func(*admin.Vacant) {}, []string{"Callers reach fox at " + at + "/v/fox/", "  curl -w '\\n' -d hi " + at + "/v/fox/text"}},
		"a reserved name":  {func(v *admin.Vacant) { v.Name = "health" }, []string{"Callers reach " + id.String() + " at " + at + "/v/" + id.String() + "/", "  curl -w '\\n' -d hi " + at + "/v/" + id.String() + "/text"}},
		"a host in a path": {func(v *admin.Vacant) { v.Endpoint = strings.Replace(v.Endpoint, at, at+"/a", 1) }, []string{"Callers reach fox at " + at + "/a/v/fox/", "  curl -w '\\n' -d hi " + at + "/a/v/fox/text"}},
		"quoted":           {func(v *admin.Vacant) { v.Endpoint = strings.Replace(v.Endpoint, at, at+"/$(x)", 1) }, []string{"Callers reach fox at '" + at + "/$(x)/v/fox/'", "  curl -w '\\n' -d hi '" + at + "/$(x)/v/fox/text'"}},
		"paid":             {func(v *admin.Vacant) { v.Price = &price.Price{Flat: 1} }, []string{"Callers reach fox at " + at + "/v/fox/", `  curl -w '\n' -H "Authorization: Bearer $VACANCY_KEY" -d hi ` + at + "/v/fox/text"}},
		"free calls":       {func(v *admin.Vacant) { v.Price = &price.Price{Flat: 1, FreePerAddress: 3} }, []string{"Callers reach fox at " + at + "/v/fox/", "  curl -w '\\n' -d hi " + at + "/v/fox/text"}},
		"signed only":      {func(v *admin.Vacant) { v.KeylessAccess = "off" }, []string{"Callers reach fox at " + at + "/v/fox/"}},
		"closed child":     {func(v *admin.Vacant) { v.Closed = true }, nil},
		"sunk":             {func(v *admin.Vacant) { v.State = lifecycle.Sunk }, nil},
		"deleted":          {func(v *admin.Vacant) { v.DeletedAt = "2026-05-06T00:00:00+00:00" }, nil},
		"elsewhere":        {func(v *admin.Vacant) { v.Endpoint = "https://other.example/agent" }, nil},
		"of another":       {func(v *admin.Vacant) { v.ID[0]++ }, nil},
	} {
		v := admin.Vacant{ID: id, Name: "fox", State: lifecycle.Local, Endpoint: at + "/v/" + id.String() + "/a2a/message/send"}
		tc.change(&v)
		if diff := cmp.Diff(tc.want, HandoutOf(&v).Lines()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
