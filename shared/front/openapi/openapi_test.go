package openapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/openapi"
	"github.com/vacancy-host/vacancy/shared/front/openapi/openapitest"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type part struct {
	Text  string           `json:"text" canon:"required,min=1,max=80"`
	Count uint64           `json:"count,omitempty" canon:"min=2"`
	Times []time.Time      `json:"times,omitempty"`
	Of    map[string]*part `json:"of,omitempty"`
	ID    identity.ID      `json:"id"`
	Raw   json.RawMessage  `json:"raw,omitempty"`
	Bytes []byte           `json:"bytes,omitempty"`
}

type whole struct {
	part
	More bool `json:"more"`
}

type change struct {
	Name  string       `path:"name"`
	Limit *uint64      `query:"limit"`
	Once  string       `header:"Idempotency-Key"`
	Body  op.Raw[part] `body:"json"`
}

type sought struct {
	Least string `query:"least"`
	Order string `query:"order"`
	Limit uint64 `query:"limit"`
}

func (sought) Ranges() map[string]op.Range {
	return map[string]op.Range{"least": {Max: 1, Required: true}, "order": {Words: []string{"up", "down"}, Default: "up"}, "limit": {Min: 1, Max: 9}}
}

// replies has another status at times.
type replies struct{ part }

func (*replies) SetHeaders(http.Header) int { return 0 }

func TestAHandlerIsDescribedByWhatItTellsBesideItsTypes(t *testing.T) {
	event := op.Spec{Method: "GET", Path: "/v1/events", Status: 200, Doc: "streams", In: reflect.TypeFor[sought](), Out: reflect.TypeFor[replies](), AnswerMedia: []string{"text/event-stream"}, AnswerDoc: "Events."}
	text := op.Spec{Method: "POST", Path: "/v1/text", Status: 200, Doc: "reads", In: reflect.TypeFor[op.Body[part]](), IgnoresUnknown: true, RequestMedia: []string{"application/a+json", "application/json"}, AnswerMedia: []string{"text/plain"}}
	b, err := openapi.NewDocument("Test", "1", "", nil, []op.Spec{event, text}, map[string]openapi.Example{openapi.OperationKey(&text): {Body: json.RawMessage(`{"text":"a"}`)}})
	if err != nil {
		t.Fatal(err)
	}
	got := compact(t, string(b))
	for _, want := range []string{
		`{"in":"query","name":"least","required":true,"schema":{"maximum":1,"minimum":0,"type":"number"}}`,
		`{"description":"Order of the rows.","in":"query","name":"order","required":false,"schema":{"default":"up","enum":["up","down"],"type":"string"}}`,
		`{"description":"Maximum number of entries in a page.","in":"query","name":"limit","required":false,"schema":{"maximum":9,"minimum":1,"type":"integer"}}`,
		`"200":{"content":{"text/event-stream":{"schema":{"properties":{"data":{"contentMediaType":"application/json","contentSchema":{"$ref":"#/components/schemas/openapi_test.replies"},"type":"string"},"id":{"type":"string"}},"required":["data"],"type":"object"}}},"description":"Events."}`,
		`"2XX":`,
		`"requestBody":{"content":{"application/a+json":{"example":{"text":"a"},"schema":{"$ref":"#/components/schemas/openapi_test.part"}},"application/json":{"schema":{"$ref":"#/components/schemas/openapi_test.part"}}},"required":true}`,
		`"200":{"content":{"text/plain":{"schema":{"type":"string"}}},"description":"OK"}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the document has no %s:\n%s", want, got)
		}
	}
}

func TestAnOperationIsDescribedByItsTypes(t *testing.T) {
	o := op.Op[change, whole]{Method: "PUT", Path: "/v1/parts/{name}", Status: 201, Access: op.Access{Vacant: true, Key: billing.KeyRequirement{Scope: billing.ScopeRead}}, Doc: "changes a part"}
	b, err := openapi.NewDocument("Test", "1", "", nil, []op.Spec{o.Spec()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct{ Schemas map[string]json.RawMessage }
	}
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string][2]string{
		"the operation": {string(d.Paths["/v1/parts/{name}"]["put"]), `{"description":"Who may use it: a vacant by its signature, a live key with the scope read.","operationId":"changePart","parameters":[{"description":"Name that the path is about.","in":"path","name":"name","required":true,"schema":{"type":"string"}},` +
			`{"description":"Maximum number of entries in a page.","in":"query","name":"limit","required":false,"schema":{"minimum":1,"type":"integer"}},{"description":"Key of the request, chosen by the client. A repeated request with the same key has no further effect.","in":"header","name":"Idempotency-Key","required":false,"schema":{"type":"string"}}],` +
			`"requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/openapi_test.part.request"}}},"required":true},` +
			`"responses":{"201":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/openapi_test.whole"}}},"description":"Created"},"default":{"$ref":"#/components/responses/Refusal"}},` +
			`"security":[{"operator":[]},{"vacant":[]},{"account":["read"]}],"summary":"Changes a part."}`},
		"the body": {string(d.Components.Schemas["openapi_test.part.request"]), `{"additionalProperties":false,"properties":{"bytes":{"contentEncoding":"base64","type":"string"},"count":{"minimum":2,"type":"integer"},` +
			`"id":{"pattern":"^[0-9a-f]{64}$","type":"string"},"of":{"additionalProperties":{"$ref":"#/components/schemas/openapi_test.part.request"},"type":"object"},"raw":{},` +
			`"text":{"maxLength":80,"minLength":1,"type":"string"},"times":{"items":{"format":"date-time","type":"string"},"type":"array"}},"required":["text"],"type":"object"}`},
	} {
		if got := compact(t, want[0]); got != want[1] {
			t.Errorf("%s is\n%s\nwant\n%s", what, got, want[1])
		}
	}
	if answer := compact(t, string(d.Components.Schemas["openapi_test.whole"])); !strings.Contains(answer, `"more":{"type":"boolean"}`) || !strings.Contains(answer, `"required":["text","id","more"]`) {
		t.Errorf("the answer is %s, want the members of both structs", answer)
	}
}

func compact(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The document of a host has no loose ends.
func TestTheDocumentIsWhole(t *testing.T) {
	var d struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
			Parameters  []struct{ Name, In, Description string }
			Description string
			Tags        []string
		}
		Tags       []openapi.Group
		Servers    []struct{ URL string }
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(openapi.JSON, &d); err != nil {
		t.Fatal(err)
	}
	for _, ref := range regexp.MustCompile(`"#/components/schemas/([^"]+)"`).FindAllStringSubmatch(string(openapi.JSON), -1) {
		if d.Components.Schemas[ref[1]] == nil {
			t.Errorf("there is no schema %s", ref[1])
		}
	}
	tags := map[string]bool{}
	for _, g := range d.Tags {
		tags[g.Name] = g.Description != ""
	}
	if len(d.Servers) != 2 || d.Servers[0].URL != "/" {
		t.Errorf("the servers are %v, want the host itself first", d.Servers)
	}
	ids := map[string]string{}
	for path, methods := range d.Paths {
		for method, o := range methods {
			at := method + " " + path
			if other := ids[o.OperationID]; other != "" {
				t.Errorf("%s and %s have one id", at, other)
			}
			ids[o.OperationID] = at
			if !regexp.MustCompile(`^[a-z][A-Za-z0-9]{3,60}$`).MatchString(o.OperationID) || o.Description == "" || len(o.Tags) != 1 || !tags[o.Tags[0]] {
				t.Errorf("%s has the id %q, the description %q and the tags %q", at, o.OperationID, o.Description, o.Tags)
			}
			var told, named []string
			for _, p := range o.Parameters {
				if p.Description == "" {
					t.Errorf("%s: the parameter %s has no description", at, p.Name)
				}
				if p.In == "path" {
					told = append(told, p.Name)
				}
			}
			for _, m := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(path, -1) {
				named = append(named, m[1])
			}
			if fmt.Sprint(told) != fmt.Sprint(named) {
				t.Errorf("%s: parameters of the path are %v, want %v", at, told, named)
			}
		}
	}
}

// Each example is as its schema says: what hosts were asked and have answered.
func TestExamplesFitTheirSchemas(t *testing.T) {
	d, err := openapitest.Load()
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	check := func(at string, c openapitest.Content) {
		for media, m := range c {
			if m.Example == nil {
				continue
			}
			count++
			v, err := d.Validator(m)
			if err == nil {
				err = v.Validate(m.Example)
			}
			if err != nil {
				t.Errorf("%s, %s: %v", at, media, err)
			}
		}
	}
	for path, methods := range d.Paths {
		for method, o := range methods {
			check(method+" "+path+" request", o.RequestBody.Content)
			for status, answer := range o.Responses {
				check(method+" "+path+" "+status, answer.Content)
			}
		}
	}
	if count < 100 {
		t.Errorf("%d examples, want at least 100", count)
	}
}
