package callcmd

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/mcpserver"
	"github.com/vacancy-host/vacancy/shared/front/mcpserver/mcprelay"
	"github.com/vacancy-host/vacancy/shared/front/mcpserver/mcptool"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/client/discovery"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

const (
	// signedTime limits the time of a signed call. Vacants take at most 14 minutes.
	signedTime = 15 * time.Minute
	// maxQuestions limits the questions that are retained for get_task.
	maxQuestions = 256
)

// serveSigned serves an MCP server whose questions are calls signed by an identity.
func serveSigned(a *kit.App, ctx context.Context, s mcpServer, as string, w kit.Where) error {
	self, err := a.Caller(ctx, as)
	if err != nil {
		return err
	}
	host, err := a.Find(w)
	if err != nil {
		return err
	}
	search := s.base
	if host != nil && host.Record.URL == s.base {
		search = cmp.Or(host.Record.RegistryURL, search)
	}
	// All questions end with the program. Each call is stored, so the same question resumes it later.
	asking, end := context.WithCancel(ctx)
	defer end()
	h := &signedHost{
		a: a, base: s.base, self: self, web: a.HTTP(signedTime), where: w, flags: callFlags{as: as, where: w}, asking: asking,
		client: &discovery.Client{Registries: []*registryclient.Client{{Transport: a.WithSearchURL(search, a.HTTP(0)), URL: search}}},
	}
	about := mcptool.About{Name: "vacancy", Version: kit.Version(), Instructions: "Finds agents that are published on a host, and asks them by signed calls. Begin with search_agents, then ask an agent with ask_agent."}
	server := mcptool.OfHost(about, func(context.Context) mcptool.Host { return h })
	if s.name != "" {
		agent, err := h.agent(ctx, s.name)
		if err != nil {
			return err
		}
		about = mcptool.About{Name: s.name, Version: kit.Version(), Instructions: agent.target.Card.CapabilityText, Of: agent.target.ID}
		server = mcptool.Vacant(about, func(context.Context) mcptool.Agent { return agent })
	}
	relay := &mcprelay.Relay{URL: "http://localhost", HTTP: mcprelay.Local(server), Note: a.Note}
	return relay.Serve(ctx, a.In, a.Out)
}

// signedHost implements mcptool.Host with calls signed by one identity.
type signedHost struct {
	a      *kit.App
	base   string
	self   kit.Signer
	web    *dispatch.HTTP
	client *discovery.Client // client for searches
	where  kit.Where
	flags  callFlags
	asking context.Context // context of all questions

	mu        sync.Mutex
	questions []*question
}

func (h *signedHost) Search(ctx context.Context, s mcptool.Search) (mcptool.Found, error) {
	return h.search(ctx, discovery.Query{Words: s.Query, Tag: s.Tag, MaxPrice: s.MaxPrice, Limit: s.Limit, Cursor: s.Cursor})
}

func (h *signedHost) search(ctx context.Context, q discovery.Query) (mcptool.Found, error) {
	found, err := h.client.Search(ctx, q)
	if err != nil {
		return mcptool.Found{}, err
	}
	return mcpserver.FoundAt(h.base, found), nil
}

func (h *signedHost) Show(ctx context.Context, name string) (mcptool.Shown, error) {
	agent, err := h.agent(ctx, name)
	if err != nil {
		return mcptool.Shown{}, err
	}
	shown, there, err := mcptool.ShowByID(ctx, agent.target.ID, func(ctx context.Context, shortID string) (mcptool.Found, error) {
		return h.search(ctx, discovery.Query{ShortID: shortID, Limit: 1})
	})
	if err == nil && !there {
		err = problem.New(problem.NotFound, "no agent %.80q is published here; find one with search_agents", name)
	}
	return shown, err
}

func (h *signedHost) Agent(ctx context.Context, name string) (mcptool.Agent, error) {
	agent, err := h.agent(ctx, name)
	if err != nil {
		return nil, err
	}
	return agent, nil
}

func (h *signedHost) agent(ctx context.Context, name string) (*signedAgent, error) {
	target, err := dispatch.FetchTarget(ctx, h.web, mcpServer{h.base, name}.vacantURL())
	if err == nil {
		h.a.Revisit(ctx, target)
	}
	target.Name = name
	return &signedAgent{h, target}, err
}

// signedAgent implements mcptool.Agent with signed calls to one vacant.
type signedAgent struct {
	*signedHost
	target dispatch.Target
}

// question is a signed call that is running or has ended. key consists of the vacant's id and the
// client's id for the question, so that a repeated question finds the same call. It is "" if the client
// gave no id.
type question struct {
	id, key, context string
	of               *signedHost
	end              context.CancelFunc
	done             chan struct{} // closed when answer and err are set
	answer           mcptool.Answer
	err              error
}

// Ask implements mcptool.Agent. If the client cancels a question, only the wait ends; the call
// remains stored.
func (s *signedAgent) Ask(ctx context.Context, q mcptool.Question, _ func(string)) (mcptool.Answer, error) {
	pending, err := s.ask(q)
	if err != nil {
		return mcptool.Answer{}, err
	}
	answer, err := pending.wait(ctx, mcptool.AnswerTime)
	if problem.Is(err, problem.Canceled) {
		pending.end()
	}
	return answer, err
}

// ask begins a call. If a question with the same key exists, ask returns that question.
func (s *signedAgent) ask(q mcptool.Question) (*question, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, prev := range s.questions {
		if q.ID != "" && prev.key == s.target.ID.String()+q.ID {
			return prev, nil
		}
	}
	var random [16]byte
	if _, err := io.ReadFull(s.a.Rand, random[:]); err != nil {
		return nil, err
	}
	name := hex.EncodeToString(random[:])
	pending := &question{id: "call-" + name, context: cmp.Or(q.Context, "ctx-"+name), of: s.signedHost, done: make(chan struct{})}
	if q.ID != "" {
		pending.key = s.target.ID.String() + q.ID
	}
	ctx, end := context.WithTimeout(s.asking, signedTime)
	pending.end = end
	if s.questions = append(s.questions, pending); len(s.questions) > maxQuestions {
		s.questions = s.questions[1:]
	}
	go func() {
		defer end()
		defer close(pending.done)
		pending.answer, pending.err = s.make(ctx, q.Text, pending.context, q.Most)
		pending.answer.Task = pending.id
	}()
	return pending, nil
}

func (s *signedAgent) make(ctx context.Context, text, thread string, maxPrice *money.Amount) (answer mcptool.Answer, err error) {
	if err := checkText(text); err != nil {
		return answer, err
	}
	caller := s.a.Dispatcher(s.self, s.web, signedTime)
	caller.MaxPrice = (*int64)(maxPrice)
	caller.Check = checkPayer(s.a, s.flags, s.self, s.web)
	price, _, err := priceOf(ctx, s.web, s.target)
	if err == nil && maxPrice != nil && price > int64(*maxPrice) {
		err = problem.New(problem.PriceAboveMax, "a call of %s costs up to %s, more than max_price %s; nothing was sent", kit.Printable(s.target.Name), money.Amount(price), *maxPrice)
	}
	if err != nil {
		return answer, err
	}
	msg := envelope.Message{Role: envelope.RoleUser, Parts: []string{text}, ContextID: &thread}
	res, _, err := (&discovery.Client{Caller: caller}).Call(ctx, s.target, msg)
	if err != nil {
		if problem.Is(err, problem.PaymentRequired) {
			err = payHint(s.a, err, s.flags, s.target, res.Pay)
		}
		p := problem.AsError(err)
		if hint := s.a.Hint(err); hint != "" {
			p = problem.Wrap(p.Kind, err, "%s; try: %s", p.Text(), hint)
		}
		return answer, &payableCall{p, res.Pay}
	}
	if res.Reply == nil {
		return answer, problem.New(problem.BehaviourFailed, "%s gave no answer", kit.Printable(s.target.Name))
	}
	answer = mcptool.Answer{Text: res.Reply.Payload.Text(), Context: thread, Finish: cmp.Or(res.Cut, "stop"), Envelope: envelope.AppendMessage(nil, res.Reply)}
	if price > 0 { // cost of the call according to the host's signed receipt
		r, err := s.a.Receipt(ctx, s.web, s.self, s.target, 0)
		if err == nil {
			err = r.Verify()
		}
		if err != nil || r.Request != res.RequestHash {
			s.a.Note("the receipt of a call of %s could not be read", kit.Printable(s.target.Name))
			return answer, nil
		}
		charge := money.Amount(r.Charge)
		answer.Price = &charge
		answer.Receipt = s.base + call.ReceiptPath(call.Pair{Caller: s.self.ID(), Vacant: s.target.ID}, uint64(r.Position))
	}
	return answer, nil
}

// payableCall is a refusal that can be resolved by payment.
type payableCall struct {
	error
	ways []string
}

func (r *payableCall) Unwrap() error { return r.error }

func (r *payableCall) Members() any {
	type way struct {
		Way string `json:"way"`
	}
	var pay []way
	for _, name := range r.ways {
		pay = append(pay, way{name})
	}
	return struct {
		Pay []way `json:"pay,omitempty"`
	}{pay}
}

// wait returns the answer, or a pending answer if the question takes longer than timeout.
func (q *question) wait(ctx context.Context, timeout time.Duration) (mcptool.Answer, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-q.done:
		return q.answer, q.err
	case <-mcprelay.CancelChannel(ctx):
		return mcptool.Answer{}, problem.New(problem.Canceled, "the question was canceled")
	case <-timer.C:
		return mcptool.Answer{Context: q.context, Task: q.id, State: "working"}, nil
	}
}

func (s *signedAgent) Task(ctx context.Context, id string, wait time.Duration, _ func(string)) (mcptool.Answer, error) {
	s.mu.Lock()
	var found *question
	for _, q := range s.questions {
		if q.id == id {
			found = q
		}
	}
	s.mu.Unlock()
	if found == nil {
		return mcptool.Answer{}, problem.New(problem.NotFound, "there is no task %.80q in this program; ask the same question again to get the answer of a running call", id)
	}
	return found.wait(ctx, wait)
}

func (*signedAgent) Stop(context.Context, string) (mcptool.Answer, error) {
	return mcptool.Answer{}, problem.New(problem.Forbidden, "a signed call cannot be stopped: its vacant answers it, and get_task returns the answer")
}

func (s *signedAgent) Describe(context.Context) (mcptool.Description, error) {
	c := s.target.Card
	d := mcptool.Description{ID: c.VacantID.String(), Capability: &c.CapabilityText, Halo: &c.HaloVersion}
	if c.Endpoint != "" {
		d.Endpoint = &c.Endpoint
	}
	return d, nil
}

func (s *signedAgent) Call(ctx context.Context, request []byte) ([]byte, error) {
	status, body, err := s.web.Post(ctx, s.target.URL, request)
	if err != nil {
		return nil, err
	}
	var reply struct {
		Result struct {
			Message json.RawMessage `json:"message"`
		} `json:"result"`
	}
	if err := json.Unmarshal(body, &reply); err == nil && reply.Result.Message != nil {
		return reply.Result.Message, nil
	}
	var refused httpapi.Refusal
	if json.Unmarshal(body, &refused) != nil || refused.Code == "" {
		return nil, problem.New(problem.Unavailable, "the host of %s answers %d", kit.Printable(s.target.Name), status)
	}
	return nil, refused.Problem()
}

// Team returns nil, because signed calls have no team.
func (*signedHost) Team() mcptool.Team { return nil }
