package registryapi_test

import (
	"math"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/registryapi"
)

// The ranges in the OpenAPI document equal the ranges of the handlers: their ends are accepted, and
// values beyond them get 422.
func TestQueriesAreReadInTheRangesThatAreTold(t *testing.T) {
	d := newTestServer(t)
	key := newKey(t)
	d.acceptPublication(key, "translate")
	ranges := 0
	for _, s := range registryapi.Operations() {
		if s.In == nil {
			continue
		}
		ranged, ok := reflect.New(s.In).Interface().(op.Ranged)
		if !ok {
			continue
		}
		for name, is := range ranged.Ranges() {
			ranges++
			if !slices.ContainsFunc(s.Fields(), func(f op.Field) bool { return f.Place == "query" && f.Name == name }) {
				t.Errorf("%s %s has a range of %s, which it does not read", s.Method, s.Path, name)
			}
			at := func(value string) string {
				query := url.Values{}
				for other, of := range ranged.Ranges() {
					if of.Required {
						query.Set(other, strconv.FormatInt(of.Min, 10))
					}
				}
				query.Set(name, value)
				if value == "" {
					query.Del(name)
				}
				return strings.ReplaceAll(s.Path, "{id}", key.ID().String()) + "?" + query.Encode()
			}
			accepted := is.Words
			others := []string{"x", "-1", "1e3"}
			if is.Words == nil {
				accepted = []string{strconv.FormatInt(is.Min, 10), strconv.FormatInt(is.Max, 10)}
				others = []string{"x", strconv.FormatInt(is.Min-1, 10), "99999999999999999999"}
				if is.Max < math.MaxInt64 {
					others = append(others, strconv.FormatInt(is.Max+1, 10))
				}
			}
			if is.Required {
				others = append(others, "")
			} else {
				accepted = append(accepted, "")
			}
			for _, value := range accepted {
				if resp := d.send(s.Method, at(value), nil, nil); resp.StatusCode == 422 {
					t.Errorf("%s %s = 422", s.Method, at(value))
				}
			}
			for _, value := range others {
				refused(t, d.send(s.Method, at(value), nil, nil), 422, "schema", name)
			}
		}
	}
	if ranges < 10 {
		t.Errorf("%d parameters have a range, want at least 10", ranges)
	}
}
