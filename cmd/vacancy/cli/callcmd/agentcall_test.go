package callcmd

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func TestThePriceOfAURLWithAQueryIsChecked(t *testing.T) {
	id := identity.ID{7}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.RequestURI != "/.well-known/agent-card.json?vacant=demo" {
			t.Errorf("a request for %s", r.RequestURI)
		}
		fmt.Fprintf(w, `{"name":"a","version":"1","url":"http://127.0.0.1","capabilities":{"extensions":[{"uri":%q,"params":{"vacant_id":%q,"price":"5"}}]}}`, a2awire.Extension, id)
	}))
	t.Cleanup(s.Close)
	target := dispatch.Target{ID: id, URL: s.URL + "/a2a/message/send?vacant=demo"}
	for most, dear := range map[int64]bool{4: true, 5: false} {
		if err := checkPrice(t.Context(), dispatch.NewHTTP(dispatch.HTTPOptions{}), target, most); problem.Is(err, problem.PriceAboveMax) != dear {
			t.Errorf("checkPrice() with at most %d = %v", most, err)
		}
	}
}
