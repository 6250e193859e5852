package yamldoc

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestADocumentOfYAMLIsTheJSONThatItSays(t *testing.T) {
	for name, c := range map[string]struct{ doc, want string }{
		"JSON stays as it is":      {` {"b": 1.0, "a" : [ ]}`, ` {"b": 1.0, "a" : [ ]}`},
		"a plan":                   {"version: 1\nparallel: true\ndelegate:\n- child: a\n  task: >-\n    Do {input}\n    well\n", `{"delegate":[{"child":"a","task":"Do {input} well"}],"parallel":true,"version":1}`},
		"a date is a text":         {"task: 2026-01-02", `{"task":"2026-01-02"}`},
		"null":                     {"a: ~\nb:\n", `{"a":null,"b":null}`},
		"a float as it is written": {"a: 1.50", `{"a":1.50}`},
		"a quoted number":          {`a: "1"`, `{"a":"1"}`},
		"hex":                      {"a: 0x10", `{"a":16}`},
		"yes is a word":            {"a: yes", `{"a":"yes"}`},
	} {
		got, err := ToJSON([]byte(c.doc))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: ToJSON() = %s, %v, want %s", name, got, err, c.want)
		}
	}
}

func TestADocumentOfJSONReadsBack(t *testing.T) {
	for _, doc := range []string{`{"a":[1,"two",null,true],"b":{"c":"12","d":"yes"}}`, `{"a":{}}`} {
		b, err := FromJSON([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		if back, err := ToJSON(b); err != nil || string(back) != doc {
			t.Errorf("%s is %s, which is %s, %v", doc, b, back, err)
		}
	}
}

func TestYAMLBeyondJSONIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ doc, want string }{
		"nothing":          {"", "empty"},
		"a comment":        {"# no\n", "empty"},
		"two documents":    {"a: 1\n---\nb: 1\n", "one document"},
		"an alias":         {"a: &x {b: 1}\nc: *x\n", "aliases"},
		"a merge":          {"a: &x {b: 1}\nc:\n  <<: *x\n", "line 3"},
		"a key twice":      {"a: 1\na: 2\n", "twice"},
		"a number's key":   {"1: a\n", "expected a name"},
		"a tag of its own": {"a: !thing 1\n", "!thing"},
		"binary":           {"a: !!binary aGk=\n", "!!binary"},
		"infinity":         {"a: .inf\n", "not a number of JSON"},
		"too deep":         {strings.Repeat("[", 40) + "a: !x 1" + strings.Repeat("]", 40), "levels"},
		"no YAML":          {"a: [1\n", "neither"},
	} {
		got, err := ToJSON([]byte(c.doc))
		if !problem.Is(err, problem.Usage) || !strings.Contains(problem.AsError(err).Text(), c.want) {
			t.Errorf("%s: ToJSON() = %s, %v, want a refusal of %s", name, got, err, c.want)
		}
	}
}

func FuzzADocumentIsJSONOrRefused(f *testing.F) {
	f.Add([]byte("version: 1\ndelegate:\n- {child: a, task: '{input}'}\n"))
	f.Add([]byte(`{"a": 1}`))
	f.Add([]byte("a: &x [*x]"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		got, err := ToJSON(doc)
		if err == nil && !json.Valid(got) {
			t.Errorf("ToJSON(%q) = %q, want JSON", doc, got)
		}
	})
}
