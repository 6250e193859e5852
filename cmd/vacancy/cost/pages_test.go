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

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/web"
	"github.com/vacancy-host/vacancy/shared/front/web/webpath"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/tests/awshost"
	"github.com/vacancy-host/vacancy/tests/roundtrips"
)

// promisedPages are the costs of a million views of a vacant's page that CloudFront has not kept, in dollars.
const promisedPages = 3.50

// A view of the page of a published vacant, over real tables.
func TestUnitsOfAPageAreThoseOfARealPage(t *testing.T) {
	host := awshost.New(t)
	id := host.Create(t, "demo", nil)
	if _, _, err := host.Open(t, host.Store(host.Endpoint), time.Now, nil).Vacants.Publish(t.Context(), id, vacants.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	var counter roundtrips.Counter
	var read []string
	server, err := serve.Config{
		Store: host.Store(host.Endpoint, counter.Option), Vault: host.Vault, URL: awshost.URL, Elsewhere: true,
		Log: slog.New(slog.DiscardHandler), Now: time.Now, Rand: rand.Reader,
	}.Open()
	if err != nil {
		t.Fatal(err)
	}
	log, err := server.OpenLog(nil)
	if err != nil {
		t.Fatal(err)
	}
	api := serve.Handlers{Message: server.MessageHandler(), A2A: server.OpenA2A(), Registry: server.RegistryHandler(log)}.Public()
	pages := web.Handler(web.Config{Log: slog.New(slog.DiscardHandler), Now: time.Now, API: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		read = append(read, functions.Route(r.URL.Path).To.Name)
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
	m := cost.DefaultPage()
	slices.Sort(read)
	if diff := cmp.Diff([]string{"agent", "registry", "registry", "registry", "registry"}, read); diff != "" || float64(len(read)) != m.Reads {
		t.Errorf("a page makes %d reads, the model says %v (-want +got):\n%s", len(read), m.Reads, diff)
	}
	if counter.ReadUnits() != m.ReadUnits || counter.WriteUnits() != 0 {
		t.Errorf("a page takes %v read units and writes %v, the model says %v and none", counter.ReadUnits(), counter.WriteUnits(), m.ReadUnits)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(page)
	_ = z.Close()
	if n := float64(packed.Len() + cost.AnswerHeaders); n > m.AnswerBytes || n < m.AnswerBytes*0.7 {
		t.Errorf("a page has %d bytes, compressed and with its header %v; the model says %v", len(page), n, m.AnswerBytes)
	}
	t.Logf("%d bytes, %d compressed; %v read units by %v", len(page), packed.Len(), counter.ReadUnits(), counter.Operations())
}

func TestAMillionPagesCostNoMoreThanPromised(t *testing.T) {
	r := cost.Estimate(deployed(t), cost.ListPrices(), 1e6, nil)
	if r.Pages.USD > promisedPages || r.Pages.USD == 0 {
		t.Errorf("a million pages cost $%.3f, want at most $%.2f", r.Pages.USD, promisedPages)
	}
	if lines := cost.DefaultPage().Views(cost.Shape{}, cost.ListPrices(), 1); lines != nil {
		t.Errorf("a stage without web has %v", lines)
	}
}
