package models_test

import (
	"crypto/rand"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

func TestATurnCostsWhatItsTokensCost(t *testing.T) {
	p := models.Price{InputPrice: 3_000_000, OutputPrice: 15_000_000, CachedPrice: 300_000}
	for _, tt := range []struct {
		u    substrate.Usage
		want money.Amount
	}{
		{substrate.Usage{}, 0},
		{substrate.Usage{InputTokens: 1_000_000, OutputTokens: 1_000_000}, 18_000_000},
		{substrate.Usage{InputTokens: 1000, OutputTokens: 100, CachedTokens: 600}, 1200 + 1500 + 180},
		{substrate.Usage{InputTokens: 1, CachedTokens: 1}, 1}, // a third of a micro-dollar
		{substrate.Usage{InputTokens: 10, CachedTokens: 99}, 3},
		{substrate.Usage{InputTokens: -5, OutputTokens: -5, CachedTokens: -5}, 0},
	} {
		if got := p.Cost(tt.u); got != tt.want {
			t.Errorf("Cost(%+v) = %d, want %d", tt.u, got, tt.want)
		}
	}
	most := models.Price{InputPrice: 1000 * money.Dollar, OutputPrice: 1000 * money.Dollar, CachedPrice: 1000 * money.Dollar}
	if got := most.Cost(substrate.Usage{InputTokens: math.MaxInt, OutputTokens: math.MaxInt, CachedTokens: math.MaxInt}); got < most.Cost(substrate.Usage{InputTokens: 1 << 30}) {
		t.Errorf("absurd usage costs %d", got)
	}
}

func TestTheBuiltInTableIsOne(t *testing.T) {
	known := models.BuiltinTable()
	parsed, err := models.Parse(known.Blob())
	if parsed.Version = known.Version; err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(known, parsed); diff != "" {
		t.Errorf("the built-in table is another once it is read (-want +got):\n%s", diff)
	}
	for _, provider := range []string{"anthropic", "gemini", "mistral", "openai"} {
		for _, tier := range []models.Tier{models.High, models.Medium, models.Low} {
			if m, ok := known.FindByTier(provider, tier); !ok || m.OutputPrice == 0 {
				t.Errorf("%s has no model of tier %s", provider, tier)
			}
		}
	}
}

func TestAModelIsFoundByItsName(t *testing.T) {
	known := models.BuiltinTable()
	for text, want := range map[string]string{
		"anthropic:claude-opus-4-6":                          "claude-opus-4-6",
		"anthropic:claude-opus-4-6-20260205":                 "claude-opus-4-6",
		"anthropic:https://proxy.example/v1#claude-opus-4-6": "claude-opus-4-6",
		"openai:gpt-5":                                        "gpt-5",
		"openai:gpt-5-mini":                                   "gpt-5-mini",
		"openai:gpt-5-2025-08-07":                             "gpt-5",
		"openai:gpt-5-mini-2025-08-07":                        "gpt-5-mini",
		"mistral:mistral-large-latest":                        "mistral-large-latest",
		"mistral:mistral-large-2512":                          "mistral-large-latest",
		"mistral:mistral-large-2411":                          "mistral-large-2411",
		"mistral:mistral-large-2407":                          "",
		"openai:gpt-4o-2024-05-13":                            "gpt-4o-2024-05-13",
		"openai:gpt-4o-2024-08-06":                            "gpt-4o",
		"openai:GPT-4o-2024-11-20":                            "gpt-4o",
		"openai:gpt-4o-latest":                                "",
		"openai:gpt-4o-2026-01-01":                            "",
		"bedrock:amazon.nova-lite-v1:0":                       "amazon.nova-lite-v1:0",
		"bedrock:eu.amazon.nova-lite-v1:0":                    "amazon.nova-lite-v1:0",
		"bedrock:eu.anthropic.claude-haiku-4-5-20251001-v1:0": "global.anthropic.claude-haiku-4-5-20251001-v1:0",
		"bedrock:anthropic.claude-haiku-4-5-20260101-v1:0":    "",
		"bedrock:amazon.nova-lite-v2:0":                       "",
		"gemini:gemini-2.5-flash-001":                         "gemini-2.5-flash",
		"openai:gpt-5-pro":                                    "",
		"openai:gpt-5o":                                       "",
		"openai:claude-opus-4-6":                              "",
		"anthropic:claude-opus-4-6-thinks":                    "",
		"anthropic:claude":                                    "",
		"mock:claude-opus-4-6":                                "",
		"echo":                                                "",
	} {
		spec, err := substrate.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if m, ok := known.Find(spec); m.Name != want || ok != (want != "") {
			t.Errorf("Find(%s) = %q, want %q", text, m.Name, want)
		}
	}
}

// A dated version of a model in the table has the model's price only if its provider documents
// that, so no version gets the price of the newest one only by its name.
func TestADatedModelHasThePriceOfItsFamilyOnlyIfItIsDocumented(t *testing.T) {
	known := models.BuiltinTable()
	priced := map[string]bool{substrate.KindAnthropic: true} // the version is in the name
	for _, m := range known.Models {
		name := strings.TrimSuffix(m.Name, "-latest")
		for _, suffix := range []string{"-2023-01-01", "-20230101", "-2301", "-latest", "-preview"} {
			if name+suffix == m.Name {
				continue
			}
			spec := substrate.Spec{Kind: m.Provider, Argument: name + suffix}
			got, ok := known.Find(spec)
			if want := priced[m.Provider] && suffix == "-20230101"; ok != want || ok && got.Price != m.Price {
				t.Errorf("Find(%s) = %s, %t; want a price: %t", spec, got.Name, ok, want)
			}
		}
		if got, ok := known.Find(substrate.Spec{Kind: m.Provider, Argument: m.Name}); !ok || got != m {
			t.Errorf("Find(%s:%s) = %+v, %t, want its own entry", m.Provider, m.Name, got, ok)
		}
	}
}

// A table that an operator set has other prices, and one that an earlier program stored has no
// entries for dated models.
func TestADocumentedVersionHasThePriceInTheOperatorsTable(t *testing.T) {
	table, err := models.Parse([]byte(`{"models":[{"provider":"openai","model":"gpt-4o","input":7,"output":8},{"provider":"mistral","model":"mistral-large-2512","input":9,"output":9}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]money.Amount{
		"openai:gpt-4o": 7, "openai:gpt-4o-2024-08-06": 7, "openai:gpt-4o-2024-05-13": 0,
		"mistral:mistral-large-latest": 9, "mistral:mistral-large-2411": 0,
	} {
		spec, err := substrate.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if m, ok := table.Find(spec); m.InputPrice != want || ok != (want > 0) {
			t.Errorf("Find(%s) = %+v, %t, want %d", text, m, ok, want)
		}
	}
}

const row = `{"provider":"openai","model":"m","input":1,"output":2}`

func TestParseNamesTheInvalidMember(t *testing.T) {
	for in, want := range map[string]string{
		`[]`:                                   "",
		`{}`:                                   "models: expected at least one model",
		`{"models":[],"x":1}`:                  "x: expected version or models",
		`{"models":[7]}`:                       "models[0]",
		`{"models":[` + row + `,` + row + `]}`: "openai:m twice",
		`{"models":[{"provider":"openai","model":"m","input":1}]}`:                                                                                             "models[0].output: expected an integer of micro-dollars, got nothing",
		`{"models":[{"provider":"openai","model":"m","input":1,"output":-2}]}`:                                                                                 "models[0].output",
		`{"models":[{"provider":"openai","model":"m","input":1.5,"output":2}]}`:                                                                                "models[0]",
		`{"models":[{"provider":"openai","model":"m","input":1,"output":2000000000}]}`:                                                                         "models[0].output: expected 0 to",
		`{"models":[{"provider":"mock","model":"m","input":1,"output":2}]}`:                                                                                    "models[0].provider",
		`{"models":[{"provider":"openai","model":"","input":1,"output":2}]}`:                                                                                   "models[0].model",
		`{"models":[{"provider":"openai","model":"a#b","input":1,"output":2}]}`:                                                                                "models[0].model",
		`{"models":[{"provider":"openai","model":"m","input":1,"output":2,"tier":"BEST"}]}`:                                                                    "models[0].tier",
		`{"models":[{"provider":"openai","model":"m","input":1,"output":2,"price":"BEST"}]}`:                                                                   "models[0].price",
		`{"models":[{"provider":"openai","model":"a","input":1,"output":2,"tier":"LOW"},{"provider":"openai","model":"b","input":1,"output":2,"tier":"LOW"}]}`: "a and b",
		`{"models":[` + strings.Repeat(row+",", 1000) + row + `]}`:                                                                                             "models: expected at most 1000",
	} {
		_, err := models.Parse([]byte(in))
		if err == nil || !strings.Contains(problem.AsError(err).Text(), want) {
			t.Errorf("Parse(%.90s) = %v, want an error that says %q", in, err, want)
		}
	}
	got, err := models.Parse([]byte(`{"version":9,"models":[{"model":"z","provider":"openai","output":2,"input":3,"tier":"LOW"},` + row + `]}`))
	want := models.Table{Models: []models.Model{{Provider: "openai", Name: "m", Price: models.Price{InputPrice: 1, OutputPrice: 2, CachedPrice: 1}}, {Provider: "openai", Name: "z", Price: models.Price{InputPrice: 3, OutputPrice: 2, CachedPrice: 3}, Tier: models.Low}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("Parse() = %v (-want +got):\n%s", err, diff)
	}
}

func FuzzParse(f *testing.F) {
	known := models.BuiltinTable()
	f.Add(known.Blob())
	f.Add([]byte(`{"models":[` + row + `]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		a, err := models.Parse(in)
		if err != nil {
			return
		}
		b, err := models.Parse(a.Blob())
		if diff := cmp.Diff(a, b); diff != "" || err != nil {
			t.Errorf("read again: %v (-want +got):\n%s", err, diff)
		}
	})
}

func TestVersionsOfATableAreNumberedAndStay(t *testing.T) {
	s, now := memory.New(), time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)
	tables := models.NewTables(s, func() time.Time { return now }, rand.Reader)
	other := models.NewTables(s, func() time.Time { return now }, rand.Reader) // of another process
	current := func(of *models.Tables, version, n int) {
		t.Helper()
		if got, err := of.Current(t.Context()); err != nil || got.Version != version || len(got.Models) != n {
			t.Errorf("Current() = version %d with %d models, %v; want version %d with %d", got.Version, len(got.Models), err, version, n)
		}
	}
	all := len(models.BuiltinTable().Models)
	current(tables, 1, all)
	current(other, 1, all)
	next, err := models.Parse([]byte(`{"models":[` + row + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the same table does not make a new version
		if got, err := tables.Set(t.Context(), next); err != nil || got.Version != 2 {
			t.Errorf("Set() = version %d, %v; want 2", got.Version, err)
		}
	}
	current(tables, 2, 1)
	current(other, 1, all)
	now = now.Add(models.CacheTime)
	current(other, 2, 1)
	if got, err := other.Set(t.Context(), models.BuiltinTable()); err != nil || got.Version != 3 {
		t.Errorf("Set() = version %d, %v; want 3", got.Version, err)
	}
	var kept models.Table
	d, err := s.Doc(t.Context(), store.Key{Partition: "models", Sort: "00000002"})
	if err != nil || json.Unmarshal(d.Data, &kept) != nil || len(kept.Models) != 1 {
		t.Errorf("version 2 is %s, %v", d.Data, err)
	}
	if err := s.Commit(t.Context(), store.Put{Key: store.Key{Partition: "models", Sort: "current"}, IfVersion: 2, Data: []byte("{}"), WriteID: store.WriteID{9}}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(models.CacheTime)
	if _, err := tables.Current(t.Context()); !problem.Is(err, problem.Damaged) {
		t.Errorf("Current() of a damaged table = %v", err)
	}
}
