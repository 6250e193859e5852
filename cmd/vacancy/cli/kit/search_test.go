package kit

import (
	"context"
	"errors"
	"testing"

	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestDollarsAreReadExactly(t *testing.T) {
	for s, want := range map[string]int64{
		"0": 0, "1": 1_000_000, "0.002": 2000, "0.000001": 1, "12.5": 12_500_000, "999999999": 999_999_999_000_000, "0.100000": 100_000,
	} {
		if got, err := MicroDollars("--max-price", s); got != want || err != nil {
			t.Errorf("microDollars(%q) = %d, %v, want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", ".", ".5", "5.", "-1", "+1", "1e3", "0.0000001", "1,5", "$1", "1000000000", "NaN", "٣", " 1"} {
		if got, err := MicroDollars("--max-price", s); !problem.Is(err, problem.Usage) {
			t.Errorf("microDollars(%q) = %d, %v, want %v", s, got, err, problem.Usage)
		}
	}
	for micro, want := range map[int64]string{0: "free", 1: "$0.000001", 2000: "$0.002", 1_000_000: "$1", 12_500_000: "$12.5", 10_000_000: "$10"} {
		if got := Dollars(micro); got != want {
			t.Errorf("dollars(%d) = %s, want %s", micro, got, want)
		}
	}
}

func TestChooseRegistry(t *testing.T) {
	const a, b, c, d = "https://a.example", "https://b.example", "https://c.example", "https://d.example"
	for name, v := range map[string]struct {
		given string
		w     Where
		env   map[string]string
		want  string
	}{
		"the flag before all":                   {a + "/", Where{Host: b}, map[string]string{"VACANCY_REGISTRY": c}, a},
		"the host that a person names":          {"", Where{Host: b}, map[string]string{"VACANCY_REGISTRY": c, "VACANT_REGISTRY_URL": d}, b},
		"our variable before the reference's":   {"", Where{}, map[string]string{"VACANCY_REGISTRY": c, "VACANT_REGISTRY_URL": d, "VACANCY_HOST": b}, c},
		"the reference's":                       {"", Where{}, map[string]string{"VACANT_REGISTRY_URL": d + "/base/", "VACANCY_HOST": b}, d + "/base"},
		"the host of the environment":           {"", Where{}, map[string]string{"VACANCY_HOST": b}, b},
		"with nothing the host here, if it is":  {"", Where{Data: t.TempDir()}, nil, ""},
		"what is no registry's URL is no place": {"registry.example", Where{}, nil, ""},
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
func TestAnErrorSaysNothingTwice(t *testing.T) {
	cause := problem.Wrap(problem.Unavailable, errors.New("refused"), "no answer")
	quoting := problem.Wrap(problem.Unavailable, cause, "URL: %s", cause.Text())
	for want, p := range map[string]*problem.Error{
		"no answer: refused":                 cause,
		"URL: no answer: refused":            quoting,
		"search: URL: no answer: refused":    problem.Wrap(problem.Unavailable, quoting, "search: %s", quoting.Text()),
		"it failed: URL: no answer: refused": problem.Wrap(problem.Unavailable, quoting, "it failed"),
	} {
		if got := FullText(p); got != want {
			t.Errorf("whole() = %q, want %q", got, want)
		}
	}
}
