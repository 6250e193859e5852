//go:build unix

package lambda

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/awshost"
	"github.com/vacancy-host/vacancy/tests/estimates"
)

// kin is a host with a parent, and children with another substrate.
type kin struct {
	host   *awshost.Host
	server *serve.Server
	parent identity.ID
}

func newKin(t *testing.T) *kin {
	t.Helper()
	k := &kin{host: operated(t)}
	k.server = k.host.Open(t, k.host.Store(k.host.Endpoint), time.Now, nil)
	k.parent = k.host.Create(t, "parent", nil)
	return k
}

func (k *kin) child(t *testing.T, name string) identity.ID {
	t.Helper()
	r, _, err := k.server.Vacants.Spawn(t.Context(), vacants.SpawnSpec{Parent: k.parent, Path: "D2", Name: name, Substrate: "http:https://child.example/answer"})
	must(t, err)
	return r.ID
}

// request is a graduation request signed by both.
func (k *kin) request(t *testing.T, child identity.ID, text string) []byte {
	t.Helper()
	r := composite.GraduationRequest{ParentID: k.parent, ChildID: child, CapabilityText: text}
	for id, sign := range map[identity.ID]func(identity.Signer) error{
		k.parent: func(s identity.Signer) error { return r.SignParent(t.Context(), s) },
		child:    func(s identity.Signer) error { return r.SignChild(t.Context(), s) },
	} {
		must(t, k.server.Vacants.WithSigner(t.Context(), id, sign))
	}
	b, err := (&graduation.Submission{Request: r}).Blob()
	must(t, err)
	return b
}

// steps are the gate's functions, each with its input from the one before.
type steps struct {
	t         *testing.T
	functions map[string]*Function
}

func newSteps(t *testing.T, host *awshost.Host) *steps {
	t.Helper()
	s := &steps{t, map[string]*Function{}}
	for _, name := range []string{"consent", "ratelimit", "collusion", "commit", "record"} {
		s.functions[name] = run(t, name, host)
	}
	return s
}

// walk does what the state machine does with an input, with each task delivered
// twice, and returns the input or output of the last.
func (s *steps) walk(input string) (ended string, state json.RawMessage) {
	s.t.Helper()
	var in struct{ State json.RawMessage }
	if err := json.Unmarshal([]byte(input), &in); err != nil {
		s.t.Fatal(err)
	}
	for _, step := range gate.Steps() {
		name := strings.ReplaceAll(string(step.Name), "_", "")
		var next []byte
		var err error
		for range 2 { // Step Functions may deliver a task twice
			next, err = s.functions[name].Invoke(s.t.Context(), in.State)
		}
		if err != nil {
			return s.record(in.State, err), in.State
		}
		in.State = next
	}
	return "accepted", in.State
}

// record passes on a caught error, like the machine.
func (s *steps) record(state json.RawMessage, err error) string {
	s.t.Helper()
	cause := strings.TrimPrefix(err.Error(), "function error: ")
	var failed struct {
		Type string `json:"errorType"`
	}
	if err := json.Unmarshal([]byte(cause), &failed); err != nil {
		s.t.Fatalf("%v: %s", err, cause)
	}
	event, err := json.Marshal(map[string]any{"state": state, "error": map[string]string{"Error": failed.Type, "Cause": cause}})
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.functions["record"].Invoke(s.t.Context(), event); err != nil {
		s.t.Fatalf("record: %v\n%s", err, s.functions["record"].Log())
	}
	return failed.Type
}

// view is the admin API's view of a child's last attempt.
func (k *kin) view(t *testing.T, account *Function, child identity.ID) (v graduation.View) {
	t.Helper()
	r, err := account.Send(t.Context(), keyed("GET", "/v1/admin/vacants/"+url.PathEscape(child.String())+"/graduation", nil).Encode())
	if err != nil || r.Status != 200 {
		t.Fatalf("graduation = %d %s, %v", r.Status, r.Body, err)
	}
	must(t, json.Unmarshal([]byte(r.Body), &v))
	return v
}

func TestTheGatesFunctionsTakeAChildFromItsRequestToItsCard(t *testing.T) {
	k := newKin(t)
	machine, env := newMachines(t)
	handler, account, all := run(t, "graduate", k.host, env...), run(t, "admin", k.host, env...), newSteps(t, k.host)
	child := k.child(t, "reader")
	body := k.request(t, child, "reads contracts")
	for range 2 { // the second joins the open attempt
		r, err := handler.Post(t.Context(), "/v1/graduations", body)
		if err != nil || r.Status != 202 || !strings.Contains(r.Body, `"state":"open"`) {
			t.Fatalf("submit = %d %s, %v, want 202\n%s", r.Status, r.Body, err, handler.Log())
		}
	}
	runs := machine.runs()
	if len(runs) != 2 || runs[0] != runs[1] || runs[0].StateMachineArn != awshost.Gate || !strings.HasSuffix(runs[0].Name, "-1") {
		t.Fatalf("started %+v, want one execution, asked for twice", runs)
	}
	machine.say("collusion", false)
	if v := k.view(t, account, child); v.Phase != graduation.Open || v.Step != gate.StepCollusion {
		t.Errorf("while it runs the admin API shows %s at %q, want it open at collusion", v.Phase, v.Step)
	}
	machine.say("", true)
	if v := k.view(t, account, child); v.Phase != graduation.Open || v.Step != "" {
		t.Errorf("of a machine that is away the admin API shows %s at %q, want it open", v.Phase, v.Step)
	}

	if ended, _ := all.walk(runs[0].Input); ended != "accepted" {
		t.Fatalf("the steps end in %s, want the child accepted\n%s", ended, all.functions["collusion"].Log())
	}
	v := k.view(t, account, child)
	if v.Phase != graduation.Accepted || v.Outcome == nil || v.Outcome.Endpoint != awshost.URL+"/v/"+child.String()+"/a2a/message/send" {
		t.Errorf("graduation = %s %+v, want it accepted, with its endpoint", v.Phase, v.Outcome)
	}
	r, err := handler.Post(t.Context(), "/v1/graduations", body)
	if err != nil || r.Status != 200 || len(machine.runs()) != 0 {
		t.Errorf("the same after its success = %d %s, %v, want 200 and nothing started", r.Status, r.Body, err)
	}
	k.units(t, handler, all)
}

// units compares the lines' counts with the estimate: each task was delivered
// twice, so the second is left out.
func (k *kin) units(t *testing.T, handler *Function, all *steps) {
	t.Helper()
	var writes, reads float64
	add := func(m map[string]any) {
		w, _ := m["wcu"].(float64)
		r, _ := m["rcu"].(float64)
		writes, reads = writes+w, reads+r
	}
	first := map[string]bool{}
	for name, f := range all.functions {
		for _, m := range lines(t, f) {
			if m["msg"] == "step" && !first[name] {
				first[name] = true
				t.Logf("%s: %v write units, %v read units, %v trips, %v ms", name, m["wcu"], m["rcu"], m["trips"], m["ms"])
				add(m)
			}
		}
	}
	add(lines(t, handler)[0])
	model := estimates.Graduation
	t.Logf("a graduation: %v write units as DynamoDB Local counts them, %v read units; the estimate says %v and %v", writes, reads, model.WriteUnits, model.ReadUnits)
	if reads > model.ReadUnits {
		t.Errorf("a graduation takes %v read units, the estimate says %v", reads, model.ReadUnits)
	}
}

// A machine that cannot be reached leaves an attempt that the same request
// starts later.
func TestResentRequestStartsAnUnstartedMachine(t *testing.T) {
	k := newKin(t)
	machine, env := newMachines(t)
	handler := run(t, "graduate", k.host, env...)
	body := k.request(t, k.child(t, "reader"), "reads")
	machine.say("", true)
	if r, err := handler.Post(t.Context(), "/v1/graduations", body); err != nil || r.Status != 503 || !strings.Contains(r.Body, "send the same request again") {
		t.Errorf("submit without a machine = %d %s, %v, want 503", r.Status, r.Body, err)
	}
	machine.say("", false)
	if r, err := handler.Post(t.Context(), "/v1/graduations", body); err != nil || r.Status != 202 {
		t.Errorf("submit again = %d %s, %v, want 202", r.Status, r.Body, err)
	}
	if runs := machine.runs(); len(runs) != 1 || !strings.HasSuffix(runs[0].Name, "-1") {
		t.Errorf("started %+v, want the attempt that had begun", runs)
	}
}

func TestTheGatesFunctionsAnswerTheSampleEvents(t *testing.T) {
	host := operated(t)
	_, env := newMachines(t)
	replay(t, run(t, "graduate", host, env...), []step{
		{"graduate-submit.json", 404, `"detail":"unknown child `},
		{"graduate-forged.json", 403, `"code":"graduation_consent"`},
		{"graduate-status.json", 404, `"code":"not_found"`},
		{"graduate-admin.json", 404, `"code":"not_found"`},
	})
	for _, name := range []string{"consent", "ratelimit", "collusion", "commit"} {
		f := run(t, name, host)
		if _, err := f.Invoke(t.Context(), sample(t, name+"-state.json")); err == nil || !strings.Contains(err.Error(), `"errorType":"CompositeError"`) {
			t.Errorf("%s = %v, want an attempt that is not known\n%s", name, err, f.Log())
		}
	}
	f := run(t, "record", host)
	if _, err := f.Invoke(t.Context(), sample(t, "record-refusal.json")); err == nil || !strings.Contains(err.Error(), "is not known") {
		t.Errorf("record = %v, want an attempt that is not known\n%s", err, f.Log())
	}
}
