// Package models says what providers' models cost.
//
// Its table is versioned: version 1 is built in, and the operator sets the next ones.
// Rows of calls name the version by which they were paid, so versions stay.
package models

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// Limits of a table.
const (
	maxModels = 1000
	maxName   = 128           // bytes
	maxPrice  = 1000 * Dollar // a million tokens
	maxTokens = 1 << 31       // of a turn, for prices
)

// Price is what a million tokens cost. Input that a provider had kept from before
// costs Cached.
type Price struct {
	In     Money `json:"input"`
	Out    Money `json:"output"`
	Cached Money `json:"cached"`
}

// Cost is what a turn costs, rounded up.
func (p Price) Cost(u substrate.Usage) Money {
	in, out := min(max(u.In, 0), maxTokens), min(max(u.Out, 0), maxTokens)
	cached := min(max(u.Cached, 0), in)
	const million = 1_000_000
	return (p.In*Money(in-cached) + p.Cached*Money(cached) + p.Out*Money(out) + million - 1) / million
}

// Check checks the bounds. The error names the member.
func (p Price) Check() error {
	for _, one := range []struct {
		field string
		is    Money
	}{{"input", p.In}, {"output", p.Out}, {"cached", p.Cached}} {
		if one.is < 0 || one.is > maxPrice {
			return problem.Invalid(one.field, fmt.Sprintf("0 to %d micro-dollars a million tokens", maxPrice), strconv.FormatInt(int64(one.is), 10))
		}
	}
	return nil
}

// ReadPrice reads {"input", "output", "cached"}. Without cached it is that of input.
func ReadPrice(d *canon.Decoder) (p Price, err error) {
	cached := false
	err = d.Object(func(key string) error {
		to := map[string]*Money{"input": &p.In, "output": &p.Out, "cached": &p.Cached}[key]
		if to == nil {
			return problem.Invalid(fmt.Sprintf("%.40s", key), "input, output or cached", "another member")
		}
		cached = cached || key == "cached"
		n, err := d.Int64()
		*to = Money(n)
		return err
	})
	if !cached {
		p.Cached = p.In
	}
	if err == nil {
		err = p.Check()
	}
	return p, err
}

// String is the price in dollars a million tokens, as $3/$15/$0.3.
func (p Price) String() string { return p.In.String() + "/" + p.Out.String() + "/" + p.Cached.String() }

// Tier is how able a model is among those of its provider.
type Tier string

// The tiers.
const (
	High   Tier = "HIGH"
	Medium Tier = "MEDIUM"
	Low    Tier = "LOW"
)

// Model is a provider's model. Its versions, as Name-latest and Name-20260401, cost the
// same unless the table has them too.
type Model struct {
	Provider string `json:"provider"`
	Name     string `json:"model"`
	Price
	Tier Tier `json:"tier,omitempty"` // "": of none
}

// Table is a version of what models cost, by provider and name.
type Table struct {
	Version int     `json:"version"`
	Models  []Model `json:"models"`
}

// Find is the model of a substrate at its provider, or at another server of its kind:
// the one of its name, or of which it is a version.
func (t *Table) Find(s substrate.Spec) (m Model, ok bool) {
	_, name, isModel := s.Model()
	for _, one := range t.Models {
		switch {
		case !isModel || one.Provider != s.Kind:
		case one.Name == name:
			return one, true
		case !ok && substrate.BaseModel(one.Name) == substrate.BaseModel(name):
			m, ok = one, true
		}
	}
	return m, ok
}

// OfTier is the model of a provider's tier.
func (t *Table) OfTier(provider string, tier Tier) (m Model, ok bool) {
	i := slices.IndexFunc(t.Models, func(m Model) bool { return m.Provider == provider && m.Tier == tier })
	if i < 0 {
		return m, false
	}
	return t.Models[i], true
}

// Parse reads {"models": [{"provider", "model", "input", "output", "cached", "tier"}]},
// prices in micro-dollars a million tokens. A member version is ignored: it is given by
// the host.
func Parse(data []byte) (t Table, err error) {
	d := canon.NewDecoder(data, canon.Limits{Bytes: MaxTable, Depth: 8, Keys: 8})
	err = d.Document(func(key string) error {
		switch key {
		case "version":
			return d.Skip()
		case "models":
			return d.Array(func(i int) error {
				if i >= maxModels {
					return problem.Invalid("models", fmt.Sprintf("at most %d", maxModels), "more")
				}
				m, err := readModel(d)
				if err != nil {
					return problem.Within(problem.Malformed, fmt.Sprintf("models[%d]", i), err)
				}
				t.Models = append(t.Models, m)
				return nil
			})
		}
		return problem.Invalid(fmt.Sprintf("%.40s", key), "models or version", "another member")
	})
	if err == nil && len(t.Models) == 0 {
		err = problem.Invalid("models", "one model at least", "none")
	}
	if err != nil {
		return t, err
	}
	slices.SortStableFunc(t.Models, func(a, b Model) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Name, b.Name))
	})
	for i := 1; i < len(t.Models); i++ {
		if a, b := t.Models[i-1], t.Models[i]; a.Provider == b.Provider && a.Name == b.Name {
			return t, problem.Invalid("models", "each model once", a.Provider+":"+a.Name+" twice")
		}
	}
	return t, t.checkTiers()
}

// MaxTable is the largest table in bytes.
const MaxTable = 256 << 10

func (t *Table) checkTiers() error {
	had := map[string]string{}
	for _, m := range t.Models {
		key := m.Provider + " " + string(m.Tier)
		if before := had[key]; m.Tier != "" && before != "" {
			return problem.Invalid("models", "one model of "+m.Provider+" with the tier "+string(m.Tier), before+" and "+m.Name)
		}
		had[key] = m.Name
	}
	return nil
}

func readModel(d *canon.Decoder) (m Model, err error) {
	in, out, cached := Money(-1), Money(-1), Money(-1)
	err = d.Object(func(key string) (err error) {
		text := map[string]*string{"provider": &m.Provider, "model": &m.Name, "tier": (*string)(&m.Tier)}[key]
		number := map[string]*Money{"input": &in, "output": &out, "cached": &cached}[key]
		switch {
		case text != nil:
			*text, err = d.String()
		case number != nil:
			var n int64
			if n, err = d.Int64(); err == nil && n < 0 {
				err = problem.Invalid(key, "micro-dollars a million tokens, from 0", strconv.FormatInt(n, 10))
			}
			*number = Money(n)
		default:
			err = problem.Invalid(fmt.Sprintf("%.40s", key), "provider, model, input, output, cached or tier", "another member")
		}
		return err
	})
	if err != nil {
		return m, err
	}
	if (substrate.Spec{Kind: m.Provider, Argument: "m"}).Family() != "model:m" {
		return m, problem.Invalid("provider", "anthropic, gemini, mistral, ollama or openai", fmt.Sprintf("%.40q", m.Provider))
	}
	if m.Name == "" || len(m.Name) > maxName || strings.ContainsAny(m.Name, "# ") {
		return m, problem.Invalid("model", fmt.Sprintf("a name of 1 to %d bytes", maxName), fmt.Sprintf("%.80q", m.Name))
	}
	for _, one := range []struct {
		field string
		is    Money
	}{{"input", in}, {"output", out}} {
		if one.is < 0 {
			return m, problem.Invalid(one.field, "micro-dollars a million tokens", "none")
		}
	}
	if cached < 0 {
		cached = in
	}
	m.Price = Price{in, out, cached}
	switch m.Tier {
	case "", High, Medium, Low:
	default:
		return m, problem.Invalid("tier", "HIGH, MEDIUM, LOW or none", fmt.Sprintf("%.40q", m.Tier))
	}
	return m, m.Check()
}

// Blob is the JSON form.
func (t *Table) Blob() []byte {
	b, err := json.Marshal(t)
	if err != nil {
		panic(err) // it is made of texts and numbers
	}
	return b
}

// Known is the built-in table: what the providers asked for in November 2026. What they
// ask more for very long conversations is not in it.
func Known() Table {
	// Prices are in thousandths of a dollar.
	row := func(provider, name string, in, out, cached Money, tier Tier) Model {
		const thousandth = Dollar / 1000
		return Model{provider, name, Price{in * thousandth, out * thousandth, cached * thousandth}, tier}
	}
	return Table{Version: 1, Models: []Model{
		row(substrate.KindAnthropic, "claude-haiku-4-5", 1000, 5000, 100, Low),
		row(substrate.KindAnthropic, "claude-opus-4-6", 5000, 25000, 500, High),
		row(substrate.KindAnthropic, "claude-sonnet-4-5", 3000, 15000, 300, Medium),
		row(substrate.KindGemini, "gemini-2.5-flash", 300, 2500, 30, Low),
		row(substrate.KindGemini, "gemini-2.5-pro", 1250, 10000, 125, ""),
		row(substrate.KindGemini, "gemini-3-flash-preview", 500, 3000, 50, Medium),
		row(substrate.KindGemini, "gemini-3-pro-preview", 2000, 12000, 200, High),
		row(substrate.KindMistral, "mistral-large-latest", 500, 1500, 500, High),
		row(substrate.KindMistral, "mistral-medium-latest", 400, 2000, 400, Medium),
		row(substrate.KindMistral, "mistral-small-latest", 100, 300, 100, Low),
		row(substrate.KindOpenAI, "gpt-4.1", 2000, 8000, 500, ""),
		row(substrate.KindOpenAI, "gpt-4.1-mini", 400, 1600, 100, ""),
		row(substrate.KindOpenAI, "gpt-4o", 2500, 10000, 1250, ""),
		row(substrate.KindOpenAI, "gpt-4o-mini", 150, 600, 75, ""),
		row(substrate.KindOpenAI, "gpt-5", 1250, 10000, 125, High),
		row(substrate.KindOpenAI, "gpt-5-mini", 250, 2000, 25, Medium),
		row(substrate.KindOpenAI, "gpt-5-nano", 50, 400, 5, Low),
	}}
}
