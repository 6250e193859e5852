package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func TestAPlanIsReadWithItsDefaults(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want plan.Plan
		blob string
	}{
		"least": {
			in: `{"version":1,"delegate":[{"child":"drafter"}]}`,
			want: plan.Plan{Delegations: []plan.Delegation{{Child: "drafter", Task: "{input}"}}, OnFailure: plan.Abort,
				Aggregate: plan.Aggregate{Method: plan.List}},
			blob: `{"aggregate":{"how":"list"},"delegate":[{"child":"drafter","task":"{input}"}],"on_failure":"abort","parallel":false,"version":1}`,
		},
		"one after the other, joined": {
			in: `{"version":1, "parallel":false, "on_failure":"skip", "aggregate":{"how":"join"},
				"delegate":[{"child":"a","kind":"draft","task":"draft: {input}"},{"child":"b","kind":"review","task":"{previous}\nof {input}"}]}`,
			want: plan.Plan{Delegations: []plan.Delegation{
				{Child: "a", Kind: "draft", Task: "draft: {input}"}, {Child: "b", Kind: "review", Task: "{previous}\nof {input}"},
			}, OnFailure: plan.Skip, Aggregate: plan.Aggregate{Method: plan.Join, Separator: "\n\n"}},
			blob: `{"aggregate":{"how":"join","separator":"\n\n"},"delegate":[{"child":"a","kind":"draft","task":"draft: {input}"},` +
				`{"child":"b","kind":"review","task":"{previous}\nof {input}"}],"on_failure":"skip","parallel":false,"version":1}`,
		},
		"an empty separator is one": {
			in: `{"version":1,"delegate":[{"child":"a"}],"aggregate":{"separator":"","how":"join"}}`,
			want: plan.Plan{Delegations: []plan.Delegation{{Child: "a", Task: "{input}"}}, OnFailure: plan.Abort,
				Aggregate: plan.Aggregate{Method: plan.Join}},
			blob: `{"aggregate":{"how":"join","separator":""},"delegate":[{"child":"a","task":"{input}"}],"on_failure":"abort","parallel":false,"version":1}`,
		},
		"at once, read by a substrate": {
			in: `{"version":1,"parallel":true,"delegate":[{"child":"a"},{"child":"a"}],"aggregate":{"how":"substrate","substrate":"http:https://sum.example/up"}}`,
			want: plan.Plan{Parallel: true, Delegations: []plan.Delegation{{Child: "a", Task: "{input}"}, {Child: "a", Task: "{input}"}}, OnFailure: plan.Abort,
				Aggregate: plan.Aggregate{Method: plan.BySubstrate, Substrate: "http:https://sum.example/up"}},
			blob: `{"aggregate":{"how":"substrate","substrate":"http:https://sum.example/up"},"delegate":[{"child":"a","task":"{input}"},` +
				`{"child":"a","task":"{input}"}],"on_failure":"abort","parallel":true,"version":1}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := plan.Parse([]byte(c.in))
			if err != nil {
				t.Fatalf("Parse() = %v", err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("Parse() (-want +got):\n%s", diff)
			}
			if blob := string(got.Blob()); blob != c.blob {
				t.Errorf("Blob() = %s, want %s", blob, c.blob)
			}
			if want := identity.Sum([]byte(c.blob)); got.Hash() != want {
				t.Errorf("Hash() = %v, want %v", got.Hash(), want)
			}
			again, err := plan.Parse(got.Blob())
			if diff := cmp.Diff(got, again); err != nil || diff != "" {
				t.Errorf("Parse(Blob()) = %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestAPlanThatIsNoneIsRefusedByItsField(t *testing.T) {
	one := func(s string) string { return `{"version":1,"delegate":[{"child":"a"` + s + `}]}` }
	with := func(s string) string { return `{"version":1,"delegate":[{"child":"a"},{"child":"b"}],` + s + `}` }
	long := func(n int) string { return strings.Repeat("x", n) }
	for name, c := range map[string]struct{ in, want string }{
		"nothing":             {``, "plan: body: not JSON: expected a value at byte 0, got the end"},
		"not an object":       {`[]`, "plan: body: expected one JSON object, got an array"},
		"twice the same":      {`{"version":1,"version":1}`, `plan: version: expected the key once, got it twice`},
		"no version":          {`{"delegate":[{"child":"a"}]}`, "plan: version: expected 1, got 0"},
		"a later version":     {`{"version":2,"delegate":[{"child":"a"}]}`, "plan: version: expected 1, got 2"},
		"an unknown member":   {with(`"retries":3`), `plan: retries: expected version, parallel, delegate, on_failure or aggregate, got another member`},
		"not a flag":          {with(`"parallel":"yes"`), `plan: parallel: expected a boolean, got "yes"`},
		"nobody":              {`{"version":1}`, "plan: delegate: expected at least one delegation, got none"},
		"nobody listed":       {`{"version":1,"delegate":[]}`, "plan: delegate: expected at least one delegation, got none"},
		"not a list":          {`{"version":1,"delegate":{}}`, "plan: delegate: expected an array, got an object"},
		"not an object in it": {`{"version":1,"delegate":["a"]}`, `plan: delegate[0]: expected an object, got "a"`},
		"no child":            {`{"version":1,"delegate":[{"task":"x"}]}`, "plan: delegate[0].child: expected a text, got none"},
		"a child too long":    {`{"version":1,"delegate":[{"child":"` + long(65) + `"}]}`, "plan: delegate[0].child: expected at most 64 bytes, got 65"},
		"a blank kind":        {one(`,"kind":" "`), "plan: delegate[0].kind: expected a word, got a blank string"},
		"a kind with a line":  {one(`,"kind":"a\n"`), "plan: delegate[0].kind: expected no control characters, got U+000A at byte 1"},
		"a kind too long":     {one(`,"kind":"` + long(65) + `"`), "plan: delegate[0].kind: expected at most 64 bytes, got 65"},
		"no task":             {one(`,"task":""`), "plan: delegate[0].task: expected a text, got none"},
		"a task too long":     {one(`,"task":"` + long(8193) + `"`), "plan: delegate[0].task: expected at most 8192 bytes, got 8193"},
		"a task of no text":   {one(`,"task":7`), "plan: delegate[0].task: expected a string, got 7"},
		"an unknown place":    {one(`,"task":"{inptu}"`), "plan: delegate[0].task: expected {input} or {previous}, got {inptu}"},
		"previous at first":   {one(`,"task":"{previous}"`), "plan: delegate[0].task: expected {previous} only in a sequential plan, after the first delegation, got the first delegation, or parallel: true"},
		"previous at once": {`{"version":1,"parallel":true,"delegate":[{"child":"a"},{"child":"b","task":"{previous}"}]}`,
			"plan: delegate[1].task: expected {previous} only in a sequential plan, after the first delegation, got the first delegation, or parallel: true"},
		"an unknown member of one": {one(`,"url":"x"`), `plan: delegate[0].url: expected child, kind or task, got another member`},
		"too many": {`{"version":1,"delegate":[` + strings.Repeat(`{"child":"a"},`, 32) + `{"child":"a"}]}`,
			"plan: delegate: expected at most 32 delegations, got 33"},
		"an unknown failure":   {with(`"on_failure":"retry"`), `plan: on_failure: expected abort or skip, got "retry"`},
		"an unknown combiner":  {with(`"aggregate":{"how":"best"}`), `plan: aggregate.how: expected list, join, first, vote or substrate, got "best"`},
		"no aggregate":         {with(`"aggregate":"list"`), `plan: aggregate: expected an object, got "list"`},
		"an unknown wish":      {with(`"aggregate":{"how":"list","limit":1}`), `plan: aggregate.limit: expected how, separator or substrate, got another member`},
		"a separator of none":  {with(`"aggregate":{"how":"vote","separator":","}`), `plan: aggregate.separator: expected none with vote, got ","`},
		"a separator too long": {with(`"aggregate":{"how":"join","separator":"` + long(257) + `"}`), "plan: aggregate.separator: expected at most 256 bytes, got 257"},
		"a substrate of none":  {with(`"aggregate":{"how":"first","substrate":"echo"}`), `plan: aggregate.substrate: expected none with first, got "echo"`},
		"no substrate":         {with(`"aggregate":{"how":"substrate"}`), `plan: aggregate.substrate: expected KIND or KIND:ARGUMENT, such as echo or http:https://example.com/answer, got ""`},
		"a composite of one":   {with(`"aggregate":{"how":"substrate","substrate":"composite"}`), "plan: aggregate.substrate: expected a substrate that reads the answers itself, got composite"},
		"too deep":             {`{"version":1,"delegate":[[[[[]]]]]}`, "plan: "},
		"too large":            {`{"version":1,"x":"` + long(64<<10) + `"}`, "plan: expected at most 65536 bytes, got 65556"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := plan.Parse([]byte(c.in))
			if err == nil {
				t.Fatal("Parse() = nil, want a refusal")
			}
			p := problem.AsError(err)
			if p.Kind != problem.Malformed && p.Kind != problem.TooLarge && p.Kind != problem.NotJSON || !strings.HasPrefix(p.Text(), c.want) {
				t.Errorf("Parse() = %v, %q, want %q", p.Kind, p.Text(), c.want)
			}
		})
	}
}

func TestARefusalOfAPlanCarriesTheWayToItsField(t *testing.T) {
	for in, want := range map[string]struct {
		field string
		kind  problem.Kind
	}{
		`[]`: {"", problem.NotJSON},
		`{"version":2,"delegate":[{"child":"a"}]}`:                                 {"version", problem.Malformed},
		`{"version":1,"delegate":[]}`:                                              {"delegate", problem.Malformed},
		`{"version":1,"delegate":[{"child":7}]}`:                                   {"delegate[0].child", problem.Malformed},
		`{"version":1,"delegate":[{"child":"a","task":"{x}"}]}`:                    {"delegate[0].task", problem.Malformed},
		`{"version":1,"delegate":[{"child":"a","url":"x"}]}`:                       {"delegate[0].url", problem.Malformed},
		`{"version":1,"delegate":[{"child":"a"}],"retries":3}`:                     {"retries", problem.Malformed},
		`{"version":1,"delegate":[{"child":"a"}],"aggregate":{"how":"best"}}`:      {"aggregate.how", problem.Malformed},
		`{"version":1,"delegate":[{"child":"a"}],"aggregate":{"how":"substrate"}}`: {"aggregate.substrate", problem.Malformed},
		`{"version":1,"delegate":[{"child":"a"}],"aggregate":{"how":1}}`:           {"aggregate.how", problem.Malformed},
	} {
		_, err := plan.Parse([]byte(in))
		if p := problem.AsError(err); p == nil || p.Field != want.field || p.Kind != want.kind {
			t.Errorf("Parse(%s) = %+v, want %v of %q", in, p, want.kind, want.field)
		}
	}
}

func TestCallerTextIsNotExpandedAsATemplate(t *testing.T) {
	d := plan.Delegation{Task: "of {input}: {previous}, {input} and { input } {Input}"}
	if got, want := d.RenderTask("{previous}", "{input}"), "of {previous}: {input}, {previous} and { input } {Input}"; got != want {
		t.Errorf("RenderTask() = %q, want %q", got, want)
	}
}

func TestChildrenAreEachNamedOnceAndByIDsOnly(t *testing.T) {
	a, b := identity.ID{1}, identity.ID{2}
	p := plan.Plan{Delegations: []plan.Delegation{{Child: b.String()}, {Child: a.String()}, {Child: b.String()}}}
	got, err := p.Children()
	if diff := cmp.Diff([]identity.ID{b, a}, got); err != nil || diff != "" {
		t.Errorf("Children() = %v (-want +got):\n%s", err, diff)
	}
	p.Delegations[1].Child = "drafter"
	if _, err := p.Children(); !problem.Is(err, problem.Damaged) {
		t.Errorf("Children() of a name = %v, want Damaged", err)
	}
}

func TestAPlanTooLargeInItsCanonicalFormIsRefused(t *testing.T) {
	p := plan.Plan{OnFailure: plan.Abort, Aggregate: plan.Aggregate{Method: plan.List}}
	for i := range 9 {
		p.Delegations = append(p.Delegations, plan.Delegation{Child: fmt.Sprint(i), Task: strings.Repeat("x", plan.MaxTaskBytes)})
	}
	if err := p.Check(); !problem.Is(err, problem.TooLarge) {
		t.Errorf("Check() = %v, want TooLarge", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"version":1,"delegate":[{"child":"a","kind":"k","task":"{input} {previous}"}],"aggregate":{"how":"join"}}`))
	f.Add([]byte(`{"version":1,"parallel":true,"on_failure":"skip","delegate":[{"child":"a"}],"aggregate":{"how":"substrate","substrate":"echo"}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		p, err := plan.Parse(in)
		if err != nil {
			if k := problem.AsError(err).Kind; k != problem.Malformed && k != problem.TooLarge && k != problem.NotJSON {
				t.Errorf("Parse(%q) = %v, of kind %v", in, err, k)
			}
			return
		}
		again, err := plan.Parse(p.Blob())
		if diff := cmp.Diff(p, again); err != nil || diff != "" {
			t.Errorf("Parse(Blob()) = %v (-want +got):\n%s", err, diff)
		}
	})
}
