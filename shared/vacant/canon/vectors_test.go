package canon_test

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// documentCase is a case of testdata/canonical_json.json.
type documentCase struct {
	Name  string
	Input struct {
		JSON string `json:"json"`
	}
	Expect struct {
		CJ         string `json:"cj"`
		CJA        string `json:"cj_a"`
		Hash       string `json:"blake2b"`
		HashA      string `json:"blake2b_a"`
		CJError    string `json:"cj_error"`
		ParseError string `json:"parse_error"`
		Strict     string `json:"strict"`
	}
}

// timeCase is a case of testdata/timestamps.json.
type timeCase struct {
	Name  string
	Input struct {
		Text string
	}
	Expect struct {
		Canonical string
		Error     string
	}
}

func vectors[C any](t testing.TB, path string) []C {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []C }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) == 0 {
		t.Fatalf("%s: no cases", path)
	}
	return file.Cases
}

func TestCanonicalFormsOfTheReference(t *testing.T) {
	for _, c := range vectors[documentCase](t, "testdata/canonical_json.json") {
		t.Run(c.Name, func(t *testing.T) {
			v, err := canon.Parse([]byte(c.Input.JSON), canon.DefaultLimits())
			if c.Expect.ParseError != "" || c.Expect.Strict != "" {
				if !problem.Is(err, problem.Malformed) && !problem.Is(err, problem.NotJSON) {
					t.Fatalf("Parse(%.80s) = %v, want a refusal", c.Input.JSON, err)
				}
				return
			}
			if hasDuplicate(t, c.Input.JSON) {
				// The reference uses the last duplicate, but canon refuses duplicates (PROTOCOL §23 D4).
				if !problem.Is(err, problem.Malformed) {
					t.Fatalf("Parse(%.80s) = %v, want the duplicate key refused", c.Input.JSON, err)
				}
				return
			}
			if err != nil {
				t.Fatalf("Parse(%.80s) = %v, want a value", c.Input.JSON, err)
			}
			for _, form := range []struct {
				name, want, hash string
				got              []byte
			}{
				{"AppendCJ", c.Expect.CJ, c.Expect.Hash, v.AppendCJ(nil)},
				{"AppendASCII", c.Expect.CJA, c.Expect.HashA, v.AppendASCII(nil)},
			} {
				if string(form.got) != form.want {
					t.Errorf("%s() = %s, want %s", form.name, form.got, form.want)
				}
				if h := identity.Sum(form.got); hex.EncodeToString(h[:]) != form.hash {
					t.Errorf("Sum(%s()) = %s, want %s", form.name, h, form.hash)
				}
			}
		})
	}
}

// hasDuplicate uses another decoder to find duplicate keys.
func hasDuplicate(t *testing.T, doc string) bool {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(doc))
	dec.UseNumber()
	var walk func() bool
	walk = func() bool {
		token, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		found, seen := false, map[any]bool{}
		switch token {
		case json.Delim('{'):
			for dec.More() {
				key, err := dec.Token()
				if err != nil {
					t.Fatal(err)
				}
				found = found || seen[key]
				seen[key] = true
				found = walk() || found
			}
		case json.Delim('['):
			for dec.More() {
				found = walk() || found
			}
		default:
			return false
		}
		if _, err := dec.Token(); err != nil {
			t.Fatal(err)
		}
		return found
	}
	return walk()
}

func TestTimestampsOfTheReference(t *testing.T) {
	for _, c := range vectors[timeCase](t, "testdata/timestamps.json") {
		t.Run(c.Name, func(t *testing.T) {
			got, err := canon.ParseTime(c.Input.Text)
			if c.Expect.Error != "" {
				if !problem.Is(err, problem.Malformed) {
					t.Errorf("ParseTime(%q) = %v, %v, want a refusal", c.Input.Text, got, err)
				}
				return
			}
			if err != nil || canon.FormatTime(got) != c.Expect.Canonical {
				t.Errorf("ParseTime(%q) = %s, %v, want %s", c.Input.Text, canon.FormatTime(got), err, c.Expect.Canonical)
			}
		})
	}
}
