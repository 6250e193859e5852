package mcp

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// maxNodes limits the schemas within a tool's schema, because references may repeat schemas any
// number of times.
const maxNodes = 2000

const maxCacheBytes = 4 << 20

// schemaCache caches results of convertSchema, because the tools are listed for each call. It is
// safe for concurrent use.
type schemaCache struct {
	mu      sync.Mutex
	entries map[[sha256.Size]byte]convertedSchema // keyed by the hash of the server's schema
	size    int
}

type convertedSchema struct {
	schema json.RawMessage
	err    error
}

func (c *schemaCache) convert(document any) (json.RawMessage, error) {
	encoded, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	key := sha256.Sum256(encoded)
	c.mu.Lock()
	entry, ok := c.entries[key]
	c.mu.Unlock()
	if ok {
		return entry.schema, entry.err
	}
	entry.schema, entry.err = convertSchema(document)
	size := sha256.Size + len(entry.schema)
	if entry.err != nil {
		// The error may quote a long part of the schema.
		entry.err = errors.New(substrate.Excerpt([]byte(entry.err.Error())))
		size += substrate.MaxExcerptBytes
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size += size; c.size > maxCacheBytes || c.entries == nil {
		c.entries, c.size = map[[sha256.Size]byte]convertedSchema{}, size
	}
	c.entries[key] = entry
	return entry.schema, entry.err
}

// convertSchema converts the schema of a tool's arguments to a form that all providers accept.
// Providers reject a complete request if the schema of one tool is invalid.
func convertSchema(document any) (json.RawMessage, error) {
	root, ok := document.(map[string]any)
	if !ok {
		return nil, problem.Invalid("inputSchema", "an object", fmt.Sprintf("%T", document))
	}
	schema, err := encodeSchema(&schemaConverter{root: root, inlineRefs: true})
	if !errors.Is(err, errCannotInline) {
		return schema, err
	}
	if schema, err = encodeSchema(&schemaConverter{root: root}); err != nil {
		return nil, err
	}
	// The second conversion fails if a reference points to a member that was removed.
	var converted map[string]any
	if err := json.Unmarshal(schema, &converted); err != nil {
		return nil, err
	}
	return encodeSchema(&schemaConverter{root: converted})
}

func encodeSchema(r *schemaConverter) (json.RawMessage, error) {
	converted, err := r.convert(r.root, "inputSchema", nil)
	if err != nil {
		return nil, err
	}
	object, ok := converted.(map[string]any)
	if !ok {
		return nil, problem.Invalid("inputSchema", "an object", fmt.Sprintf("%T", converted))
	}
	if object["type"] == nil {
		object["type"] = "object"
	}
	if object["type"] != "object" {
		return nil, problem.Invalid("inputSchema.type", "object", fmt.Sprintf("%.80q", fmt.Sprint(object["type"])))
	}
	for _, name := range []string{"oneOf", "anyOf", "allOf", "enum", "not"} {
		if object[name] != nil {
			return nil, problem.Invalid("inputSchema", "no "+name+" next to its type", "one")
		}
	}
	schema, err := json.Marshal(object)
	if err == nil && len(schema) > maxSchemaBytes {
		if r.inlineRefs {
			return nil, errCannotInline
		}
		err = problem.Invalid("inputSchema", fmt.Sprintf("at most %d bytes", maxSchemaBytes), fmt.Sprint(len(schema)))
	}
	return schema, err
}

// metaSchema contains the rules of JSON Schema (draft 2020-12) and additional requirements of
// providers.
var metaSchema = func() *jsonschema.Resolved {
	const meta = `{
		"type": ["object", "boolean"],
		"properties": {
			"type": {"type": ["string", "array"], "items": {"$ref": "#/$defs/type"}, "minItems": 1, "uniqueItems": true, "if": {"type": "string"}, "then": {"$ref": "#/$defs/type"}},
			"enum": {"type": "array", "minItems": 1},
			"required": {"type": "array", "items": {"type": "string"}, "uniqueItems": true},
			"properties": {"type": "object", "propertyNames": {"pattern": "^[^\\s\\p{Cc}]+$"}},
			"patternProperties": {"type": "object"}, "$defs": {"type": "object"}, "definitions": {"type": "object"}, "dependentSchemas": {"type": "object"},
			"dependentRequired": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}},
			"allOf": {"type": "array", "minItems": 1}, "anyOf": {"type": "array", "minItems": 1}, "oneOf": {"type": "array", "minItems": 1}, "prefixItems": {"type": "array", "minItems": 1},
			"minLength": {"$ref": "#/$defs/count"}, "maxLength": {"$ref": "#/$defs/count"}, "minItems": {"$ref": "#/$defs/count"}, "maxItems": {"$ref": "#/$defs/count"},
			"minProperties": {"$ref": "#/$defs/count"}, "maxProperties": {"$ref": "#/$defs/count"}, "minContains": {"$ref": "#/$defs/count"}, "maxContains": {"$ref": "#/$defs/count"},
			"minimum": {"type": "number"}, "maximum": {"type": "number"}, "exclusiveMinimum": {"type": "number"}, "exclusiveMaximum": {"type": "number"},
			"multipleOf": {"type": "number", "exclusiveMinimum": 0}, "uniqueItems": {"type": "boolean"},
			"title": {"type": "string"}, "description": {"type": "string"}, "format": {"type": "string"}, "pattern": {"type": "string"}, "$ref": {"type": "string"},
			"deprecated": {"type": "boolean"}, "readOnly": {"type": "boolean"}, "writeOnly": {"type": "boolean"}, "examples": {"type": "array"}
		},
		"$defs": {
			"type": {"enum": ["array", "boolean", "integer", "null", "number", "object", "string"]},
			"count": {"type": "integer", "minimum": 0}
		}
	}`
	var schema jsonschema.Schema
	if err := json.Unmarshal([]byte(meta), &schema); err != nil {
		panic(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		panic(err)
	}
	return resolved
}()

var (
	schemaMembers = []string{"items", "contains", "additionalItems", "additionalProperties", "unevaluatedItems", "unevaluatedProperties", "propertyNames", "not", "if", "then", "else"}
	listMembers   = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	mapMembers    = []string{"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"}
	// valueMembers may be null.
	valueMembers = []string{"const", "default", "example", "examples"}
	// annotationMembers do not constrain values.
	annotationMembers = []string{"title", "description", "default", "example", "examples", "deprecated", "readOnly", "writeOnly", "$comment"}
)

var errCannotInline = errors.New("a reference cannot be replaced with its target")

type schemaConverter struct {
	root       map[string]any
	inlineRefs bool
	nodeCount  int
}

// convert returns a copy of a schema in a form that providers accept. openRefs contains the
// references that are being replaced.
func (r *schemaConverter) convert(node any, path string, openRefs []string) (any, error) {
	if r.nodeCount++; r.nodeCount > maxNodes {
		if r.inlineRefs {
			return nil, errCannotInline
		}
		return nil, problem.Invalid(path, fmt.Sprintf("at most %d schemas in total", maxNodes), "more")
	}
	object, ok := node.(map[string]any)
	if !ok {
		return node, checkMembers(node, path)
	}
	s := maps.Clone(object)
	maps.DeleteFunc(s, func(name string, value any) bool { return value == nil && !slices.Contains(valueMembers, name) })
	if list, ok := s["items"].([]any); ok { // form of drafts before 2020-12
		s["prefixItems"] = list
		delete(s, "items")
		if rest, ok := s["additionalItems"]; ok {
			s["items"] = rest
			delete(s, "additionalItems")
		}
	}
	if err := checkMembers(s, path); err != nil {
		return nil, err
	}
	// The pattern may use ECMAScript syntax that Go does not support. The server checks its
	// arguments.
	if pattern, ok := s["pattern"].(string); ok && !isRegexp(pattern) {
		delete(s, "pattern")
	}
	types, _ := s["type"].([]any)
	if s["items"] == nil && s["prefixItems"] == nil && (s["type"] == "array" || slices.Contains(types, any("array"))) {
		s["items"] = map[string]any{} // OpenAI and Gemini require items
	}
	if err := r.convertParts(s, path, openRefs); err != nil {
		return nil, err
	}
	ref, ok := s["$ref"].(string)
	if !ok {
		return s, nil
	}
	target, ok := r.resolveRef(ref)
	switch {
	case !ok:
		return nil, problem.Invalid(path+".$ref", "a part of the schema, such as #/$defs/item", fmt.Sprintf("%.80q", ref))
	case !r.inlineRefs:
		return s, nil
	case slices.Contains(openRefs, ref):
		return nil, errCannotInline
	}
	delete(s, "$ref")
	converted, err := r.convert(target, path, append(slices.Clip(openRefs), ref))
	if err != nil {
		return nil, err
	}
	return mergeSiblings(converted, s)
}

func (r *schemaConverter) convertParts(s map[string]any, path string, openRefs []string) (err error) {
	if r.inlineRefs { // no references to these definitions remain
		delete(s, "$defs")
		delete(s, "definitions")
	}
	for _, name := range schemaMembers {
		if part, ok := s[name]; ok {
			if s[name], err = r.convert(part, path+"."+name, openRefs); err != nil {
				return err
			}
		}
	}
	for _, name := range listMembers {
		if list, ok := s[name].([]any); ok {
			list = slices.Clone(list)
			for i := range list {
				if list[i], err = r.convert(list[i], fmt.Sprintf("%s.%s[%d]", path, name, i), openRefs); err != nil {
					return err
				}
			}
			s[name] = list
		}
	}
	for _, name := range mapMembers {
		parts, ok := s[name].(map[string]any)
		if !ok {
			continue
		}
		parts = maps.Clone(parts)
		maps.DeleteFunc(parts, func(key string, part any) bool {
			return part == nil || name == "patternProperties" && !isRegexp(key)
		})
		for key, part := range parts {
			if parts[key], err = r.convert(part, path+"."+name+"."+key, openRefs); err != nil {
				return err
			}
		}
		s[name] = parts
	}
	return nil
}

func (r *schemaConverter) resolveRef(ref string) (part any, ok bool) {
	pointer, ok := strings.CutPrefix(ref, "#")
	if part = r.root; !ok || pointer == "" {
		return part, ok
	}
	if pointer, ok = strings.CutPrefix(pointer, "/"); !ok {
		return nil, false
	}
	for name := range strings.SplitSeq(pointer, "/") {
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		switch parent := part.(type) {
		case map[string]any:
			part = parent[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(parent) {
				return nil, false
			}
			part = parent[i]
		default:
			return nil, false
		}
	}
	return part, part != nil
}

func mergeSiblings(target any, siblings map[string]any) (any, error) {
	object, ok := target.(map[string]any)
	if len(siblings) == 0 {
		return target, nil
	}
	if !ok {
		return nil, errCannotInline
	}
	for name, value := range siblings {
		if other, exists := object[name]; exists && !slices.Contains(annotationMembers, name) && !reflect.DeepEqual(other, value) {
			return nil, errCannotInline
		}
		object[name] = value
	}
	return object, nil
}

func checkMembers(schema any, path string) error {
	if err := metaSchema.Validate(schema); err != nil {
		return fmt.Errorf("%s: %s", path, strings.TrimPrefix(err.Error(), "validating root: "))
	}
	return nil
}

func isRegexp(pattern string) bool {
	_, err := regexp.Compile(pattern)
	return err == nil
}
