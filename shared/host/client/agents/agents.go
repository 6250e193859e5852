// Package agents calls A2A agents, which need not be vacants.
//
// All requests go to the host of the URL that a person named, and use TLS unless that host is this
// machine. An agent's data is not trusted.
package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/network/sse"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Errors of this package. An error that an agent reports is an *a2awire.RPCError.
var (
	ErrInvalidPeerURL         = errors.New("not the URL of an agent")
	ErrInsecureScheme         = errors.New("http is for agents on this machine; others need https")
	ErrPeerNotAllowed         = errors.New("the agent names another host")
	ErrNoJSONRPCInterface     = errors.New("no interface for JSON-RPC")
	ErrAgentCardSchemaInvalid = errors.New("the agent's card is invalid")
	ErrSSEStreamMalformed     = errors.New("the agent's stream is malformed")
	ErrStreamCutOff           = errors.New("the agent's stream ends before its answer")
	ErrSSELineTooLong         = errors.New("the agent's stream has an event that is too long")
)

// maxEventBytes limits one event of a stream.
const maxEventBytes = 16 << 20

// ParseURL parses the URL of an agent. It accepts http URLs only for this machine. Errors do not
// contain the URL, because it may contain a password.
func ParseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.Fragment != "":
		return nil, problem.Wrap(problem.Usage, ErrInvalidPeerURL, "the URL of an agent: expected https://HOST/PATH, got another form")
	case u.User != nil:
		return nil, problem.Wrap(problem.Usage, ErrInvalidPeerURL, "the URL of an agent: expected no user and password")
	}
	switch scheme := strings.ToLower(u.Scheme); {
	case scheme == "https", scheme == "http" && outbound.IsThisMachine(u.Hostname()):
		return u, nil
	}
	return nil, problem.Wrap(problem.Usage, ErrInsecureScheme, "the URL of an agent at %.80q: http is for this machine; others need https", u.Host)
}

// HTTP sends requests, for example a *dispatch.HTTP.
type HTTP interface {
	Do(ctx context.Context, r outbound.Request) (outbound.Reply, error)
	Open(ctx context.Context, r outbound.Request) (*http.Response, error)
}

const cardPath = "/.well-known/agent-card.json"

// FetchCard fetches the card below an agent's URL. If that card is missing or invalid, it fetches
// the card at the root of the URL's host, which must list the URL.
func FetchCard(ctx context.Context, h HTTP, address string) (*Card, error) {
	u, err := ParseURL(address)
	if err != nil {
		return nil, err
	}
	fetch := func(cardURL string) (*Card, error) {
		r, err := h.Do(ctx, outbound.Request{Method: http.MethodGet, URL: cardURL, MaxReply: maxCardBytes})
		switch {
		case err != nil:
			return nil, err
		case r.Status != http.StatusOK:
			return nil, problem.Wrap(problem.NotFound, ErrAgentCardSchemaInvalid, "%s answers %d: %.200q", cardURL, r.Status, r.Body)
		}
		return ParseCard(cardURL, r.Body)
	}
	urls := cardURLs(u)
	ownURL, hostURL := urls[0], urls[1]
	c, ownErr := fetch(ownURL)
	if ownErr == nil || ownURL == hostURL || !errors.Is(ownErr, ErrAgentCardSchemaInvalid) {
		return c, ownErr
	}
	c, err = fetch(hostURL)
	switch {
	case err == nil && c.hasInterface(u):
		return c, nil
	case err != nil && !errors.Is(err, ErrAgentCardSchemaInvalid):
		return nil, err
	}
	return nil, ownErr
}

func cardURLs(u *url.URL) []string {
	return []string{outbound.ReplaceSuffix(u, cardPath, cardPath).String(), (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: cardPath}).String()}
}

func (c *Card) hasInterface(address *url.URL) bool {
	return slices.ContainsFunc(c.Interfaces, func(i Interface) bool {
		u, err := ParseURL(i.URL)
		return err == nil && normalizeURL(u) == normalizeURL(address)
	})
}

func normalizeURL(u *url.URL) string { return outbound.ReplaceSuffix(u, "", "").String() }

// NewKeyFetcher returns a function that fetches key sets, for Card.CheckSignatures.
func NewKeyFetcher(ctx context.Context, h HTTP) func(url string) ([]byte, error) {
	return func(url string) ([]byte, error) {
		r, err := h.Do(ctx, outbound.Request{Method: http.MethodGet, URL: url})
		if err == nil && r.Status != http.StatusOK {
			err = problem.New(problem.Untrusted, "it answers %d", r.Status)
		}
		return r.Body, err
	}
}

// Agent is an agent that can be called. It is safe for concurrent use.
type Agent struct {
	Card *Card
	// BearerToken, if not empty, is sent with each request. MaxPrice limits the price of a message
	// in micro-dollars; nil means no limit.
	BearerToken string
	MaxPrice    *int64
	// Prepare, if not nil, changes each request before it is sent, for example to sign it.
	Prepare func(context.Context, *outbound.Request) error

	http          HTTP
	url           string
	dialect       a2awire.Dialect
	isREST        bool
	lastRequestID atomic.Uint64
}

// NewAgent returns the agent of a card. It prefers JSON-RPC to HTTP+JSON.
func NewAgent(h HTTP, c *Card) (*Agent, error) {
	endpoint, dialect, err := c.chooseInterface()
	if err != nil {
		for _, i := range c.Interfaces {
			if !strings.EqualFold(i.Binding, bindingREST) {
				continue
			}
			if rest, dialect, err := c.checkInterface(i); err == nil && dialect == a2awire.V1 {
				return &Agent{Card: c, http: h, url: rest, isREST: true}, nil
			}
		}
	}
	return &Agent{Card: c, http: h, url: endpoint, dialect: dialect}, err
}

func (a *Agent) newRequest(ctx context.Context, op a2awire.Operation, params []byte) (r outbound.Request, id string, err error) {
	id = strconv.FormatUint(a.lastRequestID.Add(1), 10)
	body, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  string          `json:"method"`
		Params  json.RawMessage `json:"params"`
	}{"2.0", json.RawMessage(id), a2awire.MethodName(a.dialect, op), params})
	r = outbound.Request{Method: http.MethodPost, URL: a.url, Body: body}
	if a.isREST && err == nil {
		r, err = a.newRESTRequest(op, params)
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if a.dialect == a2awire.V1 {
		header.Set("A2A-Version", "1.0")
	}
	if a.BearerToken != "" {
		header.Set("Authorization", "Bearer "+a.BearerToken)
	}
	if a.MaxPrice != nil && (op == a2awire.Send || op == a2awire.Stream) {
		sep := "?"
		if strings.Contains(r.URL, "?") {
			sep = "&"
		}
		r.URL += sep + "max_price=" + strconv.FormatInt(*a.MaxPrice, 10)
	}
	r.Header = header
	if a.Prepare != nil && err == nil {
		err = a.Prepare(ctx, &r)
	}
	return r, id, err
}

func (a *Agent) parseReply(status int, body []byte, id string) (result []byte, err error) {
	switch {
	case !a.isREST:
		result, err = a2awire.ReadResponse(body, id)
	case status >= 200 && status <= 299:
		result = body
	default:
		err = cmp.Or(a2awire.ReadRESTError(body), errNoResult)
	}
	return result, classifyReplyError(status, body, err)
}

var errNoResult = errors.New("a reply without a result")

func (a *Agent) call(ctx context.Context, op a2awire.Operation, params []byte) (result []byte, err error) {
	req, id, err := a.newRequest(ctx, op, params)
	if err != nil {
		return nil, err
	}
	r, err := a.http.Do(ctx, req)
	if err != nil {
		return nil, err
	}
	return a.parseReply(r.Status, r.Body, id)
}

func classifyReplyError(status int, body []byte, err error) error {
	var rpcErr *a2awire.RPCError
	switch {
	case errors.As(err, &rpcErr):
		kind := problem.Forbidden
		switch rpcErr.Code {
		case 1, -32001: // some server uses 1
			kind = problem.NotFound
		case -32603:
			kind = problem.BehaviourFailed
		}
		return problem.Wrap(kind, err, "%s", rpcErr.Error())
	case err != nil && status != http.StatusOK:
		return problem.Wrap(problem.Forbidden, err, "the agent answers %d: %.200q", status, body)
	case err != nil:
		return problem.Wrap(problem.Untrusted, err, "the agent's answer is invalid: %s", problem.AsError(err).Text())
	}
	return nil
}

func (a *Agent) Send(ctx context.Context, q a2awire.SendRequest) (a2awire.Answer, error) {
	result, err := a.call(ctx, a2awire.Send, a2awire.EncodeSendParams(a.dialect, &q))
	if err != nil {
		return a2awire.Answer{}, err
	}
	answer, err := a2awire.ReadAnswer(a.dialect, result)
	return answer, classifyReplyError(http.StatusOK, result, err)
}

func (a *Agent) GetTask(ctx context.Context, id string) (task.Task, error) {
	return a.callTask(ctx, a2awire.GetTask, id)
}

func (a *Agent) CancelTask(ctx context.Context, id string) (task.Task, error) {
	return a.callTask(ctx, a2awire.CancelTask, id)
}

func (a *Agent) callTask(ctx context.Context, op a2awire.Operation, id string) (task.Task, error) {
	result, err := a.call(ctx, op, a2awire.EncodeTaskParams(a.dialect, &a2awire.TaskRequest{ID: id}))
	if err != nil {
		return task.Task{}, err
	}
	t, err := a2awire.ReadTask(a.dialect, result)
	return t, classifyReplyError(http.StatusOK, result, err)
}

// Stream sends a message and passes the agent's answers to handle, until the stream ends or
// handle returns false.
func (a *Agent) Stream(ctx context.Context, q a2awire.SendRequest, handle func(a2awire.Answer) bool) error {
	return a.streamAnswers(ctx, a2awire.Stream, a2awire.EncodeSendParams(a.dialect, &q), handle)
}

func (a *Agent) Subscribe(ctx context.Context, id string, handle func(a2awire.Answer) bool) error {
	return a.streamAnswers(ctx, a2awire.Subscribe, a2awire.EncodeTaskParams(a.dialect, &a2awire.TaskRequest{ID: id}), handle)
}

func (a *Agent) streamAnswers(ctx context.Context, op a2awire.Operation, params []byte, handle func(a2awire.Answer) bool) error {
	req, id, err := a.newRequest(ctx, op, params)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	r, err := a.http.Open(ctx, req)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); media != "text/event-stream" {
		body, err := io.ReadAll(io.LimitReader(r.Body, maxEventBytes))
		if err != nil {
			return problem.Wrap(problem.DeadlineExceeded, err, "the agent's answer was interrupted")
		}
		result, err := a.parseReply(r.StatusCode, body, id)
		if err != nil {
			return err
		}
		answer, err := a2awire.ReadAnswer(a.dialect, result) // sent by an agent that does not stream
		if err == nil {
			handle(answer)
		}
		return classifyReplyError(r.StatusCode, body, err)
	}
	var unknownErr error
	hasAnswer, hasFinalAnswer := false, false
	for e, err := range sse.Events(r.Body, maxEventBytes) {
		var answer a2awire.Answer
		switch {
		case errors.Is(err, sse.ErrTooLong):
			err = problem.Wrap(problem.Untrusted, ErrSSELineTooLong, "an event of the agent's stream has more than %d bytes", maxEventBytes)
		case err != nil:
			err = problem.Wrap(problem.DeadlineExceeded, err, "the agent's stream was interrupted")
		case e.IsNoise():
			continue
		default:
			answer, err = a.parseEvent(e.Data, id)
		}
		if hasFinalAnswer && err != nil {
			return nil
		}
		if errors.Is(err, a2awire.ErrUnknownAnswer) {
			unknownErr = cmp.Or(unknownErr, err)
			continue
		}
		if err != nil {
			return err
		}
		hasAnswer, hasFinalAnswer = true, hasFinalAnswer || isFinal(&answer)
		if !handle(answer) {
			return nil
		}
	}
	switch {
	case !hasAnswer && unknownErr != nil:
		return unknownErr
	case hasFinalAnswer, op == a2awire.Subscribe: // servers limit the duration of a subscription
		return nil
	}
	return problem.Wrap(problem.DeadlineExceeded, ErrStreamCutOff, "the agent's stream ends before its answer")
}

func isFinal(a *a2awire.Answer) bool {
	state := task.State("")
	switch {
	case a.Message != nil:
		return true
	case a.Task != nil:
		state = a.Task.Status.State
	case a.Status != nil:
		state = a.Status.State
	}
	return state.IsTerminal() || state == task.InputRequired || state == task.AuthRequired
}

// parseEvent parses an element of a stream: a JSON-RPC response or, as some agents send, only its
// result.
func (a *Agent) parseEvent(data []byte, id string) (answer a2awire.Answer, err error) {
	result, err := a2awire.ReadResponse(data, id)
	var rpcErr *a2awire.RPCError
	if errors.As(err, &rpcErr) {
		return answer, classifyReplyError(http.StatusOK, data, err)
	}
	if err != nil {
		result = data
	}
	answer, parseErr := a2awire.ReadAnswer(a.dialect, result)
	if parseErr != nil {
		return answer, problem.Wrap(problem.Untrusted, fmt.Errorf("%w: %w", ErrSSEStreamMalformed, errors.Join(parseErr, err)), "an event of the agent's stream is invalid: %s", problem.AsError(parseErr).Text())
	}
	return answer, nil
}
