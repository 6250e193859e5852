package kit

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
)

// asked records the requested URLs.
type asked []string

func (a *asked) Do(_ context.Context, r outbound.Request) (outbound.Reply, error) {
	*a = append(*a, r.URL)
	return outbound.Reply{Status: 200}, nil
}

// Without an edge a stage's search function has another URL than its registry,
// which its operator need not know.
func TestSearchesGoWhereTheStageHasThem(t *testing.T) {
	dir := t.TempDir()
	rec := stage.Record{Stage: "dev", URL: "https://m.example", RegistryURL: "https://r.example", SearchURL: "https://s.example"}
	if err := (stage.Records{Dir: filepath.Join(dir, "stages")}).Write(rec); err != nil {
		t.Fatal(err)
	}
	a := &App{Env: map[string]string{"VACANCY_HOME": dir}}
	var got asked
	for _, registry := range []string{"https://r.example", "https://other.example"} {
		for _, path := range []string{"/v1/search?q=/v1/x", "/v1/query_capability", "/v1/capability_card/0", "/v1/searches"} {
			if _, err := a.Carried(registry, &got).Do(t.Context(), outbound.Request{URL: registry + path}); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := asked{
		"https://s.example/v1/search?q=/v1/x", "https://s.example/v1/query_capability", "https://r.example/v1/capability_card/0", "https://r.example/v1/searches",
		"https://other.example/v1/search?q=/v1/x", "https://other.example/v1/query_capability", "https://other.example/v1/capability_card/0", "https://other.example/v1/searches",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("URLs (-want +got):\n%s", diff)
	}
	url, err := a.RegistryURL(t.Context(), "", Where{Host: HostAWS, Stage: "dev"})
	if err != nil || url != "https://r.example" {
		t.Errorf("the stage's registry is %q, %v; want its own URL", url, err)
	}
}
