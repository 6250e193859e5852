package integration

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/localstack/server"
	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation/gatetest"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// named makes unique names.
func named(prefix string) string {
	b := make([]byte, 6)
	rand.Read(b)
	return prefix + hex.EncodeToString(b)
}

// composite is a vacant that will answer by its children. Its substrate differs
// from theirs, or it would be taken for one of them.
func (s *deployed) composite(t *testing.T) identity.ID {
	t.Helper()
	v, err := admin.CreateVacant.Call(t.Context(), s.admin(t), op.NewBody(admin.Creation{Name: named("p"), Capability: "asks its children", Substrate: "composite"}))
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	return v.ID
}

// children are n closed children of a vacant.
func (s *deployed) children(t *testing.T, parent identity.ID, n int) (ids []identity.ID) {
	t.Helper()
	for range n {
		c, err := admin.SpawnChild.Call(t.Context(), s.admin(t), admin.NewVacantRequest(parent.String(), admin.Spawning{
			Path: "D2", Name: named("c"), Capability: "echoes", Substrate: "echo"}))
		if err != nil {
			t.Fatalf("spawn: %v", err)
		}
		ids = append(ids, c.Vacant.ID)
	}
	return ids
}

// twins are a vacant and its closed child, both with the echo substrate.
func (s *deployed) twins(t *testing.T) (parent, child identity.ID) {
	t.Helper()
	v, err := admin.CreateVacant.Call(t.Context(), s.admin(t), op.NewBody(admin.Creation{Name: named("p"), Capability: "echoes", Substrate: "echo"}))
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	return v.ID, s.children(t, v.ID, 1)[0]
}

// consent makes the host sign a request for both parties.
func (s *deployed) consent(t *testing.T, r *composite.GraduationRequest) {
	t.Helper()
	for id, signature := range map[identity.ID]*[]byte{r.ParentID: &r.SignatureParent, r.ChildID: &r.SignatureChild} {
		signed, err := admin.SignGraduation.Call(t.Context(), s.admin(t), admin.NewVacantRequest(id.String(), admin.GraduationRequest{ParentID: r.ParentID, ChildID: r.ChildID, CapabilityText: r.CapabilityText}))
		if err != nil {
			t.Fatalf("signing a graduation: %v", err)
		}
		if *signature, err = hex.DecodeString(signed.Signature); err != nil {
			t.Fatal(err)
		}
	}
}

// begin sends a request to the gate's public handler.
func (s *deployed) begin(t *testing.T, sub graduation.Submission) (view graduation.View, err error) {
	t.Helper()
	body, err := sub.Blob()
	if err != nil {
		t.Fatal(err)
	}
	resp, err := web(t, s.aws, "").Post(s.GraduateURL+"/v1/graduations", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err = io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return view, refusal(resp.StatusCode, body)
	}
	if err := json.Unmarshal(body, &view); err != nil {
		t.Fatalf("the handler of the gate answers %d %s", resp.StatusCode, body)
	}
	return view, nil
}

// refusal is the problem in a handler's answer.
func refusal(status int, body []byte) error {
	var told struct{ Detail, Code string }
	if json.Unmarshal(body, &told) == nil {
		for _, kind := range []problem.Kind{problem.ConsentRequired, problem.NotFound, problem.TooManyRequests, problem.Conflict} {
			if kind.String() == told.Code && kind.Forms().HTTPStatus == status {
				return problem.New(kind, "%s", told.Detail)
			}
		}
	}
	return problem.New(problem.Internal, "%d %s", status, body)
}

// decided waits until an attempt is decided, and returns the steps that it was
// seen at.
func (s *deployed) decided(t *testing.T, view graduation.View) (graduation.View, []gate.StepName) {
	t.Helper()
	api := s.admin(t)
	var shown []gate.StepName
	var got graduation.View
	await.Until(t, "graduation "+view.ID+" is decided", func() bool {
		var err error
		if got, err = admin.GetGraduation.Call(t.Context(), api, admin.AttemptRef{VacantRef: admin.VacantRef{Vacant: view.Child.String()}, Position: view.Position}); err != nil {
			t.Fatal(err)
		}
		if got.Phase == graduation.Open && !slices.Contains(shown, got.Step) && got.Step != "" {
			shown = append(shown, got.Step)
		}
		return got.Phase != graduation.Open
	})
	return got, shown
}

// history lists the steps of an execution of the gate.
type history struct {
	Status      types.ExecutionStatus
	Entered     []string // the states, in order
	Failed      []string // the errors that functions ended with
	Transitions int
}

// run reads the history of an attempt's execution.
func (s *deployed) run(t *testing.T, view *graduation.View) (h history) {
	t.Helper()
	client := sfn.NewFromConfig(operator(s.aws))
	name := view.RequestHash.String()[:32] + view.ID[len(view.Child.String()):]
	arn := "arn:aws:states:" + s.Region + ":" + s.Account + ":execution:" + s.function("gate") + ":" + name
	await.Until(t, "execution "+name+" has ended", func() bool {
		got, err := client.DescribeExecution(t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: &arn})
		if err != nil {
			t.Fatalf("execution %s: %v", name, err)
		}
		h.Status = got.Status
		return h.Status != types.ExecutionStatusRunning
	})
	pages := sfn.NewGetExecutionHistoryPaginator(client, &sfn.GetExecutionHistoryInput{ExecutionArn: &arn})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Events {
			if d := e.StateEnteredEventDetails; d != nil {
				h.Entered = append(h.Entered, awssdk.ToString(d.Name))
			}
			if d := e.LambdaFunctionFailedEventDetails; d != nil {
				h.Failed = append(h.Failed, awssdk.ToString(d.Error))
			}
		}
	}
	h.Transitions = len(h.Entered) + 1 // and the start
	return h
}

// wanted is the history of an attempt with that outcome.
func wanted(view *graduation.View) (h history) {
	h.Status = types.ExecutionStatusSucceeded
	for _, step := range gate.Steps() {
		h.Entered = append(h.Entered, string(step.Name))
		if step.Name == view.Step && view.Phase == graduation.Refused {
			h.Entered = append(h.Entered, "record refusal", "refused")
			h.Failed = []string{view.Refusal.Error}
			h.Transitions = len(h.Entered) + 1
			return h
		}
	}
	h.Entered = append(h.Entered, "accepted")
	h.Transitions = len(h.Entered) + 1
	return h
}

// gateFixture is the stage as the shared tests of gates see it. Its outcomes
// are compared with the state machine's history.
func (s *deployed) gateFixture(t *testing.T) gatetest.Fixture {
	_, docs := s.tables(t)
	ended := map[string]bool{}
	return gatetest.Fixture{
		Store:  docs,
		Vacant: s.composite, Children: s.children, SameSubstratePair: s.twins, Sign: s.consent,
		Revoke: func(t *testing.T, id identity.ID) {
			t.Helper()
			if _, err := admin.RevokeVacant.Call(t.Context(), s.admin(t), admin.NewVacantRequest(id.String(), admin.Revocation{Reason: "gone"})); err != nil {
				t.Fatalf("revoke: %v", err)
			}
		},
		SetPolicy: func(t *testing.T, p gate.Policy) {
			t.Helper()
			if _, err := admin.SetGate.Call(t.Context(), s.admin(t), admin.NewTenantRequest("", op.EncodeRaw(p))); err != nil {
				t.Fatalf("setting the policy of the gate: %v", err)
			}
		},
		Submit: func(t *testing.T, sub graduation.Submission) (graduation.View, error) {
			t.Helper()
			view, err := s.begin(t, sub)
			if err != nil {
				return view, err
			}
			view, _ = s.decided(t, view)
			if got, want := s.run(t, &view), wanted(&view); !cmp.Equal(want, got) {
				t.Errorf("execution of %s (-want +got):\n%s", view.ID, cmp.Diff(want, got))
			} else if view.Phase == graduation.Accepted && got.Transitions > 7 {
				t.Errorf("execution of %s took %d transitions, want at most 7", view.ID, got.Transitions)
			}
			ended[view.ID] = true
			return view, nil
		},
	}
}

// The same refusals, in the same order, with the same records, as in one
// process: gatetest's table, over real functions.
func TestTheStateMachineDecidesAsEveryGateDoes(t *testing.T) {
	s := shared(t)
	gatetest.Run(t, s.gateFixture(t))
	if _, err := admin.SetGate.Call(t.Context(), s.admin(t), admin.NewTenantRequest("", op.EncodeRaw(gate.DefaultPolicy()))); err != nil {
		t.Error(err)
	}
	s.whole(t)
}

// graduated is the outcome of a child's graduation that must be accepted.
func (s *deployed) graduated(t *testing.T, parent, child identity.ID, capability string) graduation.View {
	t.Helper()
	r := composite.GraduationRequest{ParentID: parent, ChildID: child, CapabilityText: capability}
	s.consent(t, &r)
	view, err := s.begin(t, graduation.Submission{Request: r})
	if err != nil {
		t.Fatal(err)
	}
	view, _ = s.decided(t, view)
	if view.Phase != graduation.Accepted {
		t.Fatalf("graduation = %s at %s: %+v, want it accepted", view.Phase, view.Step, view.Refusal)
	}
	return view
}

// planned makes a composite ask two children at once and join their answers.
func (s *deployed) planned(t *testing.T, parent identity.ID, kids []identity.ID) {
	t.Helper()
	ask := func(child identity.ID, task string) map[string]any {
		return map[string]any{"child": child.String(), "kind": "review", "task": task}
	}
	blob, err := json.Marshal(map[string]any{
		"version": 1, "parallel": true, "aggregate": map[string]any{"how": "join", "separator": " | "},
		"delegate": []any{ask(kids[0], "first {input}"), ask(kids[1], "second {input}")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.SetPlan.Call(t.Context(), s.admin(t), admin.NewVacantRequest(parent.String(), op.Raw[plan.Document](blob))); err != nil {
		t.Fatalf("setting a plan: %v", err)
	}
}

// grown makes the gate and everything behind it do all that they ever do: a
// child that has served its parent, and others, is refused and then accepted.
func (s *deployed) grown(t *testing.T) {
	t.Helper()
	parent := s.composite(t)
	kids := s.children(t, parent, 2)
	s.planned(t, parent, kids)
	s.kill(t, "message")
	p := s.pair(t, parent)
	p.say("what do you all say")
	s.graduated(t, parent, kids[0], "speaks "+word(t))
	s.forget()
	q := s.pair(t, kids[0])
	q.say("hello") // it is observed, because it comes from outside the tree

	// Now the evidence has rows and texts, and a sibling that was called.
	stranger := s.composite(t)
	r := composite.GraduationRequest{ParentID: stranger, ChildID: kids[1], CapabilityText: "echoes"}
	s.consent(t, &r)
	view, err := s.begin(t, graduation.Submission{Request: r})
	if err != nil {
		t.Fatal(err)
	}
	if view, _ = s.decided(t, view); view.Phase != graduation.Refused || view.Step != gate.StepConsent {
		t.Errorf("a graduation that the parent has not signed = %s at %s, want it refused at consent", view.Phase, view.Step)
	}
	r.ParentID = parent
	s.consent(t, &r)
	if view, err = s.begin(t, graduation.Submission{Request: r}); err != nil {
		t.Fatal(err)
	}
	s.asked(t, &view, r.ChildID)
	s.decided(t, view)
}

// asked makes a child that holds its own key ask for the state of its
// graduation.
func (s *deployed) asked(t *testing.T, view *graduation.View, child identity.ID) {
	t.Helper()
	client := s.registry(t, s.key(t, child))
	client.URL = s.GraduateURL
	b, err := client.GetRaw(t.Context(), "/v1/graduations/"+view.ID, nil)
	var told graduation.View
	if err != nil || json.Unmarshal(b, &told) != nil || told.ID != view.ID {
		t.Errorf("the child reads of its graduation %s: %s, %v", view.ID, b, err)
	}
}

// A table that refuses writes for a while delays a commit. One that cannot be
// read ends the attempt as failed, and its execution with it: no slot is taken,
// and the same request is accepted when the table is back.
func TestATableThatIsAwayHoldsAnAttemptUpOrEndsItWhole(t *testing.T) {
	local(t)
	s := shared(t)
	parent := s.composite(t)
	kids := s.children(t, parent, 2)
	throttled := server.Fault{Kind: server.Throttled, Function: s.function("commit"), Service: "dynamodb", Operation: "TransactWriteItems", Times: 3}
	if err := s.aws.AddFault(t.Context(), throttled); err != nil {
		t.Fatal(err)
	}
	s.graduated(t, parent, kids[0], "speaks "+word(t))
	s.nothingPlanned(t)

	away := server.Fault{Kind: server.Denied, Function: s.function("ratelimit"), Service: "dynamodb", Times: 1000}
	if err := s.aws.AddFault(t.Context(), away); err != nil {
		t.Fatal(err)
	}
	r := composite.GraduationRequest{ParentID: parent, ChildID: kids[1], CapabilityText: "speaks " + word(t)}
	s.consent(t, &r)
	view, err := s.begin(t, graduation.Submission{Request: r})
	if err != nil {
		t.Fatal(err)
	}
	view, shown := s.decided(t, view)
	if err := s.aws.ClearFaults(t.Context()); err != nil {
		t.Fatal(err)
	}
	if view.Phase != graduation.Failed || view.Step != gate.StepRateLimit || view.Refusal.Error != gate.ErrorName(problem.Unavailable) {
		t.Errorf("without its table the attempt is %s at %s: %+v, want it failed at rate_limit", view.Phase, view.Step, view.Refusal)
	}
	if !slices.Contains(shown, gate.StepRateLimit) {
		t.Errorf("while it ran it was shown at %v, want rate_limit among them", shown)
	}
	h := s.run(t, &view)
	if want := []string{"consent", "rate_limit", "record failure", "failed"}; h.Status != types.ExecutionStatusFailed || !slices.Equal(h.Entered, want) {
		t.Errorf("its execution is %s by %v, want it failed by %v", h.Status, h.Entered, want)
	}
	if again := s.graduated(t, parent, kids[1], r.CapabilityText); again.Position != view.Position+1 || again.RequestHash != view.RequestHash {
		t.Errorf("the same request again is attempt %d, want %d", again.Position, view.Position+1)
	}
	s.whole(t)
}

// A failure on the way is retried or reported, and leaves nothing half done:
// each step's function is killed before its first read, and commit after its
// transaction, and the attempt is decided all the same.
func TestAStepThatDiesIsGivenToTheNextInstance(t *testing.T) {
	local(t)
	s := shared(t)
	for function, at := range map[string]server.Moment{
		"consent":   server.BeforeCall(1).ForOperation("dynamodb", ""),
		"ratelimit": server.BeforeCall(1).ForOperation("dynamodb", ""),
		"collusion": server.BeforeCall(1).ForOperation("dynamodb", ""),
		"commit":    server.AfterCall(1).ForOperation("dynamodb", "TransactWriteItems"),
	} {
		if testing.Short() && function != "commit" {
			continue
		}
		t.Run(function, func(t *testing.T) {
			parent := s.composite(t)
			child := s.children(t, parent, 1)[0]
			if _, err := s.aws.Kill(t.Context(), s.function(function), at); err != nil {
				t.Fatal(err)
			}
			s.graduated(t, parent, child, "speaks "+word(t))
			s.nothingPlanned(t)
		})
	}
	s.whole(t)
}
