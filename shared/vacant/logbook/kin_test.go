package logbook

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

type told struct {
	Kind, TS  string
	Payload   json.RawMessage
	Hash      string
	Signature string
}

type delegated struct {
	Name  string
	Input struct {
		ParentSeed string   `json:"parent_seed"`
		ChildSeeds []string `json:"child_seeds"`
		Start      string
		Plan       []struct {
			ChildID identity.ID `json:"child_id"`
			Subtask json.RawMessage
		}
	}
	Expect struct {
		ParentLog []told            `json:"parent_log"`
		ChildLogs map[string][]told `json:"child_logs"`
	}
}

func delegations(t *testing.T) []delegated {
	t.Helper()
	b, err := os.ReadFile("testdata/delegation.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []delegated }
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) != 10 {
		t.Fatalf("delegation.json has %d cases, want 10", len(file.Cases))
	}
	return file.Cases
}

// pen writes a logbook and records its entries in the form of the vectors.
type pen struct {
	key  *identity.Key
	last *Entry
	log  []told
}

func (p *pen) write(t *testing.T, kind string, at time.Time, payload []byte) {
	t.Helper()
	e := Next(p.last, kind, at, payload)
	h, err := e.Sign(t.Context(), p.key)
	if err != nil {
		t.Fatal(err)
	}
	p.last = &e
	p.log = append(p.log, told{kind, canon.FormatTime(at), e.Payload, h.String(), hex.EncodeToString(e.Signature)})
}

func TestDelegationsAreToldAsTheReferenceTellsThem(t *testing.T) {
	for _, c := range delegations(t) {
		t.Run(c.Name, func(t *testing.T) {
			at := instant(t, c.Input.Start)
			parent, children := &pen{key: keyOf(t, c.Input.ParentSeed), log: []told{}}, map[string]*pen{}
			for _, seed := range c.Input.ChildSeeds {
				key := keyOf(t, seed)
				children[key.ID().String()] = &pen{key: key, log: []told{}}
			}
			var called []identity.ID
			for _, step := range c.Input.Plan {
				at = at.Add(time.Second)
				task, err := canon.Parse(step.Subtask, canon.DefaultLimits())
				if err != nil {
					t.Fatal(err)
				}
				d := Delegation{Parent: parent.key.ID(), Child: step.ChildID, SubtaskKind: SubtaskKind(task)}
				parent.write(t, KindDelegate, at, d.DelegatePayload())
				children[step.ChildID.String()].write(t, KindExecute, at, d.ExecutePayload())
				called = append(called, step.ChildID)
			}
			parent.write(t, KindAggregate, at.Add(time.Second), Aggregation{Children: called}.Payload())
			asJSON := cmp.Transformer("json", func(m json.RawMessage) any {
				var v any
				if err := json.Unmarshal(m, &v); err != nil {
					t.Error(err)
				}
				return v
			})
			if diff := cmp.Diff(c.Expect.ParentLog, parent.log, asJSON); diff != "" {
				t.Errorf("the parent's logbook (-want +got):\n%s", diff)
			}
			for id, want := range c.Expect.ChildLogs {
				if diff := cmp.Diff(want, children[id].log, asJSON); diff != "" {
					t.Errorf("the logbook of %s (-want +got):\n%s", id, diff)
				}
			}
		})
	}
}

func TestASubtaskIsCalledByItsKindOrItsType(t *testing.T) {
	for task, want := range map[string]string{
		`{"kind":"review","x":1}`: "review", `{"kind":""}`: "", `{"kind":true}`: "True", `{"kind":7}`: "7", `{"kind":1.5}`: "1.5", `{"kind":null}`: "None",
		`{"kind":["a",1]}`: "['a', 1]", `{}`: "dict", `"kind"`: "str", `7`: "int", `1.5`: "float", `false`: "bool", `[]`: "list", `null`: "NoneType",
	} {
		v, err := canon.Parse([]byte(task), canon.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		if got := SubtaskKind(v); got != want {
			t.Errorf("SubtaskKind(%s) = %q, want %q", task, got, want)
		}
	}
}

func ids(t *testing.T) (parent, child, second identity.ID) {
	t.Helper()
	return keyOf(t, strings.Repeat("11", 32)).ID(), keyOf(t, strings.Repeat("22", 32)).ID(), keyOf(t, strings.Repeat("33", 32)).ID()
}

func TestFamilyEntryPayloads(t *testing.T) {
	parent, child, second := ids(t)
	one, two := identity.Sum([]byte("one")), identity.Sum([]byte("two"))
	for name, c := range map[string]struct {
		payload []byte
		want    string
	}{
		"BIRTH of D1":            {Birth{Parent: parent, BirthPath: "D1", PolicyMutation: "be brief"}.Payload(), `{"parent_id":"P","path":"D1","policy_mutation":"be brief"}`},
		"BIRTH of D2":            {Birth{Parent: parent, BirthPath: "D2", Tools: []string{"pen", "a"}}.Payload(), `{"narrowed_tools":["pen","a"],"parent_id":"P","path":"D2"}`},
		"BIRTH of D2, no tools":  {Birth{Parent: parent, BirthPath: "D2"}.Payload(), `{"narrowed_tools":[],"parent_id":"P","path":"D2"}`},
		"BIRTH of D3":            {Birth{Parent: parent, BirthPath: "D3", Capability: "files"}.Payload(), `{"new_capability_text":"files","parent_id":"P","path":"D3"}`},
		"BIRTH of D4":            {Birth{Parent: parent, BirthPath: "D4", SecondParent: &second, ReferenceConsent: []byte{1}, ChildConsent: []byte{2}, ConsentNonce: "n"}.Payload(), `{"child_consent_signature":"02","consent_nonce":"n","consent_signature":"01","parent_id":"P","path":"D4","secondary_parent_id":"S"}`},
		"BIRTH of D4, theirs":    {Birth{Parent: parent, BirthPath: "D4", SecondParent: &second, ReferenceConsent: []byte{1}}.Payload(), `{"consent_signature":"01","parent_id":"P","path":"D4","secondary_parent_id":"S"}`},
		"BIRTH of D5":            {Birth{Parent: parent, BirthPath: "D5", NewSubstrates: []string{"b"}, OldSubstrates: []string{"a"}}.Payload(), `{"new_substrates":["b"],"old_substrates":["a"],"parent_id":"P","path":"D5"}`},
		"SPAWN of D1":            {Spawn{Child: child, BirthPath: "D1"}.Payload(), `{"child_id":"C","path":"D1"}`},
		"SPAWN of D2":            {Spawn{Child: child, BirthPath: "D2"}.Payload(), `{"child_id":"C","closed_child":true,"path":"D2"}`},
		"SPAWN of D4":            {Spawn{Child: child, BirthPath: "D4", SecondParent: &second}.Payload(), `{"child_id":"C","path":"D4","secondary_parent_id":"S"}`},
		"DELEGATE with a task":   {Delegation{parent, child, "review", one}.DelegatePayload(), `{"child_id":"C","subtask_kind":"review","task_hash":"` + one.String() + `"}`},
		"EXECUTE with a task":    {Delegation{parent, child, "review", one}.ExecutePayload(), `{"parent_id":"P","subtask_kind":"review","task_hash":"` + one.String() + `"}`},
		"AGGREGATE with results": {Aggregation{[]identity.ID{child, child}, []identity.Hash{one, one}, []identity.Hash{two, two}, one}.Payload(), `{"child_ids":["C","C"],"n_results":2,"result_hash":"1","result_hashes":["2","2"],"task_hashes":["1","1"]}`},
		"AGGREGATE of nothing":   {Aggregation{}.Payload(), `{"child_ids":[],"n_results":0}`},
		"GRADUATED":              {Graduation{parent, child, "review"}.Payload(), `{"capability_text":"review","child_id":"C","parent_id":"P"}`},
		"INFERENCE_EVENT": {Inference{Caller: parent, RequestHash: one, PromptHash: one, ResponseHash: two, Substrate: "ollama", Model: "m", AgentVersion: 3, Time: time.UnixMicro(1_500_000)}.Payload(),
			`{"caller":"P","kind":"INFERENCE_EVENT","model_id":"m","prompt_hash_hex":"1","proof":{"agent_version":3},"request_envelope_id_hex":"1","response_hash_hex":"2","substrate":"ollama","ts":1.5}`},
		"PLAN_CHANGED": {PlanChangedPayload(one), `{"plan_hash":"` + one.String() + `"}`},
	} {
		want := strings.NewReplacer(`"P"`, `"`+parent.String()+`"`, `"C"`, `"`+child.String()+`"`, `"S"`, `"`+second.String()+`"`,
			`"1"`, `"`+one.String()+`"`, `"2"`, `"`+two.String()+`"`).Replace(c.want)
		if got := string(c.payload); got != want {
			t.Errorf("payload of %s = %s, want %s", name, got, want)
		}
	}
}

func TestFamilyEntriesRoundTrip(t *testing.T) {
	parent, child, second := ids(t)
	for _, want := range []Birth{
		{Parent: parent, BirthPath: "D1", PolicyMutation: "be brief"}, {Parent: parent, BirthPath: "D2", Tools: []string{}}, {Parent: parent, BirthPath: "D2", Tools: []string{"a"}},
		{Parent: parent, BirthPath: "D3", Capability: "files"}, {Parent: parent, BirthPath: "D4", SecondParent: &second, ReferenceConsent: []byte{1}},
		{Parent: parent, BirthPath: "D4", SecondParent: &second, ReferenceConsent: []byte{1}, ChildConsent: []byte{2}, ConsentNonce: "n"},
		{Parent: parent, BirthPath: "D5", NewSubstrates: []string{"b"}, OldSubstrates: []string{}},
	} {
		got, err := ParseBirth(want.Payload())
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("ParseBirth() = %v (-want +got):\n%s", err, diff)
		}
	}
	thought := Inference{Caller: parent, RequestHash: identity.Hash{1}, PromptHash: identity.Hash{2}, ResponseHash: identity.Hash{3}, Substrate: "s", Model: "m", AgentVersion: 4}
	if got, err := ParseInference(thought.Payload()); err != nil || got != thought {
		t.Errorf("ParseInference() = %+v, %v, want %+v", got, err, thought)
	}
	for _, wrong := range []string{`{}`, `[]`, strings.Replace(string(thought.Payload()), `"agent_version":4`, `"agent_version":-1`, 1),
		strings.Replace(string(thought.Payload()), `"agent_version":4`, `"agent_version":"4"`, 1), strings.Replace(string(thought.Payload()), parent.String(), "x", 1)} {
		if got, err := ParseInference([]byte(wrong)); err == nil {
			t.Errorf("ParseInference(%s) = %+v, want a refusal", wrong, got)
		}
	}
	for _, want := range []Spawn{{Child: child, BirthPath: "D2"}, {Child: child, BirthPath: "D4", SecondParent: &second}} {
		got, err := ParseSpawn(want.Payload())
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("ParseSpawn() = %v (-want +got):\n%s", err, diff)
		}
	}
	graduation := Graduation{parent, child, "a\x1fb"}
	if got, err := ParseGraduation(graduation.Payload()); err != nil || got != graduation {
		t.Errorf("ParseGraduation() = %+v, %v, want %+v", got, err, graduation)
	}
	plan := identity.Sum([]byte("plan"))
	if got, err := ParsePlanChanged(PlanChangedPayload(plan)); err != nil || got != plan {
		t.Errorf("ParsePlanChanged() = %v, %v, want %v", got, err, plan)
	}
}

func TestMalformedFamilyEntriesAreRefused(t *testing.T) {
	parent, child, _ := ids(t)
	p, c := `"parent_id":"`+parent.String()+`"`, `"child_id":"`+child.String()+`"`
	birth := func(b []byte) error { _, err := ParseBirth(b); return err }
	spawn := func(b []byte) error { _, err := ParseSpawn(b); return err }
	graduation := func(b []byte) error { _, err := ParseGraduation(b); return err }
	plan := func(b []byte) error { _, err := ParsePlanChanged(b); return err }
	for _, tt := range []struct {
		parse         func([]byte) error
		payload, want string
	}{
		{birth, `[]`, "payload"}, {birth, `{`, "payload"}, {birth, `{}`, "parent_id"}, {birth, `{"parent_id":"00","path":"D1"}`, "parent_id"},
		{birth, `{` + p + `}`, "path"}, {birth, `{` + p + `,"path":"D6"}`, "path"}, {birth, `{` + p + `,"path":"D1"}`, "policy_mutation"},
		{birth, `{` + p + `,"path":"D2","narrowed_tools":[1]}`, "narrowed_tools[0]"}, {birth, `{` + p + `,"path":"D2","narrowed_tools":"a"}`, "narrowed_tools"},
		{birth, `{` + p + `,"path":"D3"}`, "new_capability_text"}, {birth, `{` + p + `,"path":"D4"}`, "secondary_parent_id"},
		{birth, `{` + p + `,"path":"D4","secondary_parent_id":"` + child.String() + `"}`, "consent_signature"},
		{birth, `{` + p + `,"path":"D4","secondary_parent_id":"` + child.String() + `","consent_signature":"g"}`, "consent_signature"},
		{birth, `{` + p + `,"path":"D4","secondary_parent_id":"` + child.String() + `","consent_signature":"01","child_consent_signature":1}`, "child_consent_signature"},
		{birth, `{` + p + `,"path":"D4","secondary_parent_id":"` + child.String() + `","consent_signature":"01","child_consent_signature":"01"}`, "consent_nonce"},
		{birth, `{` + p + `,"path":"D5"}`, "new_substrates"}, {birth, `{` + p + `,"path":"D5","new_substrates":[]}`, "old_substrates"},
		{spawn, `7`, "payload"}, {spawn, `{}`, "child_id"}, {spawn, `{` + c + `}`, "path"}, {spawn, `{` + c + `,"path":"D4"}`, "secondary_parent_id"},
		{graduation, `7`, "payload"}, {graduation, `{}`, "parent_id"}, {graduation, `{` + p + `}`, "child_id"}, {graduation, `{` + p + `,` + c + `}`, "capability_text"},
		{plan, `7`, "payload"}, {plan, `{}`, "plan_hash"}, {plan, `{"plan_hash":"00"}`, "plan_hash"},
	} {
		if err := tt.parse([]byte(tt.payload)); !problem.Is(err, problem.Malformed) || !strings.HasPrefix(problem.AsError(err).Text(), tt.want) {
			t.Errorf("reading %s = %v, want a refusal of %s", tt.payload, err, tt.want)
		}
	}
}

func TestTheStateThatAnEntryTells(t *testing.T) {
	parent, child, _ := ids(t)
	graduated := Graduation{parent, child, "review"}.Payload()
	for name, c := range map[string]struct {
		owner   identity.ID
		kind    string
		payload []byte
		want    lifecycle.State
	}{
		"born closed":                  {child, KindBirth, Birth{Parent: parent, BirthPath: "D2"}.Payload(), lifecycle.Local},
		"born open":                    {child, KindBirth, Birth{Parent: parent, BirthPath: "D3"}.Payload(), lifecycle.Active},
		"graduated itself":             {child, KindGraduated, graduated, lifecycle.Active},
		"a child graduated":            {parent, KindGraduated, graduated, ""},
		"changed by its owner":         {child, KindStateChanged, StateChangedPayload(lifecycle.Active, lifecycle.Hibernating), lifecycle.Hibernating},
		"published":                    {child, KindPublished, PublishedPayload(Publication{FromState: lifecycle.Local, ToState: lifecycle.Active}), lifecycle.Active},
		"a delegation says nothing":    {child, KindExecute, Delegation{Parent: parent, Child: child, SubtaskKind: "str"}.ExecutePayload(), ""},
		"the first of another's child": {child, KindGenesis, GenesisPayload("a", child), ""},
	} {
		e := Entry{Kind: c.kind, Payload: c.payload}
		got, says, err := e.StateAfter(c.owner)
		if err != nil || says != (c.want != "") || says && got != c.want {
			t.Errorf("State() of what was %s = %q, %v, %v, want %q", name, got, says, err, c.want)
		}
	}
	for _, kind := range []string{KindBirth, KindGraduated, KindStateChanged} {
		e := Entry{Kind: kind, Payload: []byte(`{}`)}
		if _, _, err := e.StateAfter(child); err == nil {
			t.Errorf("State() of an empty %s = nil, want a refusal", kind)
		}
	}
}

func FuzzWhatIsToldOfKinIsToldAgain(f *testing.F) {
	parent, child := identity.ID{1}, identity.ID{2}
	f.Add(Birth{Parent: parent, BirthPath: "D1"}.Payload())
	f.Add(Birth{Parent: parent, BirthPath: "D2", Tools: []string{"a"}}.Payload())
	f.Add(Birth{Parent: parent, BirthPath: "D4", SecondParent: &child, ReferenceConsent: []byte{1}, ChildConsent: []byte{2}, ConsentNonce: "n"}.Payload())
	f.Add(Spawn{Child: child, BirthPath: "D4", SecondParent: &parent}.Payload())
	f.Add(Graduation{parent, child, "x"}.Payload())
	f.Add(PlanChangedPayload(identity.Hash{1}))
	f.Add(Inference{Caller: parent, Substrate: "s", Model: "m"}.Payload())
	f.Fuzz(func(t *testing.T, payload []byte) {
		if b, err := ParseBirth(payload); err == nil {
			if again, err := ParseBirth(b.Payload()); err != nil || string(again.Payload()) != string(b.Payload()) {
				t.Errorf("ParseBirth(%s) = %+v, %v, want it again", b.Payload(), again, err)
			}
		}
		if s, err := ParseSpawn(payload); err == nil {
			if again, err := ParseSpawn(s.Payload()); err != nil || string(again.Payload()) != string(s.Payload()) {
				t.Errorf("ParseSpawn(%s) = %+v, %v, want it again", s.Payload(), again, err)
			}
		}
		if g, err := ParseGraduation(payload); err == nil {
			if again, err := ParseGraduation(g.Payload()); err != nil || again != g {
				t.Errorf("ParseGraduation(%s) = %+v, %v, want it again", g.Payload(), again, err)
			}
		}
		if i, err := ParseInference(payload); err == nil {
			if again, err := ParseInference(i.Payload()); err != nil || again != i {
				t.Errorf("ParseInference(%s) = %+v, %v, want it again", i.Payload(), again, err)
			}
		}
		if h, err := ParsePlanChanged(payload); err == nil {
			if again, err := ParsePlanChanged(PlanChangedPayload(h)); err != nil || again != h {
				t.Errorf("ParsePlanChanged(%s) = %v, %v, want it again", payload, again, err)
			}
		}
	})
}
