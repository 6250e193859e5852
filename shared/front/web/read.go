package web

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/client/agents"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// reader reads the public API for the anonymous client that requested a page.
type reader struct {
	registryclient.Client
	ctx context.Context
}

func (s *site) newReader(r *http.Request) *reader {
	return &reader{registryclient.Client{Transport: inProcess{s.API, r}, URL: "http://" + r.Host}, r.Context()}
}

// inProcess calls a handler of this process with the address of the client that requested the page.
type inProcess struct {
	api         http.Handler
	pageRequest *http.Request
}

func (p inProcess) Do(ctx context.Context, q outbound.Request) (outbound.Reply, error) {
	r, err := http.NewRequestWithContext(ctx, q.Method, q.URL, bytes.NewReader(q.Body))
	if err != nil {
		return outbound.Reply{}, problem.Wrap(problem.Usage, err, "the address of a page")
	}
	r.Header, r.RemoteAddr, r.TLS, r.Host = q.Header, p.pageRequest.RemoteAddr, p.pageRequest.TLS, p.pageRequest.Host
	w := httpapi.NewRecorder(q.MaxReply)
	p.api.ServeHTTP(w, r)
	if w.TooLarge {
		return outbound.Reply{}, problem.New(problem.Untrusted, "the registry's answer has more than %d bytes", q.MaxReply)
	}
	return outbound.Reply{Status: w.Status, Header: w.Header(), Body: w.Body.Bytes()}, nil
}

// readAgentCard reads the agent card of a vacant, and the media types of the files that the agent
// accepts.
func (r *reader) readAgentCard(vacant string) (c *agents.Card, files []string, err error) {
	b, err := r.GetRaw(r.ctx, "/v/"+vacant+"/.well-known/agent-card.json", nil)
	switch {
	case problem.Is(err, problem.NotFound):
		return nil, nil, errPageNotFound
	case err != nil:
		return nil, nil, err
	}
	if c, err = agents.ParseCard("the vacant's card", b); err != nil {
		return nil, nil, err
	}
	var inputs struct {
		Modes []string `json:"defaultInputModes"`
	}
	if err := json.Unmarshal(b, &inputs); err != nil || c.VacantID == (identity.ID{}) {
		return nil, nil, problem.New(problem.Untrusted, "the card does not contain a vacant id or a list of media types")
	}
	return c, slices.DeleteFunc(inputs.Modes, func(media string) bool { return media == "text" || media == "text/plain" }), nil
}
