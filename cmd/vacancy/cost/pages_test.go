package cost_test

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/handlers"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/web"
	"github.com/vacancy-host/vacancy/shared/front/web/webpath"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/tests/awshost"
	"github.com/vacancy-host/vacancy/tests/estimates"
	"github.com/vacancy-host/vacancy/tests/roundtrips"
)

// A view of the page of a published vacant, over real tables.
func TestUnitsOfAPageAreThoseOfARealPage(t *testing.T) {
	host := awshost.New(t)
	id := host.Create(t, "demo", nil)
	if _, _, err := host.Open(t, host.Store(host.Endpoint), time.Now, nil).Vacants.Publish(t.Context(), id, vacants.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	now := func() time.Time { return begun } // caches of a second or two last for the test
	var counter roundtrips.Counter
	var read []string
	server, err := serve.Config{
		Store: host.Store(host.Endpoint, counter.Option), Vault: host.Vault, URL: awshost.URL, AllowRemote: true,
		Log: slog.New(slog.DiscardHandler), Now: now, Rand: rand.Reader,
	}.Open()
	must(t, err)
	log, err := server.OpenLog(nil)
	must(t, err)
	agents := server.OpenA2A()
	api := serve.Handlers{Message: server.MessageHandler(), Plain: agents.Plain, Protocols: handlers.NewProtocols(agents), Registry: server.RegistryHandler(log)}.Public()
	pages := web.Handler(web.Config{Log: slog.New(slog.DiscardHandler), Now: now, API: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		read = append(read, functions.Route(r.URL.Path).Function.Name)
		api.ServeHTTP(w, r)
	})})
	view := func() (body []byte) {
		read = nil
		counter.Reset()
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, httptest.NewRequest(http.MethodGet, awshost.URL+webpath.VacantPath("demo"), nil))
		if w.Code != http.StatusOK {
			t.Fatalf("the page = %d %s", w.Code, w.Body)
		}
		return w.Body.Bytes()
	}
	view() // signs the agent card, which an instance keeps
	page := view()
	slices.Sort(read)
	if diff := cmp.Diff([]string{"agent", "registry", "registry", "registry", "registry"}, read); diff != "" || len(read) != estimates.PageReads {
		t.Errorf("a page makes %d reads, the estimate is %v (-want +got):\n%s", len(read), estimates.PageReads, diff)
	}
	if counter.ReadUnits() != estimates.Page.ReadUnits || counter.WriteUnits() != 0 {
		t.Errorf("a page takes %v read units and writes %v, the estimate is %v and none", counter.ReadUnits(), counter.WriteUnits(), estimates.Page.ReadUnits)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(page)
	_ = z.Close()
	if n := float64(packed.Len() + answerHeaders); n > estimates.PageBytes || n < estimates.PageBytes*0.7 {
		t.Errorf("a page has %d bytes, compressed and with its header %v; the estimate is %v", len(page), n, estimates.PageBytes)
	}
	t.Logf("%d bytes, %d compressed; %v read units by %v", len(page), packed.Len(), counter.ReadUnits(), counter.Operations())
}
