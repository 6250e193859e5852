// Package models contains the prices and tiers of providers' models. The table of models is
// versioned. Version 1 is built in. Rows of calls contain the version that determined their price,
// so old versions are never deleted.
package models

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

const (
	maxModels    = 1000
	maxNameBytes = 128                 // bytes
	maxPrice     = 1000 * money.Dollar // per million tokens
	maxTokens    = 1 << 31             // tokens of a turn, so that Cost does not overflow
)

const MaxBudget = 1_000_000 * money.Dollar

// Price is the price of a million tokens. CachedPrice applies to input tokens that the provider
// reads from its cache.
type Price struct {
	InputPrice  money.Amount `json:"input"`
	OutputPrice money.Amount `json:"output"`
	CachedPrice money.Amount `json:"cached"`
}

func (p Price) IsFree() bool { return p == Price{} }

// Cost returns the cost of a turn, rounded up to a micro-dollar.
func (p Price) Cost(u substrate.Usage) money.Amount {
	in, out := min(max(u.InputTokens, 0), maxTokens), min(max(u.OutputTokens, 0), maxTokens)
	cached := min(max(u.CachedTokens, 0), in)
	const million = 1_000_000
	return (p.InputPrice*money.Amount(in-cached) + p.CachedPrice*money.Amount(cached) + p.OutputPrice*money.Amount(out) + million - 1) / million
}

func (p Price) Check() error {
	for _, rate := range []struct {
		field string
		is    money.Amount
	}{{"input", p.InputPrice}, {"output", p.OutputPrice}, {"cached", p.CachedPrice}} {
		if rate.is < 0 || rate.is > maxPrice {
			return problem.Invalid(rate.field, fmt.Sprintf("0 to %d micro-dollars per million tokens", maxPrice), strconv.FormatInt(int64(rate.is), 10))
		}
	}
	return nil
}

// priceDocument is the JSON form of a Price. The default of CachedPrice is InputPrice.
type priceDocument struct {
	InputPrice  money.Amount  `json:"input" canon:"required"`
	OutputPrice money.Amount  `json:"output" canon:"required"`
	CachedPrice *money.Amount `json:"cached"`
}

func (r *priceDocument) toPrice() (Price, error) {
	p := Price{r.InputPrice, r.OutputPrice, r.InputPrice}
	if r.CachedPrice != nil {
		p.CachedPrice = *r.CachedPrice
	}
	return p, p.Check()
}

func (p *Price) UnmarshalCanon(d *canon.Decoder) (err error) {
	var doc priceDocument
	if err := d.Decode(&doc); err != nil {
		return err
	}
	*p, err = doc.toPrice()
	return err
}

func (p Price) String() string {
	return p.InputPrice.String() + "/" + p.OutputPrice.String() + "/" + p.CachedPrice.String()
}

type Tier string

const (
	High   Tier = "HIGH"
	Medium Tier = "MEDIUM"
	Low    Tier = "LOW"
)

func (t Tier) IsValid() bool { return t == High || t == Medium || t == Low }

type Model struct {
	Provider string `json:"provider"`
	Name     string `json:"model"`
	Price
	Tier Tier `json:"tier,omitempty"`
}

// Table is a version of the table of models, ordered by provider and name.
type Table struct {
	Version int     `json:"version"`
	Models  []Model `json:"models"`
}

// Find returns the entry with the name of a substrate's model, or otherwise an entry of the same
// price family.
func (t *Table) Find(s substrate.Spec) (m Model, ok bool) {
	_, name, isModel := s.Model()
	for _, candidate := range t.Models {
		switch {
		case !isModel || candidate.Provider != s.Kind:
		case candidate.Name == name:
			return candidate, true
		case !ok && priceFamily(candidate.Provider, candidate.Name) == priceFamily(candidate.Provider, name):
			m, ok = candidate, true
		}
	}
	return m, ok
}

// priceFamily returns a common name for the versions of a model with the same documented price.
func priceFamily(provider, name string) string {
	name = strings.ToLower(name)
	switch provider {
	// for example claude-haiku-4-5-20251001
	case substrate.KindAnthropic:
		return anthropicDate.ReplaceAllString(name, "")
	case substrate.KindBedrock: // an inference profile has the price of its model
		model, _ := substrate.FoundationModel(name)
		return model
	case substrate.KindGemini: // for example gemini-2.5-flash-001
		return geminiVersion.ReplaceAllString(name, "")
	case substrate.KindMistral, substrate.KindOpenAI:
		return cmp.Or(undatedNames[name], name)
	}
	return name
}

var (
	anthropicDate = regexp.MustCompile(`-[0-9]{8}$`)
	geminiVersion = regexp.MustCompile(`-0[0-9]{2}$`)
)

// undatedNames maps dated models to undated names with the same price. A dated model with a
// different price, for example gpt-4o-2024-05-13, is not included.
var undatedNames = map[string]string{
	"gpt-4.1-2025-04-14":      "gpt-4.1",
	"gpt-4.1-mini-2025-04-14": "gpt-4.1-mini",
	"gpt-4o-2024-08-06":       "gpt-4o",
	"gpt-4o-2024-11-20":       "gpt-4o",
	"gpt-4o-mini-2024-07-18":  "gpt-4o-mini",
	"gpt-5-2025-08-07":        "gpt-5",
	"gpt-5-mini-2025-08-07":   "gpt-5-mini",
	"gpt-5-nano-2025-08-07":   "gpt-5-nano",
	"mistral-large-2512":      "mistral-large-latest",
	"mistral-medium-2505":     "mistral-medium-latest",
	"mistral-medium-2508":     "mistral-medium-latest",
	"mistral-small-2506":      "mistral-small-latest",
}

func (t *Table) FindByTier(provider string, tier Tier) (m Model, ok bool) {
	i := slices.IndexFunc(t.Models, func(m Model) bool { return m.Provider == provider && m.Tier == tier })
	if i < 0 {
		return m, false
	}
	return t.Models[i], true
}

type TableDocument struct {
	Version json.RawMessage `json:"version" canon:"null"`
	Models  []row           `json:"models"`
}

// Parse parses the JSON form of a table. It ignores the member version, because the host assigns
// versions.
func Parse(data []byte) (t Table, err error) {
	var body TableDocument
	if err := canon.Unmarshal(data, &body, canon.Limits{Bytes: MaxTableBytes, Depth: 8, Keys: 8}); err != nil {
		return t, err
	}
	switch n := len(body.Models); {
	case n > maxModels:
		return t, problem.Invalid("models", fmt.Sprintf("at most %d", maxModels), strconv.Itoa(n))
	case n == 0:
		return t, problem.Invalid("models", "at least one model", "none")
	}
	for i := range body.Models {
		m, err := body.Models[i].toModel()
		if err != nil {
			return t, problem.AtPath(fmt.Sprintf("models[%d]", i), err)
		}
		index, found := slices.BinarySearchFunc(t.Models, m, func(a, b Model) int {
			return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Name, b.Name))
		})
		if found {
			return t, problem.Invalid("models", "each model once", m.Provider+":"+m.Name+" twice")
		}
		t.Models = slices.Insert(t.Models, index, m)
	}
	modelByTier := map[string]string{}
	for _, m := range t.Models {
		key := m.Provider + " " + string(m.Tier)
		if other := modelByTier[key]; m.Tier != "" && other != "" {
			return t, problem.Invalid("models", "one model of "+m.Provider+" with the tier "+string(m.Tier), other+" and "+m.Name)
		}
		modelByTier[key] = m.Name
	}
	return t, nil
}

const MaxTableBytes = 256 << 10

type row struct {
	Provider string `json:"provider"`
	Name     string `json:"model"`
	priceDocument
	Tier Tier `json:"tier"`
}

func (r *row) toModel() (m Model, err error) {
	m = Model{Provider: r.Provider, Name: r.Name, Tier: r.Tier}
	switch {
	case (substrate.Spec{Kind: m.Provider, Argument: "m"}).Family() != "model:m":
		return m, problem.Invalid("provider", "anthropic, bedrock, gemini, mistral, ollama or openai", fmt.Sprintf("%.40q", m.Provider))
	case m.Name == "" || len(m.Name) > maxNameBytes || strings.ContainsAny(m.Name, "# "):
		return m, problem.Invalid("model", fmt.Sprintf("a name of 1 to %d bytes", maxNameBytes), fmt.Sprintf("%.80q", m.Name))
	case m.Tier != "" && !m.Tier.IsValid():
		return m, problem.Invalid("tier", "HIGH, MEDIUM, LOW or none", fmt.Sprintf("%.40q", m.Tier))
	}
	m.Price, err = r.toPrice()
	return m, err
}

func (t *Table) Blob() []byte {
	b, err := json.Marshal(t)
	if err != nil {
		panic(err)
	}
	return b
}

// BuiltinTable returns the providers' list prices of November 2026 without surcharges for long
// contexts or Regions.
func BuiltinTable() Table {
	// Prices are in thousandths of a dollar.
	newModel := func(provider, name string, in, out, cached money.Amount, tier Tier) Model {
		const thousandth = money.Dollar / 1000
		return Model{provider, name, Price{in * thousandth, out * thousandth, cached * thousandth}, tier}
	}
	return Table{Version: 1, Models: []Model{
		newModel(substrate.KindAnthropic, "claude-haiku-4-5", 1000, 5000, 100, Low),
		newModel(substrate.KindAnthropic, "claude-opus-4-6", 5000, 25000, 500, High),
		newModel(substrate.KindAnthropic, "claude-sonnet-4-5", 3000, 15000, 300, Medium),
		newModel(substrate.KindBedrock, "amazon.nova-lite-v1:0", 60, 240, 15, ""),
		newModel(substrate.KindBedrock, "amazon.nova-micro-v1:0", 35, 140, 9, ""),
		newModel(substrate.KindBedrock, "amazon.nova-pro-v1:0", 800, 3200, 200, ""),
		newModel(substrate.KindBedrock, "global.anthropic.claude-haiku-4-5-20251001-v1:0", 1000, 5000, 100, Low),
		newModel(substrate.KindBedrock, "global.anthropic.claude-opus-4-6-v1", 5000, 25000, 500, High),
		newModel(substrate.KindBedrock, "global.anthropic.claude-sonnet-4-5-20250929-v1:0", 3000, 15000, 300, Medium),
		newModel(substrate.KindGemini, "gemini-2.5-flash", 300, 2500, 30, Low),
		newModel(substrate.KindGemini, "gemini-2.5-pro", 1250, 10000, 125, ""),
		newModel(substrate.KindGemini, "gemini-3-flash-preview", 500, 3000, 50, Medium),
		newModel(substrate.KindGemini, "gemini-3-pro-preview", 2000, 12000, 200, High),
		newModel(substrate.KindMistral, "mistral-large-2411", 2000, 6000, 2000, ""),
		newModel(substrate.KindMistral, "mistral-large-latest", 500, 1500, 500, High),
		newModel(substrate.KindMistral, "mistral-medium-latest", 400, 2000, 400, Medium),
		newModel(substrate.KindMistral, "mistral-small-latest", 100, 300, 100, Low),
		newModel(substrate.KindOpenAI, "gpt-4.1", 2000, 8000, 500, ""),
		newModel(substrate.KindOpenAI, "gpt-4.1-mini", 400, 1600, 100, ""),
		newModel(substrate.KindOpenAI, "gpt-4o", 2500, 10000, 1250, ""),
		newModel(substrate.KindOpenAI, "gpt-4o-2024-05-13", 5000, 15000, 5000, ""),
		newModel(substrate.KindOpenAI, "gpt-4o-mini", 150, 600, 75, ""),
		newModel(substrate.KindOpenAI, "gpt-5", 1250, 10000, 125, High),
		newModel(substrate.KindOpenAI, "gpt-5-mini", 250, 2000, 25, Medium),
		newModel(substrate.KindOpenAI, "gpt-5-nano", 50, 400, 5, Low),
	}}
}
