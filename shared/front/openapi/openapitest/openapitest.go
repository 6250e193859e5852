// Package openapitest checks bodies and answers by the schemas of the OpenAPI document.
package openapitest

import (
	"encoding/json"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/vacancy-host/vacancy/shared/front/openapi"
)

// Content is a body or an answer by its media type.
type Content map[string]Media

// Media is the schema of a body or an answer, and its example. Example is nil if the document has none.
type Media struct {
	Schema  *jsonschema.Schema
	Example any
}

// Operation is an operation of the document.
type Operation struct {
	RequestBody struct{ Content Content }
	Responses   map[string]struct{ Content Content }
}

// Document is the OpenAPI document: operations by path and method, in lower case.
type Document struct {
	Paths      map[string]map[string]Operation
	Components struct{ Schemas map[string]*jsonschema.Schema }
}

// Open reads the document of this program.
func Open() (d Document, err error) {
	// The validator resolves references below a schema's definitions only.
	text := strings.ReplaceAll(string(openapi.JSON), "#/components/schemas/", "#/$defs/")
	return d, json.Unmarshal([]byte(text), &d)
}

// Validator returns what checks values by the schema of a body or an answer.
func (d *Document) Validator(m Media) (*jsonschema.Resolved, error) {
	whole := &jsonschema.Schema{AllOf: []*jsonschema.Schema{m.Schema}, Defs: d.Components.Schemas}
	return whole.CloneSchemas().Resolve(nil) // which a schema bears once
}
