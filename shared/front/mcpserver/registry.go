package mcpserver

import (
	"bytes"
	"context"
	"math"
	"net/http"
	"net/url"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/mcpserver/mcptool"
	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/host/client/discovery"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// registry searches the registry that this process serves, and verifies the answers.
type registry struct{ discovery.Client }

func newRegistry(search http.Handler) registry {
	return registry{discovery.Client{Registries: []*registryclient.Client{{Transport: localTransport{search}, URL: localURL}}}}
}

// searchRegistry omits agents on other hosts, which the other tools cannot reach.
func (h *host) searchRegistry(ctx context.Context, q registryclient.Query) (mcptool.SearchPage, error) {
	out := mcptool.SearchPage{}
	result, err := h.registry.Search(ctx, q)
	if problem.Is(err, problem.Usage) {
		err = problem.New(problem.Malformed, "%s", problem.AsError(err).Text())
	}
	if err != nil {
		return out, h.req.recordError(err)
	}
	base, err := h.Plain.Base(h.req.Request)
	if err != nil {
		return out, h.req.recordError(err)
	}
	return ConvertMatches(base, result), nil
}

// ConvertMatches converts a search result for the tools. It omits matches without a name, which run
// on other hosts.
func ConvertMatches(base string, result discovery.SearchResult) mcptool.SearchPage {
	out := mcptool.SearchPage{Agents: []mcptool.AgentInfo{}, Next: result.Next, UnverifiedCount: len(result.DroppedMatches)}
	for i := range result.Matches {
		m := &result.Matches[i]
		if m.Name == "" {
			continue
		}
		agentURL := base + "/v/" + url.PathEscape(m.Name)
		entry := mcptool.AgentInfo{
			NameOrID: m.Name, ID: m.ID.String(), Capability: m.Card.CapabilityText, State: string(m.State), Score: m.Score, MissingWords: m.MissingWords,
			URL: agentURL, MCPURL: agentURL + message.MCPPath,
		}
		if l := m.Listing; l != nil {
			entry.Price, entry.Tags, entry.Skills, entry.Summary = l.Price, l.Tags, l.Skills, l.Summary
		}
		out.Agents = append(out.Agents, entry)
	}
	return out
}

// localURL is never sent over the network.
const localURL = "http://localhost"

// localTransport is a transport that calls a handler in this process.
type localTransport struct{ handler http.Handler }

func (l localTransport) Do(ctx context.Context, r outbound.Request) (outbound.Reply, error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return outbound.Reply{}, problem.Wrap(problem.Internal, err, "")
	}
	req.Header = r.Header.Clone()
	req.RequestURI, req.RemoteAddr = strings.TrimPrefix(req.URL.String(), req.URL.Scheme+"://"+req.URL.Host), "in process"
	w := httpapi.NewRecorder(math.MaxInt64)
	l.handler.ServeHTTP(w, req)
	return outbound.Reply{Status: w.Status, Header: w.Header(), Body: w.Body.Bytes()}, nil
}
