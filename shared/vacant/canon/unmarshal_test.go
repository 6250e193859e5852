package canon_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type word string

type inner struct {
	Path  string   `json:"path"`
	Words []word   `json:"words" canon:"max=2"`
	More  []inner  `json:"more"`
	Small int8     `json:"small" canon:"min=-100"`
	Ref   *int64   `json:"ref" canon:"null"`
	Flags []string `json:"flags,omitempty"`
}

// grams implements canon.JSONDescriber.
type grams int64

func (grams) DescribeJSON() string { return "an integer of grams" }

type embedded struct {
	Below bool `json:"below"`
}

type document struct {
	embedded
	Name   string                `json:"name" canon:"required,max=5"`
	Count  int64                 `json:"count"`
	Share  float64               `json:"share"`
	ID     *identity.ID          `json:"id" canon:"null"`
	At     time.Time             `json:"at"`
	Raw    json.RawMessage       `json:"raw"`
	Inner  inner                 `json:"inner"`
	Table  map[string]inner      `json:"table"`
	Chains map[identity.ID]inner `json:"chains"`
	Secret string                `json:"secret" canon:"secret"`
	Own    own                   `json:"own"`
	Hidden string                `json:"-"`
	Weight grams                 `json:"weight"`
	Pair   map[string]string     `json:"pair" canon:"max=2"`
	Long   string                `json:"long" canon:"min=2"`
	Needed *inner                `json:"needed" canon:"required,null"`
}

// own implements canon.Unmarshaler. Its JSON form has one letter for each bit.
type own struct{ bits int }

func (o *own) UnmarshalCanon(d *canon.Decoder) error {
	s, err := d.String()
	if err == nil && strings.Trim(s, "ab") != "" {
		err = problem.Invalid("letter", "a or b", "another")
	}
	o.bits = len(s)
	return err
}

func TestUnmarshalReadsByTags(t *testing.T) {
	id := identity.ID{7}
	ref := int64(5)
	got := document{Count: 9, Name: "kept"}
	err := canon.Unmarshal([]byte(`{"name":"short","needed":null,"below":true,"share":1,"id":"`+id.String()+`","at":"2026-05-06T00:00:00Z","raw": {"x":[1, 2]},
		"inner":{"path":"p","words":["a","b"],"more":[{"small":-100}],"ref":5},"table":{"x":{},"":{"path":"y"}},"chains":{"`+id.String()+`":{}},"own":"abab","secret":"","pair":{"a":"","b":""},"long":"ab"}`), &got, canon.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	want := document{embedded: embedded{true}, Name: "short", Count: 9, Share: 1, ID: &id, At: time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC), Raw: json.RawMessage(`{"x":[1, 2]}`),
		Inner: inner{Path: "p", Words: []word{"a", "b"}, More: []inner{{Small: -100}}, Ref: &ref},
		Table: map[string]inner{"x": {}, "": {Path: "y"}}, Chains: map[identity.ID]inner{id: {}}, Own: own{4}, Pair: map[string]string{"a": "", "b": ""}, Long: "ab"}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(document{}, own{}, embedded{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A value that shares lists and pointers with the defaults must not change.
func TestUnmarshalChangesNoOtherValue(t *testing.T) {
	ref := int64(5)
	before := inner{Words: []word{"a", "b"}, Ref: &ref}
	v := before
	if err := canon.Unmarshal([]byte(`{"words":["c"],"ref":7}`), &v, canon.DefaultLimits()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(inner{Words: []word{"a", "b"}, Ref: new(int64(5))}, before); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

func TestUnmarshalNamesWhatIsWrong(t *testing.T) {
	const all = "below, name, count, share, id, at, raw, inner, table, chains, secret, own, weight, pair, long or needed"
	hex := identity.ID{0xab}.String()
	for body, want := range map[string]struct{ field, text string }{
		``:                                      {"", "body: not JSON: expected a value at byte 0, got the end"},
		`[]`:                                    {"", "body: expected one JSON object, got an array"},
		`{"name":"a"}x`:                         {"needed", "needed: expected an object, got nothing"},
		`{"name":"a","needed":{}}x`:             {"", `body: not JSON: expected the end at byte 24, got 'x'`},
		`{"needed":null}`:                       {"name", "name: expected a string, got nothing"},
		`{"name":7}`:                            {"name", "name: expected a string, got 7"},
		`{"name":null}`:                         {"name", "name: expected a string, got null"},
		`{"name":"longer"}`:                     {"name", "name: expected at most 5 bytes, got 6 bytes"},
		`{"Name":"a"}`:                          {"Name", "Name: expected " + all + ", got another member"},
		`{"x\u0000y":1}`:                        {`"x\x00y"`, `"x\x00y": expected ` + all + ", got another member"},
		`{"name":"a","name":"b","needed":null}`: {"name", "name: expected the key once, got it twice"},
		`{"inner":{"path":"a","path":"b"}}`:     {"inner.path", "inner.path: expected the key once, got it twice"},
		`{"table":{"a":{},"a":{}}}`:             {"table.a", "table.a: expected the key once, got it twice"},
		`{"inner":{"zz":1}}`:                    {"inner.zz", "inner.zz: expected path, words, more, small, ref or flags, got another member"},
		`{"inner":{"inner":{}}}`:                {"inner.inner", "inner.inner: expected path, words, more, small, ref or flags, got another member"},
		`{"inner":{"words":["a",7]}}`:           {"inner.words[1]", "inner.words[1]: expected a string, got 7"},
		`{"inner":{"words":["a","b","c"]}}`:     {"inner.words", "inner.words: expected at most 2, got more"},
		`{"inner":{"more":[{},{"small":128}]}}`: {"inner.more[1].small", "inner.more[1].small: expected an integer of at most 8 bits, got 128"},
		`{"inner":{"more":[{"path":[]}]}}`:      {"inner.more[0].path", "inner.more[0].path: expected a string, got an array"},
		`{"table":{"a.b":{"path":1}}}`:          {"table.a.b.path", "table.a.b.path: expected a string, got 1"},
		`{"chains":{"x":{}}}`:                   {"chains.x", `chains.x: expected hexadecimal digits, got "x"`},
		`{"count":1.5}`:                         {"count", "count: expected an integer, got 1.5"},
		`{"count":99999999999999999999}`:        {"count", "count: expected an integer of at most 64 bits, got 99999999999999999999"},
		`{"share":"1"}`:                         {"share", `share: expected a number, got "1"`},
		`{"id":"x"}`:                            {"id", `id: expected `},
		`{"at":"yesterday"}`:                    {"at", `at: expected a time such as 2026-12-31T00:00:00Z, got "yesterday"`},
		`{"at":7}`:                              {"at", `at: expected a time such as 2026-12-31T00:00:00Z, got 7`},
		`{"own":"abc"}`:                         {"own.letter", "own.letter: expected a or b, got another"},
		`{"own":7}`:                             {"own", "own: expected a string, got 7"},
		`{"secret":1234}`:                       {"secret", "secret: expected a string, got an integer"},
		`{"raw":{"x":1,"x":2}}`:                 {"raw.x", "raw.x: expected the key once, got it twice"},
		`{"inner":{"small":-101}}`:              {"inner.small", "inner.small: expected at least -100, got -101"},
		`{"":1}`:                                {`""`, `"": expected `},
		`{"table":{"":7}}`:                      {`table.""`, `table."": expected an object, got 7`},
		`{"share":1.}`:                          {"", "body: not JSON: expected "},
		`{"share":1e999}`:                       {"share", "share: expected a number that a float64 holds, got 1e999"},
		`{"at":"2027-W01"}`:                     {"at", `at: expected a time such as 2026-12-31T00:00:00Z, got "2027-W01"`},
		`{"weight":"7"}`:                        {"weight", `weight: expected an integer of grams, got "7"`},
		`{"pair":{"a":"","b":"","c":""}}`:       {"pair", "pair: expected at most 2, got more"},
		`{"chains":{"` + hex + `":{},"` + strings.ToUpper(hex) + `":{}}}`: {"chains." + strings.ToUpper(hex)[:40] + "…", "chains." + strings.ToUpper(hex)[:40] + "…: expected the key once, got it twice"},
		`{"long":"a"}`:     {"long", "long: expected at least 2 bytes, got 1 bytes"},
		`{"long":""}`:      {"long", "long: expected at least 2 bytes, got 0 bytes"},
		`{"below":"true"}`: {"below", `below: expected a boolean, got "true"`},
	} {
		err := canon.Unmarshal([]byte(body), new(document), canon.DefaultLimits())
		got := problem.AsError(err)
		if got == nil || got.Field != want.field || !strings.HasPrefix(got.Text(), want.text) {
			t.Errorf("%s: %v (field %q), want %q (field %q)", body, err, field(got), want.text, want.field)
		}
	}
}

func field(e *problem.Error) string {
	if e == nil {
		return ""
	}
	return e.Field
}

// encoding/json must decode each accepted document to the same value.
func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte(`{"path":"p","words":["a","b"],"more":[{"small":-1,"flags":[]}],"ref":5}`))
	f.Add([]byte(`{"ref":null,"more":[],"small":-0}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		var got, want inner
		err := canon.Unmarshal(doc, &got, canon.DefaultLimits())
		if err != nil {
			if k := problem.AsError(err).Kind; k != problem.NotJSON && k != problem.Malformed && k != problem.TooLarge {
				t.Errorf("Unmarshal(%q) = %v of kind %s", doc, err, k)
			}
			return
		}
		d := json.NewDecoder(bytes.NewReader(doc))
		d.DisallowUnknownFields()
		if err := d.Decode(&want); err != nil {
			t.Fatalf("Unmarshal(%q) = %+v, which encoding/json refuses: %v", doc, got, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Unmarshal(%q) (-encoding/json +got):\n%s", doc, diff)
		}
	})
}

func TestOpenLimitsSkipUnknownMembers(t *testing.T) {
	var v struct {
		Name  string `json:"name"`
		Inner struct {
			Count int64 `json:"count"`
		} `json:"inner"`
	}
	limits := canon.DefaultLimits()
	limits.SkipUnknown = true
	if err := canon.Unmarshal([]byte(`{"new":[{}],"name":"a","inner":{"new":null,"count":3}}`), &v, limits); err != nil || v.Name != "a" || v.Inner.Count != 3 {
		t.Errorf("Unmarshal() = %+v, %v, want the known members", v, err)
	}
	for _, document := range []string{`{"new":1,"new":2}`, `{"new":{"a":1,"a":1}}`, `{"new":nil}`, `{"new":1,"name":2}`} {
		if err := canon.Unmarshal([]byte(document), &v, limits); err == nil {
			t.Errorf("Unmarshal(%s) = nil, want a refusal", document)
		}
	}
}

func TestASignedDocumentHasOnlySignedMembers(t *testing.T) {
	for document, want := range map[string]problem.Error{
		`{"name":"ab"}`:                       {},
		`{"name":"ab","new":1}`:               {Kind: problem.Malformed, Field: "new", Detail: `note: "new" is not a member of a note`},
		`{"name":"ab","ne w":1}`:              {Kind: problem.Malformed, Field: "ne w", Detail: `note: "ne w" is not a member of a note`},
		`{}`:                                  {Kind: problem.Malformed, Field: "name", Detail: "note: name: expected, but missing"},
		`{"name":null}`:                       {Kind: problem.Malformed, Field: "name", Detail: "note: name: expected a string, got null"},
		`{"name":"ab","name":"ab"}`:           {Kind: problem.Malformed, Field: "name", Detail: "note: name: expected the key once, got it twice"},
		`[]`:                                  {Kind: problem.NotJSON, Detail: "note: body: expected one JSON object, got an array"},
		`{"name":"` + strings.Repeat("a", 40): {Kind: problem.TooLarge, Field: "note", Want: "at most 40 bytes", Got: "49"},
	} {
		var v struct {
			Name string `json:"name" canon:"required"`
		}
		err := canon.UnmarshalSigned("note", []byte(document), &v, 40)
		if err == nil && want.Field == "" && v.Name == "ab" {
			continue
		}
		got := problem.AsError(err)
		if got == nil || got.Kind != want.Kind || got.Field != want.Field || got.Text() != want.Text() {
			t.Errorf("UnmarshalSigned(%s) = %v of %q, want %v of %q", document, got, field(got), want.Text(), want.Field)
		}
	}
}
