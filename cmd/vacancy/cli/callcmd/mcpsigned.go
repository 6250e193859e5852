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
	// signedCallTimeout limits the time of a signed call. Vacants take at most 14 minutes.
	signedCallTimeout = 15 * time.Minute
	// maxCalls limits the calls that are retained for get_task.
	maxCalls = 256
)

// serveSigned serves an MCP server whose questions are calls signed by an identity.
func serveSigned(a *kit.App, ctx context.Context, s vacantOrHost, identityName string, where kit.HostFlags) error {
	self, err := a.ChooseSigner(ctx, identityName)
	if err != nil {
		return err
	}
	host, err := a.FindRemoteHost(where)
	if err != nil {
		return err
	}
	searchURL := s.hostURL
	if host != nil && host.Record.URL == s.hostURL {
		searchURL = cmp.Or(host.Record.RegistryURL, searchURL)
	}
	// All calls end with the program. Each call is stored, so the same question resumes it later.
	callsCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	h := &signedHost{
		app: a, hostURL: s.hostURL, self: self, httpClient: a.HTTPTransport(signedCallTimeout), where: where, flags: callFlags{identityName: identityName, where: where}, callsCtx: callsCtx,
		client: &discovery.Client{Registries: []*registryclient.Client{{Transport: a.RegistryTransport(searchURL, a.HTTPTransport(0)), URL: searchURL}}},
	}
	config := mcptool.ServerConfig{Name: "vacancy", Version: kit.Version(), Instructions: "Finds agents that are published on a host, and asks them by signed calls. Begin with search_agents, then ask an agent with ask_agent."}
	server := mcptool.NewHostServer(config, func(context.Context) mcptool.Host { return h })
	if s.vacantName != "" {
		agent, err := h.findAgent(ctx, s.vacantName)
		if err != nil {
			return err
		}
		config = mcptool.ServerConfig{Name: s.vacantName, Version: kit.Version(), Instructions: agent.target.Card.CapabilityText, VacantID: agent.target.ID}
		server = mcptool.NewVacantServer(config, func(context.Context) mcptool.Agent { return agent })
	}
	relay := &mcprelay.Relay{URL: "http://localhost", Transport: mcprelay.NewLocal(server), Logf: a.PrintNote}
	return relay.Serve(ctx, a.In, a.Out)
}

// signedHost implements mcptool.Host with calls signed by one identity.
type signedHost struct {
	app        *kit.App
	hostURL    string
	self       kit.Signer
	httpClient *dispatch.HTTP
	client     *discovery.Client
	where      kit.HostFlags
	flags      callFlags
	callsCtx   context.Context

	mu    sync.Mutex
	calls []*signedCall
}

func (h *signedHost) SearchAgents(ctx context.Context, s mcptool.SearchArgs) (mcptool.SearchPage, error) {
	return h.searchRegistry(ctx, discovery.Query{Words: s.Query, Tag: s.Tag, MaxPrice: s.MaxPrice, Limit: s.Limit, Cursor: s.Cursor})
}

func (h *signedHost) searchRegistry(ctx context.Context, q discovery.Query) (mcptool.SearchPage, error) {
	page, err := h.client.Search(ctx, q)
	if err != nil {
		return mcptool.SearchPage{}, err
	}
	return mcpserver.ConvertMatches(h.hostURL, page), nil
}

func (h *signedHost) DescribeAgent(ctx context.Context, name string) (mcptool.AgentInfo, error) {
	agent, err := h.findAgent(ctx, name)
	if err != nil {
		return mcptool.AgentInfo{}, err
	}
	info, exists, err := mcptool.FindAgentByID(ctx, agent.target.ID, func(ctx context.Context, shortID string) (mcptool.SearchPage, error) {
		return h.searchRegistry(ctx, discovery.Query{ShortID: shortID, Limit: 1})
	})
	if err == nil && !exists {
		err = problem.New(problem.NotFound, "no agent %.80q is published here; find one with search_agents", name)
	}
	return info, err
}

func (h *signedHost) OpenAgent(ctx context.Context, name string) (mcptool.Agent, error) {
	agent, err := h.findAgent(ctx, name)
	if err != nil {
		return nil, err
	}
	return agent, nil
}

func (h *signedHost) findAgent(ctx context.Context, name string) (*signedAgent, error) {
	target, err := dispatch.FetchTarget(ctx, h.httpClient, vacantOrHost{h.hostURL, name}.vacantURL())
	if err == nil {
		h.app.WarnIfVacantChanged(ctx, target)
	}
	target.Name = name
	return &signedAgent{h, target}, err
}

// signedAgent implements mcptool.Agent with signed calls to one vacant.
type signedAgent struct {
	*signedHost
	target dispatch.Target
}

// signedCall is a running or ended call. Its key identifies the client's question, so that a
// repeated question finds the same call. The key is "" if the client gave no id.
type signedCall struct {
	id, key, contextID string
	host               *signedHost
	cancel             context.CancelFunc
	done               chan struct{} // closed when answer and err are set
	answer             mcptool.Answer
	err                error
}

// Ask implements mcptool.Agent. If the client cancels a question, only the wait ends; the call
// remains stored.
func (s *signedAgent) Ask(ctx context.Context, q mcptool.Question, _ func(string)) (mcptool.Answer, error) {
	pending, err := s.beginCall(q)
	if err != nil {
		return mcptool.Answer{}, err
	}
	answer, err := pending.wait(ctx, mcptool.AskTimeout)
	if problem.Is(err, problem.Canceled) {
		pending.cancel()
	}
	return answer, err
}

func (s *signedAgent) beginCall(q mcptool.Question) (*signedCall, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, prev := range s.calls {
		if q.IdempotencyKey != "" && prev.key == s.target.ID.String()+q.IdempotencyKey {
			return prev, nil
		}
	}
	var random [16]byte
	if _, err := io.ReadFull(s.app.Rand, random[:]); err != nil {
		return nil, err
	}
	suffix := hex.EncodeToString(random[:])
	pending := &signedCall{id: "call-" + suffix, contextID: cmp.Or(q.Context, "ctx-"+suffix), host: s.signedHost, done: make(chan struct{})}
	if q.IdempotencyKey != "" {
		pending.key = s.target.ID.String() + q.IdempotencyKey
	}
	ctx, cancel := context.WithTimeout(s.callsCtx, signedCallTimeout)
	pending.cancel = cancel
	if s.calls = append(s.calls, pending); len(s.calls) > maxCalls {
		s.calls = s.calls[1:]
	}
	go func() {
		defer cancel()
		defer close(pending.done)
		pending.answer, pending.err = s.callVacant(ctx, q.Text, pending.contextID, q.MaxPrice)
		pending.answer.TaskID = pending.id
	}()
	return pending, nil
}

func (s *signedAgent) callVacant(ctx context.Context, text, thread string, maxPrice *money.Amount) (answer mcptool.Answer, err error) {
	if err := checkText(text); err != nil {
		return answer, err
	}
	caller := s.app.NewDispatcher(s.self, s.httpClient, signedCallTimeout)
	caller.MaxPrice = (*int64)(maxPrice)
	caller.Check = newPayerCheck(s.app, s.flags, s.self, s.httpClient)
	price, _, err := fetchPrice(ctx, s.httpClient, s.target)
	if err == nil && maxPrice != nil && price > int64(*maxPrice) {
		err = problem.New(problem.PriceAboveMax, "a call of %s costs up to %s, more than max_price %s; nothing was sent", kit.EscapeLine(s.target.Name), money.Amount(price), *maxPrice)
	}
	if err != nil {
		return answer, err
	}
	msg := envelope.Message{Role: envelope.RoleUser, Parts: []string{text}, ContextID: &thread}
	res, _, err := (&discovery.Client{Caller: caller}).Call(ctx, s.target, msg)
	if err != nil {
		if problem.Is(err, problem.PaymentRequired) {
			err = addPayHint(s.app, err, s.flags, s.target, res.PaymentOptions)
		}
		p := problem.AsError(err)
		if hint := s.app.Hint(err); hint != "" {
			p = problem.Wrap(p.Kind, err, "%s; try: %s", p.Text(), hint)
		}
		return answer, &paymentError{p, res.PaymentOptions}
	}
	if res.Reply == nil {
		return answer, problem.New(problem.BehaviourFailed, "%s gave no answer", kit.EscapeLine(s.target.Name))
	}
	answer = mcptool.Answer{Text: res.Reply.Payload.Text(), Context: thread, FinishReason: cmp.Or(res.CutReason, "stop"), Envelope: envelope.AppendMessage(nil, res.Reply)}
	if price > 0 { // cost of the call according to the host's signed receipt
		r, err := s.app.FetchReceipt(ctx, s.httpClient, s.self, s.target, 0)
		if err == nil {
			err = r.Verify()
		}
		if err != nil || r.RequestHash != res.RequestHash {
			s.app.PrintNote("the receipt of a call of %s could not be read", kit.EscapeLine(s.target.Name))
			return answer, nil
		}
		charge := money.Amount(r.Charge)
		answer.Price = &charge
		answer.ReceiptURL = s.hostURL + call.ReceiptPath(call.Pair{Caller: s.self.ID(), Vacant: s.target.ID}, uint64(r.Position))
	}
	return answer, nil
}

// paymentError is a refusal that can be resolved by payment.
type paymentError struct {
	error
	paymentOptions []string
}

func (r *paymentError) Unwrap() error { return r.error }

func (r *paymentError) Members() any {
	type way struct {
		Way string `json:"way"`
	}
	var pay []way
	for _, name := range r.paymentOptions {
		pay = append(pay, way{name})
	}
	return struct {
		Pay []way `json:"pay,omitempty"`
	}{pay}
}

// wait returns the answer, or a pending answer if the call takes longer than timeout.
func (q *signedCall) wait(ctx context.Context, timeout time.Duration) (mcptool.Answer, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-q.done:
		return q.answer, q.err
	case <-mcprelay.CancelChannel(ctx):
		return mcptool.Answer{}, problem.New(problem.Canceled, "the question was canceled")
	case <-timer.C:
		return mcptool.Answer{Context: q.contextID, TaskID: q.id, State: "working"}, nil
	}
}

func (s *signedAgent) GetTask(ctx context.Context, id string, timeout time.Duration, _ func(string)) (mcptool.Answer, error) {
	s.mu.Lock()
	var found *signedCall
	for _, q := range s.calls {
		if q.id == id {
			found = q
		}
	}
	s.mu.Unlock()
	if found == nil {
		return mcptool.Answer{}, problem.New(problem.NotFound, "there is no task %.80q in this program; to get the answer of a running call, ask the same question again", id)
	}
	return found.wait(ctx, timeout)
}

func (*signedAgent) StopTask(context.Context, string) (mcptool.Answer, error) {
	return mcptool.Answer{}, problem.New(problem.Forbidden, "a signed call cannot be stopped; get_task returns its answer")
}

func (s *signedAgent) Describe(context.Context) (mcptool.Description, error) {
	c := s.target.Card
	d := mcptool.Description{ID: c.VacantID.String(), CapabilityText: &c.CapabilityText, HaloVersion: &c.HaloVersion}
	if c.Endpoint != "" {
		d.Endpoint = &c.Endpoint
	}
	return d, nil
}

func (s *signedAgent) CallSigned(ctx context.Context, request []byte) ([]byte, error) {
	status, body, err := s.httpClient.Post(ctx, s.target.URL, request)
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
	var refusal httpapi.Refusal
	if json.Unmarshal(body, &refusal) != nil || refusal.Code == "" {
		return nil, problem.New(problem.Unavailable, "the host of %s answers %d", kit.EscapeLine(s.target.Name), status)
	}
	return nil, refusal.Problem()
}

// Team returns nil, because signed calls have no team.
func (*signedHost) Team() mcptool.Team { return nil }
