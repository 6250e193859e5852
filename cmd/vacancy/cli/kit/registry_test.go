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
	must(t, (stage.Records{Dir: filepath.Join(dir, "stages")}).Write(rec))
	a := &App{Env: map[string]string{"VACANCY_HOME": dir}}
	var got asked
	for _, registry := range []string{"https://r.example", "https://other.example"} {
		for _, path := range []string{"/v1/search?q=/v1/x", "/v1/query_capability", "/v1/capability_card/0", "/v1/searches"} {
			if _, err := a.RegistryTransport(registry, &got).Do(t.Context(), outbound.Request{URL: registry + path}); err != nil {
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
	url, err := a.RegistryURL(t.Context(), "", HostFlags{Host: HostAWS, Stage: "dev"})
	if err != nil || url != "https://r.example" {
		t.Errorf("the stage's registry is %q, %v; want its own URL", url, err)
	}
}

func TestChooseRegistry(t *testing.T) {
	const a, b, c, d = "https://a.example", "https://b.example", "https://c.example", "https://d.example"
	for name, v := range map[string]struct {
		given string
		w     HostFlags
		env   map[string]string
		want  string
	}{
		"the flag before all":                  {a + "/", HostFlags{Host: b}, map[string]string{"VACANCY_REGISTRY": c}, a},
		"the host that a person names":         {"", HostFlags{Host: b}, map[string]string{"VACANCY_REGISTRY": c, "VACANT_REGISTRY_URL": d}, b},
		"our variable before the reference's":  {"", HostFlags{}, map[string]string{"VACANCY_REGISTRY": c, "VACANT_REGISTRY_URL": d, "VACANCY_HOST": b}, c},
		"the reference's":                      {"", HostFlags{}, map[string]string{"VACANT_REGISTRY_URL": d + "/base/", "VACANCY_HOST": b}, d + "/base"},
		"the host of the environment":          {"", HostFlags{}, map[string]string{"VACANCY_HOST": b}, b},
		"with nothing the host here, if it is": {"", HostFlags{Data: t.TempDir()}, nil, ""},
		"a name without a URL is refused":      {"registry.example", HostFlags{}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			app := &App{Env: map[string]string{"VACANCY_HOME": t.TempDir()}}
			for k, v := range v.env {
				app.Env[k] = v
			}
			got, err := app.RegistryURL(context.Background(), v.given, v.w)
			if got != v.want || (err == nil) != (v.want != "") {
				t.Errorf("registryURL() = %q, %v, want %q", got, err, v.want)
			}
		})
	}
}

// A wrapping error may quote its cause for clients over HTTP; a person reads
// each part once.
