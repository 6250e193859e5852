package graduation_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func TestAnAttemptsNameReadsBackAndNothingElseIsOne(t *testing.T) {
	child := identity.ID{0xab, 2, 3}
	for _, position := range []uint64{1, 10, math.MaxInt64} {
		id := graduation.ID{Child: child, Position: position}
		if got, err := graduation.ParseID(id.String()); err != nil || got != id {
			t.Errorf("ParseID(%s) = %v, %v, want it back", id, got, err)
		}
	}
	for _, text := range []string{"", "-", child.String(), child.String() + "-", child.String() + "-0", child.String() + "-01", child.String() + "-+1",
		child.String() + "-1 ", strings.ToUpper(child.String()) + "-1", child.String() + "-9223372036854775808", child.String() + "-1-1", child.String()[2:] + "-1"} {
		if id, err := graduation.ParseID(text); !problem.Is(err, problem.NotFound) {
			t.Errorf("ParseID(%q) = %v, %v, want not found", text, id, err)
		}
	}
}

func TestInvalidSubmissionIsRefused(t *testing.T) {
	h := newFixture(t)
	sub := h.family(t)
	blob, err := sub.Blob()
	must(t, err)
	request := strings.TrimSuffix(string(blob), "}")
	for want, text := range map[string]string{
		"request: expected":                     `{}`,
		"another":                               request + `,"when":1}`,
		"artefacts: expected":                   request + `,"artefacts":null}`,
		"artefacts.x":                           request + `,"artefacts":{"x":1}}`,
		"artefacts.manifest_signature_parent":   request + `,"artefacts":{"manifest_signature_parent":"zz"}}`,
		"artefacts.manifest_signature_child":    request + `,"artefacts":{"manifest_signature_child":"` + strings.Repeat("00", 65) + `"}}`,
		"artefacts.event_ts_ms":                 request + `,"artefacts":{"event_ts_ms":-1}}`,
		"artefacts.event_actor_seq":             request + `,"artefacts":{"event_actor_seq":"1"}}`,
		"artefacts.event_idempotency_key":       request + `,"artefacts":{"event_idempotency_key":"` + strings.Repeat("k", 513) + `"}}`,
		"artefacts.event_signature_hex":         request + `,"artefacts":{"event_signature_hex":1}}`,
		"capability_card_blob_hex":              request + `,"artefacts":{"capability_card_blob_hex":"0"}}`,
		"graduation request":                    `{"request":{}}`,
		"a graduation request":                  strings.Replace(request, `"intent"`, `"nonce":1,"intent"`, 1) + `}`,
		"graduation: expected at most 131072 b": strings.Repeat(" ", graduation.MaxSubmissionBytes) + "{}",
	} {
		if _, err := graduation.ParseSubmission([]byte(text)); err == nil || !strings.Contains(problem.AsError(err).Text(), want) {
			t.Errorf("ParseSubmission(%.120s) = %v, want a refusal of %s", text, err, want)
		}
	}
}

func FuzzASubmissionThatIsReadIsWrittenAgain(f *testing.F) {
	h := newFixture(f)
	sub := h.family(f)
	sub.Artefacts = graduation.Artefacts{ManifestParent: []byte{1}, ManifestChild: []byte{2}, Card: []byte("{}"), Time: 1, ActorSeq: 2, IdempotencyKey: "k", Signature: []byte{3}}
	blob, err := sub.Blob()
	must(f, err)
	f.Add(blob)
	f.Add([]byte(`{"request":{},"artefacts":{}}`))
	f.Fuzz(func(t *testing.T, blob []byte) {
		one, err := graduation.ParseSubmission(blob)
		if err != nil {
			return
		}
		b, err := one.Blob()
		must(t, err)
		two, err := graduation.ParseSubmission(b)
		if problem.Is(err, problem.TooLarge) || problem.Is(err, problem.Malformed) && len(b) > 60<<10 {
			return // escapes may make it longer than its source
		}
		must(t, err)
		again, err := two.Blob()
		must(t, err)
		if string(again) != string(b) {
			t.Errorf("Blob() = %s, want %s", again, b)
		}
	})
}

func FuzzStoredAttemptsAreReadOrRefusedAsDamaged(f *testing.F) {
	h := newFixture(f)
	sub := h.family(f)
	st, err := h.gate.Submit(f.Context(), sub)
	must(f, err)
	row, err := h.sound.Tip(f.Context(), graduation.Stream(st.Child))
	must(f, err)
	doc, err := h.sound.Doc(f.Context(), graduation.StatusKey(st.Child, 1))
	must(f, err)
	window, err := h.sound.Doc(f.Context(), graduation.WindowKey(sub.Request.ParentID))
	must(f, err)
	for _, data := range [][]byte{row.Data, doc.Data, window.Data, []byte(`{"format":1,"policy":{}}`), nil} {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, attempt := graduation.DecodeAttempt(st.Child, store.Row{Position: 1, Data: data})
		_, status := graduation.DecodeStatus(st.Attempt, store.Doc{Key: graduation.StatusKey(st.Child, 1), Version: 1, Data: data})
		taken := graduation.WindowDocs.Check(store.Doc{Key: graduation.WindowKey(sub.Request.ParentID), Version: 1, Data: data})
		policy := graduation.PolicyDocs.Check(store.Doc{Key: graduation.PolicyKey(""), Version: 1, Data: data})
		for what, err := range map[string]error{"DecodeAttempt": attempt, "DecodeStatus": status, "WindowDocs.Check": taken, "PolicyDocs.Check": policy} {
			if err != nil && !problem.Is(err, problem.Damaged) {
				t.Errorf("%s() = %v, want damaged", what, err)
			}
		}
	})
}

func TestImpossibleAttemptIsDamaged(t *testing.T) {
	h := newFixture(t)
	st, err := h.gate.Submit(t.Context(), h.family(t))
	must(t, err)
	doc, err := h.sound.Doc(t.Context(), graduation.StatusKey(st.Child, 1))
	must(t, err)
	for name, change := range map[string]func(map[string]any){
		"a later format":       func(m map[string]any) { m["format"] = 2 },
		"a state that is none": func(m map[string]any) { m["state"] = "maybe" },
		"open and decided":     func(m map[string]any) { m["state"] = "open" },
		"accepted for nothing": func(m map[string]any) { delete(m, "outcome") },
		"refused for nothing":  func(m map[string]any) { m["state"] = "refused" },
		"never decided":        func(m map[string]any) { delete(m, "decided") },
		"after itself":         func(m map[string]any) { m["accepted"] = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			var m map[string]any
			must(t, json.Unmarshal(doc.Data, &m))
			change(m)
			data, err := json.Marshal(m)
			must(t, err)
			_, err = graduation.DecodeStatus(st.Attempt, store.Doc{Key: doc.Key, Version: 1, Data: data})
			wantKind(t, "DecodeStatus()", err, problem.Damaged)
		})
	}
}

func TestARefusalComesThroughAStateMachineAsItWas(t *testing.T) {
	findings := gate.FindingsFromStrengths(gate.DefaultPolicy(), identity.ID{1}, 0.7, 0.1, 0.2)
	refused := graduation.NewRefusal(gate.StepCollusion, &graduation.CollusionError{Findings: findings, Err: findings.CheckCollusion()})
	caught := func(r *graduation.Refusal) string {
		b, err := json.Marshal(map[string]string{"errorMessage": r.Cause(), "errorType": r.Error})
		must(t, err)
		return string(b)
	}
	if diff := cmp.Diff(refused, graduation.ParseCause(gate.StepCollusion, refused.Error, caught(refused))); diff != "" || refused.Findings == nil {
		t.Errorf("ParseCause(Cause()) (-want +got):\n%s", diff)
	}
	long := *refused
	long.Findings = &gate.Findings{Policy: findings.Policy}
	for range 200 {
		long.Findings.PairFindings = append(long.Findings.PairFindings, findings.PairFindings...)
	}
	got := graduation.ParseCause(gate.StepCollusion, long.Error, caught(&long))
	if len(long.Cause()) > graduation.MaxCauseBytes || got.Detail != long.Detail || got.Findings != nil {
		t.Errorf("ParseCause() of what is too long = %+v, want it without its findings", got)
	}
	nine := *refused
	nine.Findings = widest(t)
	if got := graduation.ParseCause(gate.StepCollusion, nine.Error, caught(&nine)); got.Findings == nil || len(got.Findings.PairFindings) != 9 {
		t.Errorf("ParseCause() of nine pairs = %+v, want all of them", got)
	}
	for name, c := range map[string]struct{ name, cause, kind string }{
		"a timeout":             {"States.Timeout", "", "internal"},
		"a task that died":      {"Lambda.Unknown", `{"errorMessage":"exit status 1"}`, "internal"},
		"another's words":       {"GraduationError", "no JSON", "graduated"},
		"a name that lies":      {"RevokedError", caught(refused), "revoked"},
		"storage that was gone": {"Unavailable", "", "unavailable"},
	} {
		if got := graduation.ParseCause(gate.StepConsent, c.name, c.cause); got.Kind != c.kind || got.Step != gate.StepConsent || got.Detail == "" {
			t.Errorf("ParseCause() of %s = %+v, want the kind %s", name, got, c.kind)
		}
	}
}

// widest is the evidence for a parent and eight siblings with a reason for every missing part.
func widest(t *testing.T) *gate.Findings {
	t.Helper()
	why := map[gate.SignalName]string{}
	for _, name := range []gate.SignalName{gate.Declared, gate.Ancestor, gate.Activity, gate.Substrate, gate.Style} {
		why[name] = strings.Repeat("x", 150)
	}
	e := gate.Evidence{Child: identity.ID{1}, Parent: identity.ID{2}}
	for i := range 9 {
		with := identity.ID{2, byte(i)}
		e.Pairs = append(e.Pairs, gate.Pair{OtherID: with, Role: gate.RoleSibling, Child: gate.Observation{ID: e.Child, Responses: 49, MissingReasons: why}, Other: gate.Observation{ID: with, Responses: 49, MissingReasons: why}})
	}
	p := gate.DefaultPolicy()
	p.Mode = gate.ModeStrict
	f, err := gate.ObservationDetector{}.Detect(e, p)
	must(t, err)
	return &f
}
