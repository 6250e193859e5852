package graduation_test

import (
	"context"
	"crypto/rand"
	"github.com/vacancy-host/vacancy/shared/host/answer"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// caller makes a chain of calls to one vacant.
type caller struct {
	*fixture
	pipeline *call.Host
	to       identity.ID
	sign     func(*envelope.Envelope)
	from     identity.ID
	seq      int64
	prev     identity.Hash
}

func (c *caller) call(t testing.TB) call.Outcome {
	t.Helper()
	c.clock.Advance(time.Second)
	id := "m"
	e := &envelope.Envelope{
		From: c.from, To: c.to, Seq: c.seq + 1, Prev: c.prev, Time: c.clock.NowFunc(0)(), IdempotencyKey: "k",
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{"hello"}, MessageID: &id},
	}
	c.sign(e)
	out := c.pipeline.Send(t.Context(), identity.ID{}, e)
	if out.Problem == nil {
		c.seq, c.prev = c.seq+1, e.Hash()
	}
	return out
}

// A child is called before and after its graduation: by its parent on one chain, and by a stranger
// who got NotFound before.
func TestKeyIDLogbookAndChainsGoOnThroughAGraduation(t *testing.T) {
	h := newFixture(t)
	sub := h.family(t)
	parent, child := sub.Request.ParentID, sub.Request.ChildID
	pipeline := call.New(call.Config{
		Store: h.sound, Directory: answer.New(answer.Config{Vacants: h.vacants}), Now: h.clock.NowFunc(0), Rand: rand.Reader, Wait: noWait, Self: h.vacants.HostID,
		Texts: textkeys.New(h.sound, h.vault, h.clock.NowFunc(0), rand.Reader, 24*time.Hour), AreRevoked: h.registry.AreRevoked, IsSibling: h.registry.IsChild,
	})
	kin := &caller{fixture: h, pipeline: pipeline, to: child, from: parent, sign: func(e *envelope.Envelope) {
		must(t, h.vacants.WithSigner(t.Context(), parent, func(s identity.Signer) error { _, err := e.Sign(t.Context(), s); return err }))
	}}
	key := newKey(t)
	stranger := &caller{fixture: h, pipeline: pipeline, to: child, from: key.ID(), sign: func(e *envelope.Envelope) {
		_, err := e.Sign(t.Context(), key)
		must(t, err)
	}}
	before := kin.call(t)
	if before.Problem != nil {
		t.Fatalf("Send() by the parent before = %v, want an answer", before.Problem)
	}
	if out := stranger.call(t); out.Problem == nil || out.Problem.Kind != problem.Misdirected {
		t.Errorf("Send() by a stranger before = %v, want misdirected", out.Problem)
	}
	st, err := h.gate.Submit(t.Context(), sub)
	if err != nil || st.Phase != graduation.Accepted {
		t.Fatalf("Submit() = %s, %v, want accepted", st.Phase, err)
	}
	h.clock.Advance(2 * time.Second)
	after := kin.call(t)
	if after.Problem != nil {
		t.Fatalf("Send() by the parent after = %v, want an answer on the same chain", after.Problem)
	}
	if after.Reply.Seq != before.Reply.Seq+1 || after.Reply.From != child || after.Reply.Prev != before.Reply.Hash() {
		t.Errorf("the answer after = %d of %s, want %d that follows the one before", after.Reply.Seq, after.Reply.From.Short(), before.Reply.Seq+1)
	}
	if out := stranger.call(t); out.Problem != nil {
		t.Errorf("Send() by a stranger after = %v, want an answer", out.Problem)
	}
	r, err := h.vacants.Get(t.Context(), vacants.OperatorAsker(), child)
	if err != nil || r.ID != child || r.State != lifecycle.Active {
		t.Errorf("Get() = %s %s, %v, want it ACTIVE", r.ID.Short(), r.State, err)
	}
	g, _, err := h.registry.Get(t.Context(), child)
	if err != nil || !g.IsListed() || !strings.Contains(string(g.Card), child.String()) || !strings.HasSuffix(st.Outcome.Endpoint, child.String()+"/a2a/message/send") {
		t.Errorf("the registration = %+v with the endpoint %s, want one that is listed at its own address", g, st.Outcome.Endpoint)
	}
	h.wantClean(t)
}

// oracle is a detector with chosen results.
type oracle func(gate.Evidence, gate.Policy) (gate.Findings, error)

func (o oracle) Detect(e gate.Evidence, p gate.Policy) (gate.Findings, error) { return o(e, p) }

// collector is a Collector with chosen results.
type collector func(child, parent identity.ID) (gate.Evidence, error)

func (c collector) Collect(_ context.Context, child, parent identity.ID) (gate.Evidence, error) {
	return c(child, parent)
}

func TestSignalsThatAreNoneFailARunAndNeverPassIt(t *testing.T) {
	for name, change := range map[string]func(*graduation.Config){
		"NaN":        func(c *graduation.Config) { c.Detector = given{math.NaN(), 0, 0} },
		"above one":  func(c *graduation.Config) { c.Detector = given{0, 1.01, 0} },
		"below zero": func(c *graduation.Config) { c.Detector = given{0, 0, -0.01} },
		"infinite":   func(c *graduation.Config) { c.Detector = given{0, math.Inf(-1), 0} },
		"no findings": func(c *graduation.Config) {
			c.Detector = oracle(func(gate.Evidence, gate.Policy) (gate.Findings, error) { return gate.Findings{}, nil })
		},
		"evidence that is not one": func(c *graduation.Config) { c.Evidence = withActivity(math.NaN()) },
		"evidence of another": func(c *graduation.Config) {
			c.Evidence = collector(func(_, parent identity.ID) (gate.Evidence, error) { return gate.Evidence{Parent: parent}, nil })
		},
		"evidence of nobody": func(c *graduation.Config) {
			c.Evidence = collector(func(child, parent identity.ID) (gate.Evidence, error) {
				return gate.Evidence{Child: child, Parent: parent}, nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t, change)
			sub := h.family(t)
			st, err := h.gate.Submit(t.Context(), sub)
			if err != nil || st.Phase != graduation.Failed || st.Step != gate.StepCollusion || st.Refusal.Kind != problem.Damaged.String() {
				t.Errorf("Submit() = %s at %s %+v, %v, want failed at collusion as damaged", st.Phase, st.Step, st.Refusal, err)
			}
			if h.wantWhole(t, sub.Request.ChildID, sub.Request.ParentID) {
				t.Error("the child has graduated")
			}
		})
	}
}

// withActivity returns evidence with the same activity in each hour of the week.
func withActivity(n float64) collector {
	return func(child, parent identity.ID) (gate.Evidence, error) {
		week := make([]float64, gate.ActivityHours)
		for i := range week {
			week[i] = n
		}
		return gate.Evidence{Child: child, Parent: parent, Pairs: []gate.Pair{{OtherID: parent, Role: gate.RoleParent,
			Child: gate.Observation{ID: child, Activity: week}, Other: gate.Observation{ID: parent, Activity: week}}}}, nil
	}
}

func TestEvidenceBeyondReachIsAFaultAndNoRefusal(t *testing.T) {
	gone := true
	h := newFixture(t, func(c *graduation.Config) {
		c.Evidence = collector(func(child, parent identity.ID) (gate.Evidence, error) {
			if gone {
				return gate.Evidence{}, problem.New(problem.Unavailable, "storage is unavailable")
			}
			return withActivity(0)(child, parent)
		})
	})
	sub := h.family(t)
	st, err := h.gate.Submit(t.Context(), sub)
	if err != nil || st.Phase != graduation.Failed || st.Refusal.Error != "Unavailable" {
		t.Errorf("Submit() = %s %+v, %v, want failed by Unavailable", st.Phase, st.Refusal, err)
	}
	gone = false
	h.wantAcceptedInTheEnd(t, sub)
}

func TestARefusalForCollusionShowsWhatItWasJudgedBy(t *testing.T) {
	h := newFixture(t, func(c *graduation.Config) { c.Detector = given{0.2, 0.1, 0.6} })
	st, err := h.gate.Submit(t.Context(), h.family(t))
	if err != nil || st.Phase != graduation.Refused || st.Findings == nil || st.Findings.Policy != st.Policy || st.Refusal.Findings != nil {
		t.Fatalf("Submit() = %s, %+v, %v, want refused with findings beside", st.Phase, st.View(), err)
	}
	if want := "collusion signals too high for graduation: controller=0.20, substrate=0.10, stylo=0.60 (threshold 0.6)"; st.Refusal.Detail != want {
		t.Errorf("Submit() = %s, want %s", st.Refusal.Detail, want)
	}
}
