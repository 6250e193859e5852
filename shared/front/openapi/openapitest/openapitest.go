// Package openapitest checks bodies and answers against the schemas of the OpenAPI document.
package openapitest

import (
	"encoding/json"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/vacancy-host/vacancy/shared/front/openapi"
)

type Content map[string]Media

// Media describes a body or an answer. Example may be nil.
type Media struct {
	Schema  *jsonschema.Schema
	Example any
}

type Operation struct {
	RequestBody struct{ Content Content }
	Responses   map[string]struct{ Content Content }
}

// Document is the OpenAPI document. Paths maps paths to their operations by lower-case method.
type Document struct {
	Paths      map[string]map[string]Operation
	Components struct{ Schemas map[string]*jsonschema.Schema }
}

func Load() (d Document, err error) {
	// The validator resolves references only below $defs.
	text := strings.ReplaceAll(string(openapi.JSON), "#/components/schemas/", "#/$defs/")
	return d, json.Unmarshal([]byte(text), &d)
}

func (d *Document) Validator(m Media) (*jsonschema.Resolved, error) {
	combined := &jsonschema.Schema{AllOf: []*jsonschema.Schema{m.Schema}, Defs: d.Components.Schemas}
	return combined.CloneSchemas().Resolve(nil) // a schema can be resolved only once
}
