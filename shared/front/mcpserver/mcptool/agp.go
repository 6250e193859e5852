package mcptool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// AGPEnvelope is an AGP request.
type AGPEnvelope struct {
	From           string // "" means an agent of the key
	Intent         string
	Payload        map[string]any
	IdempotencyKey string
}

var (
	venueMembers = []string{
		"location", propertySchema(stringType, "the place of a venue, or one of its areas"), "category", propertySchema(stringType, "the category of a venue"), "limit", propertySchema(`"type":"integer","minimum":1`, "maximum number of results"),
	}
	searchMembers = append([]string{
		"query", propertySchema(stringType, "words, such as: sunset dinner"), "capability", propertySchema(stringType, "more words"), "max_price_usd", propertySchema(`"type":["number","string"]`, "the maximum cost of a call, in dollars"),
		"party_size", propertySchema(nonNegativeType, "the number of guests"),
	}, venueMembers...)
	confirmMembers = []string{
		"venue_id", propertySchema(stringType, "the id of a venue, which search_venues returned"), "venue_slug", propertySchema(stringType, "instead of venue_id"), "venue_agent_id", propertySchema(stringType, "instead of venue_id"),
		"starts_at", propertySchema(stringType, "a time such as 2026-11-24T19:00:00+08:00"), "date", propertySchema(stringType, "with time, instead of starts_at"), "time", propertySchema(stringType, "such as 19:00"), "timezone", propertySchema(stringType, "such as Asia/Makassar"),
		"party_size", propertySchema(nonNegativeType, "the number of guests"), "guest", propertySchema(`"type":"object"`, "who comes, for the venue"), "notes", propertySchema(stringType, "a text for the venue"), "input", `{"description":"any JSON for the venue"}`,
		"max_price_usd", propertySchema(`"type":["number","string"]`, "the maximum cost of the booking with the venue's call, in dollars"), "idempotency_key", propertySchema(stringType, "the same key again returns the same booking"),
	}
	agpTools = []struct {
		name, intent, title, description string
		hints                            sdk.ToolAnnotations
		members                          []string
	}{
		{"agnt.ping", "network.ping", "Ping the network", "Returns the number of venues and the tier of the key.", readHints, nil},
		{"agnt.search_venues", "booking.search", "Search venues", "Finds venues by words, place and category.", readHints, searchMembers},
		{"agnt.list_venues", "venue.list", "List venues", "Lists venues by category and place, at most 100.", readHints, append([]string{"cursor", propertySchema(stringType, "next_cursor from the previous page")}, venueMembers...)},
		{"agnt.confirm_booking", "booking.confirm", "Book a venue", "Books a venue, which costs money. It needs a key of tier pro or enterprise.", askHints, confirmMembers},
	}
)

// AddAGPTools adds a tool for each intent of AGP to the server of a host. Clients that reject dots
// in names may use an underscore instead of the dot.
func AddAGPTools(s *sdk.Server, send func(context.Context, AGPEnvelope) (json.RawMessage, error)) {
	for _, t := range agpTools {
		members := append([]string{"from", propertySchema(stringType, "the agent that asks; an agent of the key if left out")}, t.members...)
		s.AddTool(&sdk.Tool{
			Name: t.name, Title: t.title, Annotations: withTitle(t.hints, t.title), Description: t.description, InputSchema: inputSchema(members...),
		}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			env, err := newAGPEnvelope(t.intent, members, r.Params)
			var answer json.RawMessage
			if err == nil {
				answer, err = send(ctx, env)
			}
			if err != nil {
				return newRefusal(err)
			}
			return newResult("", answer)
		})
	}
	s.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			if c, ok := r.(*sdk.CallToolRequest); ok && strings.HasPrefix(c.Params.Name, "agnt_") {
				c.Params.Name = strings.Replace(c.Params.Name, "_", ".", 1)
			}
			return next(ctx, method, r)
		}
	})
}

func newAGPEnvelope(intent string, members []string, p *sdk.CallToolParamsRaw) (e AGPEnvelope, err error) {
	e.Intent, e.Payload = intent, map[string]any{}
	var arguments map[string]json.RawMessage
	if len(p.Arguments) > 0 && json.Unmarshal(p.Arguments, &arguments) != nil {
		return e, problem.Invalid("arguments", "an object", "another value")
	}
	for name, value := range arguments {
		switch {
		case !slices.Contains(members, name):
			return e, problem.New(problem.Malformed, "%.80s: not supported", name)
		case string(value) == "null":
		case name != "from":
			e.Payload[name] = value
		case json.Unmarshal(value, &e.From) != nil:
			return e, problem.Invalid(name, "a string", "another value")
		}
	}
	if key, ok := p.Meta[MetaIdempotencyKey]; ok {
		e.IdempotencyKey = fmt.Sprint(key)
	}
	return e, nil
}
