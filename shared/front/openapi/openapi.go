// Package openapi describes operations as an OpenAPI 3.1 document. The schemas of request bodies
// follow the tags that canon.Unmarshal reads, and the schemas of answers follow the tags of
// encoding/json.
package openapi

import (
	"cmp"
	_ "embed"
	"encoding"
	"encoding/json"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// JSON is the document of a host that has all parts. A test of package serve generates it from the
// operations.
//
//go:embed openapi.json
var JSON []byte

const (
	operatorScheme = "operator" // the operator's key
	accountScheme  = "account"  // key of an account
	vacantScheme   = "vacant"   // signature of the request by a vacant
)

const mediaEvents = "text/event-stream"

type object = map[string]any

type Example struct{ Body, Answer json.RawMessage }

func OperationKey(s *op.Spec) string { return s.Method + " " + s.Path }

type Group struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// NewDocument returns the OpenAPI document of operations in JSON. It omits second paths that end
// with a slash.
func NewDocument(title, version, description string, groups []Group, specs []op.Spec, examples map[string]Example) ([]byte, error) {
	d := &documentBuilder{schemas: object{}, examples: examples}
	paths := object{}
	specs = slices.DeleteFunc(slices.Clone(specs), func(s op.Spec) bool { return strings.HasSuffix(s.Path, "/{$}") })
	ids := operationIDs(specs)
	for i, s := range specs {
		path := strings.Replace(s.Path, "...}", "}", 1)
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path].(object)[strings.ToLower(s.Method)] = d.buildOperation(&s, ids[i])
	}
	var scopes []string
	for _, scope := range billing.Scopes() {
		scopes = append(scopes, string(scope))
	}
	refusal := object{"description": refusalDescription, "content": d.buildContent(nil, reflect.TypeFor[httpapi.Refusal](), false, nil)}
	b, err := json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info":    object{"title": title, "version": version, "description": description},
		"servers": []object{
			{"url": "/", "description": "The host that serves this document."},
			{"url": "{host}", "description": "Another host.", "variables": object{"host": object{"default": "http://127.0.0.1:8080", "description": "The host's public URL."}}},
		},
		"tags":  groups,
		"paths": paths,
		"components": object{
			"schemas":   d.schemas,
			"responses": object{"Refusal": refusal},
			"securitySchemes": object{
				operatorScheme: object{"type": "http", "scheme": "bearer", "description": "The operator's key. The socket of a host on one machine needs none."},
				accountScheme:  object{"type": "http", "scheme": "bearer", "description": "A key of an account. Its scopes are " + strings.Join(scopes, ", ") + "."},
				vacantScheme:   object{"type": "apiKey", "in": "header", "name": "Vacancy-Caller", "description": "A vacant's signature of the request (PROTOCOL §19)."},
			},
		},
	}, "", " ")
	return append(b, '\n'), err
}

type documentBuilder struct {
	schemas  object
	examples map[string]Example
}

func (d *documentBuilder) buildOperation(s *op.Spec, id string) object {
	security := []object{{}} // alternative credentials; an empty object means that none is required
	if !s.Access.Anybody {
		security[0][operatorScheme] = []string{}
	}
	if s.Access.Vacant {
		security = append(security, object{vacantScheme: []string{}})
	}
	for _, scope := range []billing.Scope{s.Access.Key.Scope, s.Access.Key.AltScope} {
		if scope == "" {
			continue
		}
		scopes := []string{string(scope)}
		if extraScope := s.Access.Key.ExtraScope; extraScope != "" {
			scopes = append(scopes, string(extraScope))
		}
		security = append(security, object{accountScheme: scopes})
	}
	refusal := object{"$ref": "#/components/responses/Refusal"}
	if s.ErrorType != nil {
		var media []string
		if s.ErrorType.Kind() == reflect.String {
			media = []string{"text/plain"}
		}
		refusal = object{"description": refusalDescription, "content": d.buildContent(media, s.ErrorType, false, nil)}
	}
	operation := object{
		"operationId": id,
		"summary":     strings.ToUpper(s.Doc[:1]) + s.Doc[1:] + ".",
		"description": "Who may use it: " + s.Access.Describe() + ".",
		"security":    security,
		"responses":   object{strconv.Itoa(s.Status): d.buildAnswer(s, d.examples[OperationKey(s)].Answer), "default": refusal},
	}
	if s.Out != nil && implements[op.HeaderSetter](s.Out) { // a HeaderSetter may send another status
		operation["responses"].(object)["2XX"] = d.buildAnswer(s, nil)
	}
	if s.Group != "" {
		operation["tags"] = []string{s.Group}
	}
	if s.In == nil {
		return operation
	}
	var ranges map[string]op.Range
	if ranged, ok := reflect.New(s.In).Interface().(op.Ranged); ok {
		ranges = ranged.Ranges()
	}
	var params []object
	for _, f := range s.Fields() {
		if f.Place == "body" {
			if f.Name != "ignored" {
				operation["requestBody"] = object{"required": true, "content": d.buildContent(s.RequestMedia, f.Type, !s.IgnoresUnknown, d.examples[OperationKey(s)].Body)}
			}
			continue
		}
		t := f.Type
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		schema := d.buildSchema(t, true, "")
		if t.Kind() == reflect.Uint64 {
			schema["minimum"] = 1
		}
		param := object{"name": f.Name, "in": f.Place, "required": f.Place == "path", "schema": schema}
		if description := parameterDocs[f.Name]; description != "" {
			param["description"] = description
		}
		if r, ok := ranges[f.Name]; ok && f.Place == "query" {
			switch {
			case r.Words != nil:
				schema["enum"] = r.Words
			case schema["type"] == "string":
				schema["type"] = "number"
				fallthrough
			default:
				schema["minimum"], schema["maximum"] = r.Min, r.Max
			}
			if r.Default != nil {
				schema["default"] = r.Default
			}
			param["required"] = r.Required
		}
		params = append(params, param)
	}
	if params != nil {
		operation["parameters"] = params
	}
	return operation
}

const refusalDescription = "An error: what was expected, what was received, and what to do next."

func (d *documentBuilder) buildAnswer(s *op.Spec, example json.RawMessage) object {
	answer := object{"description": cmp.Or(s.AnswerDoc, http.StatusText(s.Status))}
	switch {
	case s.Status == http.StatusNoContent:
	case s.Out != nil:
		answer["content"] = d.buildContent(s.AnswerMedia, s.Out, false, example)
	case s.AnswerMedia != nil:
		content := object{}
		for _, media := range s.AnswerMedia {
			content[media] = object{"schema": object{"type": "string"}}
		}
		answer["content"] = content
	}
	return answer
}

// buildContent describes JSON of the media types in media, which default to application/json.
func (d *documentBuilder) buildContent(media []string, t reflect.Type, isRequest bool, example json.RawMessage) object {
	if media == nil {
		media = []string{"application/json"}
	}
	content := object{}
	for i, m := range media {
		schema := d.buildSchema(t, isRequest, "")
		if m == mediaEvents { // the schema describes each event
			data := object{"type": "string", "contentMediaType": "application/json", "contentSchema": schema}
			schema = object{"type": "object", "properties": object{"id": object{"type": "string"}, "data": data}, "required": []string{"data"}}
		}
		mediaType := object{"schema": schema}
		if example != nil && i == 0 {
			mediaType["example"] = example
		}
		content[m] = mediaType
	}
	return content
}

// buildSchema describes the JSON of a type: what canon.Unmarshal accepts in a request, or what
// encoding/json writes in an answer.
func (d *documentBuilder) buildSchema(t reflect.Type, isRequest bool, options string) object {
	switch t {
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[identity.ID](), reflect.TypeFor[identity.Hash]():
		return object{"type": "string", "pattern": "^[0-9a-f]{64}$"}
	case reflect.TypeFor[json.RawMessage]():
		return object{}
	}
	if raw, ok := reflect.New(t).Interface().(op.Document); ok {
		return d.buildSchema(raw.DocumentType(), isRequest, options)
	}
	switch {
	case t.Kind() == reflect.Pointer:
		return d.buildSchema(t.Elem(), isRequest, options)
	case implements[encoding.TextMarshaler](t), implements[encoding.TextUnmarshaler](t):
		return addBounds(object{"type": "string"}, options, "Length")
	case implements[json.Marshaler](t), implements[canon.Unmarshaler](t):
		return object{} // encodes itself in a form that the README of its package describes
	}
	switch t.Kind() {
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return addBounds(object{"type": "integer"}, options, "imum")
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return addBounds(object{"type": "integer", "minimum": 0}, options, "imum")
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.String:
		return addBounds(object{"type": "string"}, options, "Length")
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string", "contentEncoding": "base64"}
		}
		return addBounds(object{"type": "array", "items": d.buildSchema(t.Elem(), isRequest, "")}, options, "Items")
	case reflect.Array:
		return object{"type": "array", "items": d.buildSchema(t.Elem(), isRequest, "")}
	case reflect.Map:
		return addBounds(object{"type": "object", "additionalProperties": d.buildSchema(t.Elem(), isRequest, "")}, options, "Properties")
	case reflect.Struct:
		return d.buildNamedSchema(t, isRequest)
	}
	return object{}
}

func implements[I any](t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[I]())
}

func addBounds(s object, options, suffix string) object {
	for option := range strings.SplitSeq(options, ",") {
		for _, word := range []string{"min", "max"} {
			if n, err := strconv.Atoi(strings.TrimPrefix(option, word+"=")); err == nil && strings.HasPrefix(option, word+"=") {
				s[word+suffix] = n
			}
		}
	}
	return s
}

func (d *documentBuilder) buildNamedSchema(t reflect.Type, isRequest bool) object {
	if t.Name() == "" {
		return d.buildObjectSchema(t, isRequest)
	}
	// The package of a protocol's forms, such as openaiwire, is named for the protocol.
	name, _, _ := strings.Cut(strings.TrimSuffix(path.Base(t.PkgPath()), "wire")+"."+t.Name(), "[")
	if isRequest {
		name += ".request"
	}
	if d.schemas[name] == nil {
		d.schemas[name] = object{} // placeholder, because its members may refer to it
		d.schemas[name] = d.buildObjectSchema(t, isRequest)
	}
	return object{"$ref": "#/components/schemas/" + name}
}

func (d *documentBuilder) buildObjectSchema(t reflect.Type, isRequest bool) object {
	properties, required := object{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		tag, hasTag := f.Tag.Lookup("json")
		if !f.IsExported() || tag == "-" || len(f.Index) > 1 && !isPromoted(t, f.Index) || f.Anonymous && !hasTag {
			continue
		}
		name, tagOptions, _ := strings.Cut(tag, ",")
		name = cmp.Or(name, f.Name)
		options := f.Tag.Get("canon")
		member := d.buildSchema(f.Type, isRequest, options)
		properties[name] = member
		optional := strings.Contains(tagOptions, "omitempty") || strings.Contains(tagOptions, "omitzero")
		if isRequest {
			optional = !slices.Contains(strings.Split(options, ","), "required")
		}
		if !optional {
			required = append(required, name)
		}
		if isRequest && slices.Contains(strings.Split(options, ","), "null") || !isRequest && !optional && f.Type.Kind() == reflect.Pointer {
			properties[name] = object{"anyOf": []object{member, {"type": "null"}}}
		}
	}
	s := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	if isRequest {
		s["additionalProperties"] = false
	}
	return s
}

func isPromoted(t reflect.Type, index []int) bool {
	for _, i := range index[:len(index)-1] {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		f := t.Field(i)
		if _, hasTag := f.Tag.Lookup("json"); hasTag {
			return false // encoding/json promotes only fields of structs that are embedded without a tag
		}
		t = f.Type
	}
	return true
}
