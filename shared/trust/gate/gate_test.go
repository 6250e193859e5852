package gate_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/collusion"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func TestTheOrderOfTheStepsAndWhatTheyRefuse(t *testing.T) {
	want := []string{
		"consent: CompositeError GraduationConsentError RevokedError",
		"rate_limit: GraduationRateLimitError GraduationError",
		"collusion: GraduationCollusionError",
		"commit: CompositeError GraduationConsentError RevokedError GraduationRateLimitError GraduationError",
	}
	var got []string
	for _, s := range gate.Steps() {
		line := string(s.Name) + ":"
		for _, k := range s.RefusalKinds {
			line += " " + gate.ErrorName(k)
			if back, ok := gate.ParseErrorName(gate.ErrorName(k)); !ok || back != k {
				t.Errorf("ParseErrorName(%s) = %v, %v, want %v", gate.ErrorName(k), back, ok, k)
			}
			if !gate.IsRefusal(s.Name, k) {
				t.Errorf("Refuses(%s, %v) = false, want true", s.Name, k)
			}
		}
		got = append(got, line)
		if s.Description == "" {
			t.Errorf("step %s says nothing", s.Name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Steps() (-want +got):\n%s", diff)
	}
	if gate.IsRefusal(gate.StepCollusion, problem.Damaged) || gate.IsRefusal("another", problem.ConsentRequired) {
		t.Error("Refuses() = true for a failure, or for no step, want false")
	}
	if gate.ErrorName(problem.Internal) != gate.OtherErrorName {
		t.Errorf("ErrorName(Internal) = %s, want %s", gate.ErrorName(problem.Internal), gate.OtherErrorName)
	}
	if _, ok := gate.ParseErrorName(gate.OtherErrorName); ok {
		t.Error("ParseErrorName(Failed) is a kind, want none")
	}
}

func key(t *testing.T, b byte) *identity.Key {
	t.Helper()
	k, err := identity.KeyFromSeed([]byte(strings.Repeat(string(rune(b)), identity.Size)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func request(t *testing.T) (composite.GraduationRequest, composite.Manifest) {
	t.Helper()
	parent, child := key(t, 'p'), key(t, 'c')
	r := composite.GraduationRequest{ParentID: parent.ID(), ChildID: child.ID(), CapabilityText: "review"}
	if err := r.SignParent(t.Context(), parent); err != nil {
		t.Fatal(err)
	}
	if err := r.SignChild(t.Context(), child); err != nil {
		t.Fatal(err)
	}
	return r, composite.Manifest{ParentID: parent.ID(), ChildID: child.ID(), ClosedByDefault: true}
}

// A check that refuses must hide the results of all later checks.
func TestEachCheckPrecedesTheNext(t *testing.T) {
	now := time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC)
	p := gate.DefaultPolicy()
	p.DailyLimit = 1
	full := gate.Window{now.UnixMicro()}
	for _, c := range []struct {
		name                    string
		unknown, unsigned, open bool
		window                  gate.Window
		signals                 float64
		want                    string
	}{
		{"all of it", true, true, true, full, 1, "CompositeError"},
		{"a known child", false, true, true, full, 1, "GraduationConsentError"},
		{"a replay under a limit of one", false, false, true, full, 1, "GraduationRateLimitError"},
		{"a replay a day later", false, false, true, nil, 1, "GraduationError"},
		{"a closed child", false, false, false, nil, 1, "GraduationCollusionError"},
		{"nothing", false, false, false, nil, 0.59, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, m := request(t)
			stored := &m
			if c.unknown {
				stored = nil
			}
			if c.unsigned {
				r.SignatureChild = nil
			}
			m.ClosedByDefault = !c.open
			err := walk(&r, stored, c.window, now, p, gate.FindingsFromStrengths(p, r.ParentID, c.signals, 0, 0))
			if got, _ := refusal(err); got != c.want {
				t.Errorf("walk() = %v, want %s", err, c.want)
			}
		})
	}
}

func TestAManifestOfAnotherChildIsNone(t *testing.T) {
	r, m := request(t)
	m.ChildID = key(t, 'x').ID()
	if err := gate.CheckConsent(&r, &m); !problem.Is(err, problem.NotFound) {
		t.Errorf("CheckConsent() = %v, want NotFound", err)
	}
}

func TestTheBoundariesOfTheWindow(t *testing.T) {
	now := time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC)
	micro := func(d time.Duration) int64 { return now.Add(d).UnixMicro() }
	w := gate.Window{micro(time.Hour), micro(-gate.RateWindow), micro(-gate.RateWindow + time.Microsecond), micro(-gate.RateWindow - time.Hour), micro(0)}
	want := gate.Window{micro(time.Hour), micro(-gate.RateWindow + time.Microsecond), micro(0)}
	if diff := cmp.Diff(want, w.Recent(now)); diff != "" {
		t.Errorf("Within() (-want +got):\n%s", diff)
	}
	if len(w) != 5 || w[1] != micro(-gate.RateWindow) {
		t.Errorf("Within() changed the window to %v", w)
	}
	if diff := cmp.Diff(append(want, micro(0)), w.Add(now)); diff != "" {
		t.Errorf("Take() (-want +got):\n%s", diff)
	}
	if err := make(gate.Window, gate.MaxDailyLimit+1).Check(); err == nil {
		t.Error("Check() of a window longer than any limit = nil, want a refusal")
	}
}

func TestPolicies(t *testing.T) {
	for want, change := range map[string]func(*gate.Policy){
		"version":   func(p *gate.Policy) { p.Version = "2" },
		"limit":     func(p *gate.Policy) { p.DailyLimit = 0 },
		"limit: ":   func(p *gate.Policy) { p.DailyLimit = gate.MaxDailyLimit + 1 },
		"threshold": func(p *gate.Policy) { p.Threshold = math.NaN() },
		"thresh":    func(p *gate.Policy) { p.Threshold = 1.01 },
		"thresho":   func(p *gate.Policy) { p.Threshold = -0.01 },
		"mode":      func(p *gate.Policy) { p.Mode = "lax" },
		"detector":  func(p *gate.Policy) { p.Detector = "" },
	} {
		p := gate.DefaultPolicy()
		change(&p)
		if err := p.Check(); err == nil || !strings.HasPrefix(problem.AsError(err).Text(), want) {
			t.Errorf("Check() = %v, want a refusal of %s", err, want)
		}
		if b, err := p.Marshal(); err == nil {
			t.Errorf("Marshal() = %s, want a refusal of %s", b, want)
		}
	}
	for text, want := range map[string]gate.Policy{
		`{}`: gate.DefaultPolicy(),
		`{"version":"1","limit":1,"threshold":1,"mode":"strict","detector":"zeros"}`: {Version: "1", DailyLimit: 1, Threshold: 1, Mode: gate.ModeStrict, Detector: gate.DetectorZeros},
		`{"threshold":0,"mode":"reference"}`:                                         {Version: "1", DailyLimit: 3, Threshold: 0, Mode: gate.ModeReference, Detector: gate.DetectorObserved},
	} {
		if got, err := gate.ParsePolicy([]byte(text)); err != nil || got != want {
			t.Errorf("ParsePolicy(%s) = %+v, %v, want %+v", text, got, err, want)
		}
		b, err := want.Marshal()
		var got gate.Policy
		if err != nil || json.Unmarshal(b, &got) != nil || got != want {
			t.Errorf("Unmarshal(%s) = %+v, %v, want %+v", b, got, err, want)
		}
	}
	for _, text := range []string{``, `[]`, `{"limit":1.5}`, `{"limit":99999999999}`, `{"limit":-1}`, `{"threshold":"0.6"}`, `{"threshold":NaN}`, `{"thresold":0.6}`,
		`{"limit":1,"limit":2}`, `{"mode":7}`, `{"detector":null}`, `{"version":1}`, strings.Repeat(" ", 5000)} {
		if got, err := gate.ParsePolicy([]byte(text)); err == nil {
			t.Errorf("ParsePolicy(%.60s) = %+v, want a refusal", text, got)
		}
	}
}

func FuzzAPolicyThatIsReadIsWrittenAgain(f *testing.F) {
	f.Add([]byte(`{"version":"1","limit":3,"threshold":0.6,"mode":"default","detector":"observed"}`))
	f.Add([]byte(`{"threshold":1e-07}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := gate.ParsePolicy(data)
		if err != nil {
			return
		}
		b, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := gate.ParsePolicy(b); err != nil || again != p {
			t.Errorf("ParsePolicy(%s) = %+v, %v, want %+v", b, again, err, p)
		}
	})
}

func FuzzFindingsThatAreReadAreWrittenAgain(f *testing.F) {
	b, err := json.Marshal(gate.FindingsFromStrengths(gate.DefaultPolicy(), identity.ID{1}, 0.1, 0.2, 0.3))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"policy":{},"pairs":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		found, err := gate.ParseFindings(data)
		if err != nil {
			return
		}
		b, err := json.Marshal(found)
		if err != nil {
			t.Fatal(err)
		}
		again, err := gate.ParseFindings(b)
		if diff := cmp.Diff(found, again); err != nil || diff != "" {
			t.Errorf("ParseFindings(%s) = %v (-want +got):\n%s", b, err, diff)
		}
	})
}

// siblings returns the evidence about a child, its parent and a sibling. All signals have evidence,
// which differs between the three.
func siblings(t *testing.T) gate.Evidence {
	t.Helper()
	observe := func(b byte) gate.Observation {
		o := gate.Observation{ID: key(t, b).ID(), Tenant: "tenant " + string(rune(b)), Owner: "owner " + string(rune(b)), Families: []string{"http:" + string(rune(b))},
			Responses: gate.MinResponses, Activity: make([]float64, gate.ActivityHours), Style: make([]float64, collusion.FeatureCount)}
		for i := range o.Activity {
			o.Activity[i] = float64(i * i * int(b) % 29)
		}
		for i := range o.Style {
			o.Style[i] = float64((i+1)*int(b)%31) / 31
		}
		return o
	}
	child, parent, sibling := observe('c'), observe('p'), observe('s')
	return gate.Evidence{Child: child.ID, Parent: parent.ID, Pairs: []gate.Pair{
		{OtherID: parent.ID, Role: gate.RoleParent, Child: child, Other: parent},
		{OtherID: sibling.ID, Role: gate.RoleSibling, Child: child, Other: sibling},
	}}
}

// share copies the other vacant's evidence for a signal to the child.
func share(p *gate.Pair, n gate.SignalName) {
	switch n {
	case gate.Declared:
		p.Child.Tenant = p.Other.Tenant
	case gate.Substrate:
		p.Child.Families = append([]string{"http:of the child alone"}, p.Other.Families...)
	case gate.Activity:
		p.Child.Activity = p.Other.Activity
	case gate.Style:
		p.Child.Style = p.Other.Style
	case gate.Ancestor:
		p.HasCommonAncestor = true
	}
}

func TestSignalsRefusedByMode(t *testing.T) {
	all := []gate.Mode{gate.ModeDefault, gate.ModeStrict, gate.ModeReference}
	for _, c := range []struct {
		signal gate.SignalName
		with   gate.Role
		refuse []gate.Mode
	}{
		{gate.Declared, gate.RoleParent, []gate.Mode{gate.ModeStrict, gate.ModeReference}},
		{gate.Declared, gate.RoleSibling, []gate.Mode{gate.ModeStrict}},
		{gate.Ancestor, gate.RoleParent, []gate.Mode{gate.ModeReference}},
		{gate.Ancestor, gate.RoleSibling, nil},
		{gate.Activity, gate.RoleParent, all},
		{gate.Activity, gate.RoleSibling, []gate.Mode{gate.ModeDefault, gate.ModeStrict}},
		{gate.Substrate, gate.RoleParent, all},
		{gate.Substrate, gate.RoleSibling, []gate.Mode{gate.ModeStrict}},
		{gate.Style, gate.RoleParent, all},
		{gate.Style, gate.RoleSibling, []gate.Mode{gate.ModeDefault, gate.ModeStrict}},
	} {
		for _, mode := range all {
			t.Run(string(c.signal)+" of a "+string(c.with)+" in "+string(mode), func(t *testing.T) {
				e, p := siblings(t), gate.DefaultPolicy()
				p.Mode = mode
				if f, err := (gate.ObservationDetector{}).Detect(e, p); err != nil || f.CheckCollusion() != nil && mode != gate.ModeReference {
					t.Fatalf("Detect(), Judge() of what differs = %v, %v, want nil", err, f.CheckCollusion())
				}
				i := slices.IndexFunc(e.Pairs, func(p gate.Pair) bool { return p.Role == c.with })
				share(&e.Pairs[i], c.signal)
				f, err := (gate.ObservationDetector{}).Detect(e, p)
				if err != nil {
					t.Fatal(err)
				}
				want := slices.Contains(c.refuse, mode)
				judged := f.CheckCollusion()
				if want != problem.Is(judged, problem.CollusionFound) || !want && judged != nil {
					t.Errorf("Judge() = %v, want a refusal: %v", judged, want)
				}
				if want && c.with == gate.RoleSibling && !strings.HasSuffix(problem.AsError(judged).Text(), " against sibling "+e.Pairs[i].OtherID.Short()) {
					t.Errorf("Judge() = %v, want one that names the sibling", judged)
				}
				back := stored(t, f)
				if got, _ := refusal(back.CheckCollusion()); want != (got != "") {
					t.Errorf("Judge() of what was stored = %q, want a refusal: %v", got, want)
				}
			})
		}
	}
}

func stored(t *testing.T, f gate.Findings) gate.Findings {
	t.Helper()
	b, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range []string{"}", "]", " {}", "x"} {
		if _, err := gate.ParseFindings(append(slices.Clone(b), more...)); !problem.Is(err, problem.Damaged) {
			t.Errorf("ParseFindings() of findings and %q = %v, want Damaged", more, err)
		}
	}
	back, err := gate.ParseFindings(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f, back); diff != "" {
		t.Errorf("ParseFindings() (-want +got):\n%s", diff)
	}
	return back
}

// withhold removes the child's evidence for a signal.
func withhold(o *gate.Observation, n gate.SignalName) {
	switch n {
	case gate.Declared:
		o.Tenant, o.Owner = "", ""
	case gate.Substrate:
		o.Families = []string{"unknown"}
	case gate.Activity:
		o.Activity = nil
	case gate.Style:
		o.Style = nil
	}
}

func TestMissingEvidenceIsMissingAndNeverAZero(t *testing.T) {
	for _, n := range []gate.SignalName{gate.Declared, gate.Substrate, gate.Activity, gate.Style} {
		for _, mode := range []gate.Mode{gate.ModeDefault, gate.ModeStrict, gate.ModeReference} {
			t.Run(string(n)+" in "+string(mode), func(t *testing.T) {
				e, p := siblings(t), gate.DefaultPolicy()
				p.Mode = mode
				for i := range e.Pairs {
					withhold(&e.Pairs[i].Child, n)
					e.Pairs[i].Child.MissingReasons = map[gate.SignalName]string{n: "withheld"}
				}
				f, err := (gate.ObservationDetector{}).Detect(e, p)
				if err != nil {
					t.Fatal(err)
				}
				s := signal(t, &f, 0, n)
				if want := e.Child.Short() + ": withheld"; s.State != gate.SignalMissing || s.Strength != 0 || s.Reason != want {
					t.Errorf("signal = %+v, want one that is missing: %s", s, want)
				}
				err = f.CheckCollusion()
				if mode != gate.ModeStrict && problem.Is(err, problem.CollusionFound) && strings.Contains(err.Error(), "missing") {
					t.Errorf("Judge() = %v, want no refusal of what is missing", err)
				}
				if mode == gate.ModeStrict && (!problem.Is(err, problem.CollusionFound) || !strings.Contains(problem.AsError(err).Text(), "evidence is missing for graduation: "+string(n))) {
					t.Errorf("Judge() = %v, want a refusal that names %s", err, n)
				}
			})
		}
	}
}

func signal(t *testing.T, f *gate.Findings, pair int, n gate.SignalName) gate.Signal {
	t.Helper()
	i := slices.IndexFunc(f.PairFindings[pair].Signals, func(s gate.Signal) bool { return s.Name == n })
	if i < 0 {
		t.Fatalf("no signal %s in %+v", n, f.PairFindings[pair])
	}
	return f.PairFindings[pair].Signals[i]
}

func TestUnusedSignals(t *testing.T) {
	e, p := siblings(t), gate.DefaultPolicy()
	p.Mode = gate.ModeStrict
	// A closed child is called only from within its tree, so its hours are not evidence and do not
	// refuse.
	for i := range e.Pairs {
		e.Pairs[i].Child.Closed, e.Pairs[i].Child.Activity = true, nil
	}
	f, err := (gate.ObservationDetector{}).Detect(e, p)
	if err != nil || f.CheckCollusion() != nil {
		t.Fatalf("Detect(), Judge() = %v, %v, want nil", err, f.CheckCollusion())
	}
	if s := signal(t, &f, 0, gate.Activity); s.State != gate.SignalExcluded || s.Reason == "" {
		t.Errorf("activity of a closed child = %+v, want it excluded", s)
	}
	// If a child was called before it was closed, the detector compares these earlier calls.
	share(&e.Pairs[1], gate.Activity)
	if f, err := (gate.ObservationDetector{}).Detect(e, p); err != nil || !problem.Is(f.CheckCollusion(), problem.CollusionFound) {
		t.Errorf("Detect(), Judge() of the activity of a closed child = %v, %v, want a refusal", err, f.CheckCollusion())
	}
	e.Pairs[1].Child.Activity = nil
	if s := signal(t, &f, 0, gate.Ancestor); s.State != gate.SignalExcluded {
		t.Errorf("the parent's own edge = %+v, want it excluded", s)
	}
	// A composite answers in the words of its children, and 49 answers are too few.
	e.Pairs[0].Other.Families, e.Pairs[1].Other.Responses, p.Mode = []string{"composite"}, gate.MinResponses-1, gate.ModeDefault
	if f, err = (gate.ObservationDetector{}).Detect(e, p); err != nil {
		t.Fatal(err)
	}
	if s := signal(t, &f, 0, gate.Substrate); s.State != gate.SignalMissing {
		t.Errorf("the family of a composite = %+v, want it missing", s)
	}
	if s := signal(t, &f, 1, gate.Style); s.State != gate.SignalMissing || s.Inputs.OtherSamples != gate.MinResponses-1 {
		t.Errorf("the style of 49 answers = %+v, want it missing", s)
	}
	p.Mode = gate.ModeReference
	if f, err = (gate.ObservationDetector{}).Detect(e, p); err != nil || len(f.PairFindings) != 1 || f.PairFindings[0].Role != gate.RoleParent {
		t.Errorf("Detect() in reference mode = %+v, %v, want the parent alone", f.PairFindings, err)
	}
}

func TestTheSameOwnerIsDeclaredWhereTenantsDiffer(t *testing.T) {
	e, p := siblings(t), gate.DefaultPolicy()
	p.Mode = gate.ModeStrict
	e.Pairs[0].Child.Owner = e.Pairs[0].Other.Owner
	if f, err := (gate.ObservationDetector{}).Detect(e, p); err != nil || !problem.Is(f.CheckCollusion(), problem.CollusionFound) {
		t.Errorf("Detect(), Judge() = %v, %v, want a refusal", err, f.CheckCollusion())
	}
}

func TestEvidenceThatIsNoneFailsAndNeverPasses(t *testing.T) {
	for name, change := range map[string]func(*gate.Evidence){
		"a NaN in a style":         func(e *gate.Evidence) { e.Pairs[1].Child.Style[3] = math.NaN() },
		"a style out of range":     func(e *gate.Evidence) { e.Pairs[0].Other.Style[3] = 1.5 },
		"a short style":            func(e *gate.Evidence) { e.Pairs[0].Other.Style = e.Pairs[0].Other.Style[:15] },
		"infinite activity":        func(e *gate.Evidence) { e.Pairs[0].Other.Activity[0] = math.Inf(1) },
		"a short activity":         func(e *gate.Evidence) { e.Pairs[0].Other.Activity = e.Pairs[0].Other.Activity[:3] },
		"of another child":         func(e *gate.Evidence) { e.Pairs[0].Child.ID = e.Pairs[1].OtherID },
		"of another parent":        func(e *gate.Evidence) { e.Pairs[0].Other.ID = e.Pairs[1].OtherID },
		"of the child with itself": func(e *gate.Evidence) { e.Pairs[0].OtherID, e.Pairs[0].Other.ID = e.Child, e.Child },
	} {
		e := siblings(t)
		change(&e)
		if f, err := (gate.ObservationDetector{}).Detect(e, gate.DefaultPolicy()); !problem.Is(err, problem.Damaged) {
			t.Errorf("Detect() of %s = %+v, %v, want Damaged", name, f, err)
		}
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1), -0.01, 1.01} {
		f := gate.FindingsFromStrengths(gate.DefaultPolicy(), identity.ID{1}, 0, bad, 0)
		if err := f.CheckCollusion(); !problem.Is(err, problem.Damaged) {
			t.Errorf("Judge() of a strength of %v = %v, want Damaged", bad, err)
		}
	}
	none := gate.Findings{Policy: gate.DefaultPolicy()}
	if err := none.CheckCollusion(); !problem.Is(err, problem.Damaged) {
		t.Errorf("Judge() of nothing = %v, want Damaged", err)
	}
	if f, err := (gate.ObservationDetector{}).Detect(gate.Evidence{}, gate.DefaultPolicy()); err != nil || f.CheckCollusion() == nil {
		t.Errorf("Detect(), Judge() of no pair = %v, %v, want a failure", err, f.CheckCollusion())
	}
	none = gate.FindingsFromStrengths(gate.Policy{}, identity.ID{1}, 0, 0, 0)
	if err := none.CheckCollusion(); !problem.Is(err, problem.Damaged) {
		t.Errorf("Judge() without a policy = %v, want Damaged", err)
	}
	for _, text := range []string{``, `{}`, `{"policy":{},"pairs":[],"verdict":1}`, `{"policy":{}} {}`, `{"policy":{},"pairs":[{"with":"00"}]}`,
		`{"policy":{},"pairs":[{"signals":[{"state":"seen"}]}]}`, `{"policy":{"limit":0}}`} {
		if f, err := gate.ParseFindings([]byte(text)); !problem.Is(err, problem.Damaged) {
			t.Errorf("ParseFindings(%s) = %+v, %v, want Damaged", text, f, err)
		}
	}
}

func TestTheWorstPairIsNamed(t *testing.T) {
	f := gate.FindingsFromStrengths(gate.DefaultPolicy(), identity.ID{1}, 0.7, 0, 0)
	f.PairFindings = append(f.PairFindings, gate.Finding{OtherID: identity.ID{2}, Role: gate.RoleSibling, Signals: []gate.Signal{
		{Name: gate.Style, State: gate.SignalObserved, Strength: 0.9, CanRefuse: true},
		{Name: gate.Declared, State: gate.SignalObserved, Strength: 1},                    // does not block
		{Name: gate.Activity, State: gate.SignalMissing, Strength: 0.95, CanRefuse: true}, // missing
	}})
	want := "collusion signals too high for graduation: controller=0.00, substrate=0.00, stylo=0.90 (threshold 0.6) against sibling 020000000000"
	if got := problem.AsError(f.CheckCollusion()).Text(); got != want {
		t.Errorf("Judge() = %s, want %s", got, want)
	}
	f.Policy.Threshold = 1
	if err := f.CheckCollusion(); err != nil {
		t.Errorf("Judge() under a threshold of 1 = %v, want nil", err)
	}
}

func TestDetectorsAreChosenByName(t *testing.T) {
	e, p := siblings(t), gate.DefaultPolicy()
	if d, err := gate.NewDetector(p); err != nil || d != (gate.ObservationDetector{}) {
		t.Errorf("NewDetector(default) = %v, %v, want Observed", d, err)
	}
	p.Detector = gate.DetectorZeros
	d, err := gate.NewDetector(p)
	if err != nil {
		t.Fatal(err)
	}
	e.Pairs[0].Child.Style = e.Pairs[0].Other.Style
	if f, err := d.Detect(e, p); err != nil || f.CheckCollusion() != nil || f.PairFindings[0].OtherID != e.Parent {
		t.Errorf("Detect() of zeros = %+v, %v, want nothing found", f, err)
	}
	p.Detector = "none"
	if _, err := gate.NewDetector(p); err == nil {
		t.Error("NewDetector(none) = nil, want a refusal")
	}
}

func TestFindingsOfNinePairsAreCompact(t *testing.T) {
	e := siblings(t)
	for range 7 {
		e.Pairs = append(e.Pairs, e.Pairs[1])
	}
	f, err := (gate.ObservationDetector{}).Detect(e, gate.DefaultPolicy())
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(f)
	if err != nil || len(b) > 32<<10 {
		t.Errorf("findings of %d pairs take %d bytes, %v, want at most 32 KiB", len(f.PairFindings), len(b), err)
	}
	t.Logf("findings of %d pairs take %d bytes", len(f.PairFindings), len(b))
}

// One common family is a match. If some families are unknown, the signal is a match or missing, but
// never a difference.
func TestAFamilyInCommonIsTheSameHoweverManyThereAre(t *testing.T) {
	const shared = "http:shared"
	for name, tt := range map[string]struct {
		child, parent []string
		others        bool // whether the child has further families, which are unknown
		state         gate.SignalState
		strength      float64
		inputs        *gate.Inputs
	}{
		"one in common":                    {[]string{"echo", shared}, []string{"http:p", shared}, false, gate.SignalObserved, 1, &gate.Inputs{ChildFamilies: shared, OtherFamilies: shared}},
		"one in common, others not known":  {[]string{"echo", shared}, []string{shared}, true, gate.SignalObserved, 1, &gate.Inputs{ChildFamilies: shared, OtherFamilies: shared}},
		"none in common":                   {[]string{"echo", "http:c", "http:d"}, []string{shared}, false, gate.SignalObserved, 0, &gate.Inputs{ChildFamilies: "echo and 2 more", OtherFamilies: shared}},
		"none in common, others not known": {[]string{"echo"}, []string{shared}, true, gate.SignalMissing, 0, nil},
		"what says nothing in common":      {[]string{"unknown", "composite", ""}, []string{"unknown", "composite", ""}, false, gate.SignalMissing, 0, nil},
	} {
		e, p := siblings(t), gate.DefaultPolicy()
		e.Pairs[0].Child.Families, e.Pairs[0].Other.Families = tt.child, tt.parent
		if tt.others {
			e.Pairs[0].Child.MissingReasons = map[gate.SignalName]string{gate.Substrate: "one of its children is not hosted here"}
		}
		f, err := (gate.ObservationDetector{}).Detect(e, p)
		if err != nil {
			t.Fatal(err)
		}
		s := signal(t, &f, 0, gate.Substrate)
		if diff := cmp.Diff(tt.inputs, s.Inputs); diff != "" || s.State != tt.state || s.Strength != tt.strength {
			t.Errorf("%s: %+v, want it %s at %v (-want +got):\n%s", name, s, tt.state, tt.strength, diff)
		}
		if err := f.CheckCollusion(); (tt.strength == 1) != problem.Is(err, problem.CollusionFound) {
			t.Errorf("%s: Judge() = %v", name, err)
		}
	}
}
