package calltest

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// voidDelay is the delay after the accept of a call during which other hosts must not void it.
const voidDelay = call.DefaultCallTimeout + call.GracePeriod

const callPrice = 10

// scene has two hosts, A and B, with one store and one pair. Both hosts host both vacants of the
// pair, so that a reversed envelope has a recipient.
type scene struct {
	t               *testing.T
	ctx             context.Context
	store           *Script
	clock           *Clock
	texts           *Texts
	ledger          *Ledger            // nil if calls are free, unless configureLedger is set
	configureLedger func(*call.Config) // sets another ledger; may be nil
	vault           custody.Vault      // vault of the hosts' real text keys; nil if texts are plain
	opener          call.Texts         // decrypts the hosts' texts
	hostA, hostB    *call.Host
	pair            call.Pair

	caller, vacant *identity.Key

	mu         sync.Mutex
	behaviours map[string]call.Behaviour // behaviours by text; other texts are echoed
	gates      map[string]*gate
	runCounts  map[identity.Hash]int // executions by request hash
}

// gate blocks a behaviour. entered is closed when the behaviour starts, and the behaviour continues
// when release is closed.
type gate struct{ entered, release chan struct{} }

func newScene(t *testing.T, inner store.Store) *scene {
	t.Helper()
	s := &scene{
		t: t, ctx: t.Context(), store: NewScript(inner), texts: &Texts{}, opener: &Texts{},
		clock:      NewClock(time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)),
		behaviours: map[string]call.Behaviour{}, gates: map[string]*gate{}, runCounts: map[identity.Hash]int{},
	}
	s.caller, s.vacant = s.newKey(), s.newKey()
	s.pair = call.Pair{Caller: s.caller.ID(), Vacant: s.vacant.ID()}
	s.setVacantState(lifecycle.Active)
	s.must(SetState(s.ctx, s.store, s.caller.ID(), lifecycle.Active))
	s.hostA, s.hostB = s.newHost(0), s.newHost(0)
	t.Cleanup(func() { s.wantInvariants() })
	return s
}

func (s *scene) useLedger(balance int64) {
	s.t.Helper()
	s.ledger = &Ledger{Store: s.store, Price: callPrice}
	s.must(s.ledger.Deposit(s.ctx, s.pair.Caller, balance))
	s.hostA, s.hostB = s.newHost(0), s.newHost(0)
}

func (s *scene) newKey() *identity.Key {
	k, err := identity.NewKey(rand.Reader)
	s.must(err)
	return k
}

func (s *scene) newHost(skew time.Duration) *call.Host {
	now := s.clock.NowFunc(skew)
	return s.newHostWith(func(c *call.Config) {
		c.Now = now
		c.Directory.(*Directory).Now = now
	})
}

func (s *scene) newHostWith(change func(*call.Config)) *call.Host {
	now := s.clock.NowFunc(0)
	c := call.Config{
		Store: s.store, Texts: s.texts, Self: s.hostID, Now: now, Rand: rand.Reader,
		Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
		Directory: &Directory{Store: s.store, Now: now, Vacants: map[identity.ID]call.Vacant{
			s.pair.Vacant: {Behaviour: s.runBehaviour, Signer: s.vacant},
			s.pair.Caller: {Behaviour: s.runBehaviour, Signer: s.caller},
		}},
	}
	if s.ledger != nil {
		c.Ledger = s.ledger
		SetPrice(c.Directory.(*Directory), callPrice)
	}
	if s.configureLedger != nil {
		s.configureLedger(&c)
	}
	change(&c)
	return call.New(c)
}

func (s *scene) hostID(context.Context) (identity.ID, error) { return identity.ID{0xaa}, nil }

func (s *scene) runBehaviour(ctx context.Context, host *call.Host, e envelope.Envelope) (envelope.Message, error) {
	text := e.Payload.Text()
	s.mu.Lock()
	s.runCounts[e.Hash()]++
	g, behaviour := s.gates[text], s.behaviours[text]
	s.mu.Unlock()
	if g != nil {
		close(g.entered)
		<-g.release
	}
	if behaviour != nil {
		return behaviour(ctx, host, e)
	}
	return envelope.Message{Role: envelope.RoleAgent, Parts: []string{"re " + text}}, nil
}

func (s *scene) setBehaviour(text string, b call.Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behaviours[text] = b
}

// addGate makes the behaviour of a text wait at the returned gate.
func (s *scene) addGate(text string) *gate {
	g := &gate{make(chan struct{}), make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gates[text] = g
	return g
}

type pendingCall struct {
	gate    *gate
	outcome chan call.Outcome
}

// startCall sends e to h and returns when the behaviour waits at its gate.
func (s *scene) startCall(h *call.Host, e *envelope.Envelope) *pendingCall {
	s.t.Helper()
	pending := &pendingCall{s.addGate(e.Payload.Text()), make(chan call.Outcome, 1)}
	go func() { pending.outcome <- h.Send(s.ctx, identity.ID{}, e) }()
	select {
	case <-pending.gate.entered:
	case out := <-pending.outcome:
		s.t.Fatalf("Send() of %q = %v before its behaviour ran", e.Payload.Text(), out.Problem)
	}
	return pending
}

func (p *pendingCall) finish() call.Outcome {
	close(p.gate.release)
	return <-p.outcome
}

// signCall signs a message after previous, which may be nil.
func (s *scene) signCall(previous *envelope.Envelope, text string) *envelope.Envelope {
	return s.signAt(previous, text, s.clock.NowFunc(0)())
}

func (s *scene) signAt(previous *envelope.Envelope, text string, signedAt time.Time) *envelope.Envelope {
	s.t.Helper()
	e := &envelope.Envelope{
		From: s.pair.Caller, To: s.pair.Vacant, Seq: 1, Time: signedAt.Truncate(time.Microsecond),
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{text}}, IdempotencyKey: "key of " + text,
	}
	if previous != nil {
		e.Seq, e.Prev = previous.Seq+1, previous.Hash()
	}
	return s.signAgain(e)
}

func (s *scene) signAgain(e *envelope.Envelope) *envelope.Envelope {
	s.t.Helper()
	_, err := e.Sign(s.ctx, s.caller)
	s.must(err)
	return e
}

func (s *scene) signReset() *envelope.Envelope {
	return s.signAt(nil, envelope.ResetText, s.clock.NowFunc(0)())
}

func (s *scene) setVacantState(st lifecycle.State) {
	s.t.Helper()
	s.must(SetState(s.ctx, s.store, s.pair.Vacant, st))
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// send, ask and sendReset use the host route, whose path contains no vacant id.
func (s *scene) send(h *call.Host, e *envelope.Envelope) call.Outcome {
	return h.Send(s.ctx, identity.ID{}, e)
}

func (s *scene) ask(h *call.Host, e *envelope.Envelope) call.Outcome {
	return h.Ask(s.ctx, identity.ID{}, e)
}

func (s *scene) sendReset(h *call.Host, e *envelope.Envelope) call.Outcome {
	return h.Reset(s.ctx, identity.ID{}, e)
}

// wantAnswer requires an outcome without a problem. A reply must be a verified answer to e.
func (s *scene) wantAnswer(out call.Outcome, e *envelope.Envelope) *envelope.Envelope {
	s.t.Helper()
	if out.Problem != nil {
		s.t.Fatalf("%q is refused: %v", e.Payload.Text(), out.Problem)
	}
	s.wantSignedReply(out.Reply, e)
	return out.Reply
}

func (s *scene) wantSignedReply(reply, e *envelope.Envelope) {
	s.t.Helper()
	if reply == nil {
		return
	}
	if _, ok := reply.VerifyBy(s.pair.Vacant); !ok {
		s.t.Fatalf("the reply to %q does not verify", e.Payload.Text())
	}
	if got, want := reply.IdempotencyKey, envelope.ReplyKey(e.Hash()); got != want {
		s.t.Fatalf("the reply to %q has key %q, want %q", e.Payload.Text(), got, want)
	}
}

// wantRefusal requires a refusal of a kind with a state, which may be empty.
func (s *scene) wantRefusal(out call.Outcome, kind problem.Kind, state call.State) {
	s.t.Helper()
	if out.Problem == nil {
		s.t.Fatalf("Problem = nil (state %q, reply %v), want %v", out.State, out.Reply != nil, kind)
	}
	if out.Problem.Kind != kind || out.State != state {
		s.t.Fatalf("Outcome = %v (%v), state %q; want %v, state %q", out.Problem.Kind, out.Problem, out.State, kind, state)
	}
	if kind == problem.Unavailable && (out.HasChain || out.Reply != nil) {
		s.t.Fatalf("a storage fault reveals the chain: %+v", out)
	}
}

// wantState requires a state in the outcome of an ask or of a refused resend. The reply must be
// want, which is nil unless the state is Answered.
func (s *scene) wantState(out call.Outcome, state call.State, want *envelope.Envelope) {
	s.t.Helper()
	if out.State != state {
		s.t.Fatalf("State = %q (%v), want %q", out.State, out.Problem, state)
	}
	if (state == call.Answered) != (out.Reply != nil) {
		s.t.Fatalf("State = %q, with a reply: %v", out.State, out.Reply != nil)
	}
	if diff := cmp.Diff(encodeEnvelope(want), encodeEnvelope(out.Reply)); diff != "" {
		s.t.Fatalf("the stored reply differs (-first +again):\n%s", diff)
	}
}

func encodeEnvelope(e *envelope.Envelope) string {
	if e == nil {
		return ""
	}
	return string(envelope.AppendMessage(nil, e))
}

// wantChainTip requires that an outcome reports tip as the chain's tip. A nil tip means an empty
// chain.
func (s *scene) wantChainTip(out call.Outcome, tip *envelope.Envelope) {
	s.t.Helper()
	seq, hash := int64(1), identity.Hash{}
	if tip != nil {
		seq, hash = tip.Seq+1, tip.Hash()
	}
	if !out.HasChain || out.ExpectedSeq != seq || out.ChainTip != hash {
		s.t.Fatalf("the outcome has a chain: %v, with seq %d after %.8s; want seq %d after %.8s", out.HasChain, out.ExpectedSeq, out.ChainTip, seq, hash)
	}
}

// wantRows compares the rows of the pair with a description, for example
// "call, reset | answer 1, void 1". The numbers are request positions. An empty stream is "none".
func (s *scene) wantRows(want string) {
	s.t.Helper()
	got, err := ReadStreams(s.ctx, s.store, s.pair)
	s.must(err)
	var requests, responses []string
	for _, r := range got.Requests {
		requests = append(requests, r.Kind.String())
	}
	for _, r := range got.Responses {
		responses = append(responses, fmt.Sprintf("%v %d", r.Kind, r.RequestPosition))
	}
	joinWords := func(w []string) string {
		if len(w) == 0 {
			return "none"
		}
		return strings.Join(w, ", ")
	}
	if diff := cmp.Diff(want, joinWords(requests)+" | "+joinWords(responses)); diff != "" {
		s.t.Fatalf("rows (-want +got):\n%s", diff)
	}
}

func (s *scene) wantBalance(want int64) {
	s.t.Helper()
	got, err := s.ledger.Balance(s.ctx, s.pair.Caller)
	s.must(err)
	if got != want {
		s.t.Fatalf("balance = %d, want %d", got, want)
	}
}

func (s *scene) wantRuns(e *envelope.Envelope, want int) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := s.runCounts[e.Hash()]; got != want {
		s.t.Fatalf("%q ran %d times, want %d", e.Payload.Text(), got, want)
	}
}

// wantInvariants runs after each test. It requires that all prepared steps were taken, the rows are
// valid, no envelope ran twice, and the reversed pair did not run.
func (s *scene) wantInvariants() {
	if s.t.Failed() {
		return
	}
	ctx := context.WithoutCancel(s.ctx) // the test's context has ended
	if n := s.store.PreparedSteps(); n > 0 {
		s.t.Errorf("%d prepared steps were not used: the test did not reach its fault", n)
	}
	for _, err := range CheckStreams(ctx, s.store, s.pair, s.opener) {
		s.t.Error(err)
	}
	reversed, err := ReadStreams(ctx, s.store, call.Pair{Caller: s.pair.Vacant, Vacant: s.pair.Caller})
	if err != nil || len(reversed.Requests)+len(reversed.Responses) > 0 {
		s.t.Errorf("the reversed pair has %d requests, %d responses, %v", len(reversed.Requests), len(reversed.Responses), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for h, n := range s.runCounts {
		if n > 1 {
			s.t.Errorf("I2: request %.8s ran %d times", h, n)
		}
	}
}
