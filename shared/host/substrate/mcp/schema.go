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

// maxNodes limits the schemas in a tool's schema, of which a reference may repeat any number.
const maxNodes = 2000

// maxCached limits the bytes of all schemas that a schemaCache keeps.
const maxCached = 4 << 20

// schemaCache keeps what inputSchema returned, because the tools of a server are listed for each call
// and reading a schema takes a millisecond. It is safe for concurrent use.
type schemaCache struct {
	mu    sync.Mutex
	read  map[[sha256.Size]byte]readSchema // by the schema of the server
	bytes int
}

type readSchema struct {
	schema json.RawMessage
	err    error
}

// inputSchema is inputSchema, once for each schema.
func (c *schemaCache) inputSchema(of any) (json.RawMessage, error) {
	encoded, err := json.Marshal(of)
	if err != nil {
		return nil, err
	}
	key := sha256.Sum256(encoded)
	c.mu.Lock()
	known, ok := c.read[key]
	c.mu.Unlock()
	if ok {
		return known.schema, known.err
	}
	known.schema, known.err = inputSchema(of)
	size := sha256.Size + len(known.schema)
	if known.err != nil {
		// The error may quote a long part of the schema.
		known.err = errors.New(substrate.Excerpt([]byte(known.err.Error())))
		size += substrate.MaxExcerpt
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bytes += size; c.bytes > maxCached || c.read == nil {
		c.read, c.bytes = map[[sha256.Size]byte]readSchema{}, size
	}
	c.read[key] = known
	return known.schema, known.err
}

// inputSchema returns the schema of a tool's arguments as all providers take it. Providers refuse
// a whole request if the schema of one tool is not valid, or is not an object's. References are
// replaced with their targets, unless the targets are recursive or large.
func inputSchema(of any) (json.RawMessage, error) {
	root, ok := of.(map[string]any)
	if !ok {
		return nil, problem.Invalid("inputSchema", "an object", fmt.Sprintf("%T", of))
	}
	schema, err := encodeSchema(&schemaReader{root: root, inlines: true})
	if !errors.Is(err, errInline) {
		return schema, err
	}
	if schema, err = encodeSchema(&schemaReader{root: root}); err != nil {
		return nil, err
	}
	// A reference that stays may lead to a member that was left out.
	var read map[string]any
	if err := json.Unmarshal(schema, &read); err != nil {
		return nil, err
	}
	return encodeSchema(&schemaReader{root: read})
}

func encodeSchema(r *schemaReader) (json.RawMessage, error) {
	read, err := r.read(r.root, "inputSchema", nil)
	if err != nil {
		return nil, err
	}
	object, ok := read.(map[string]any)
	if !ok {
		return nil, problem.Invalid("inputSchema", "an object", fmt.Sprintf("%T", read))
	}
	if object["type"] == nil {
		object["type"] = "object"
	}
	if object["type"] != "object" {
		return nil, problem.Invalid("inputSchema.type", "object", fmt.Sprintf("%.80q", fmt.Sprint(object["type"])))
	}
	for _, name := range []string{"oneOf", "anyOf", "allOf", "enum", "not"} {
		if object[name] != nil {
			return nil, problem.Invalid("inputSchema", "no "+name+" beside its type", "one")
		}
	}
	schema, err := json.Marshal(object)
	if err == nil && len(schema) > maxSchema {
		if r.inlines {
			return nil, errInline
		}
		err = problem.Invalid("inputSchema", fmt.Sprintf("at most %d bytes", maxSchema), fmt.Sprint(len(schema)))
	}
	return schema, err
}

// metaSchema is the part of JSON Schema's meta-schema (draft 2020-12) about the members of one schema,
// and what providers require besides.
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

// Members whose values are schemas.
var (
	schemaMembers = []string{"items", "contains", "additionalItems", "additionalProperties", "unevaluatedItems", "unevaluatedProperties", "propertyNames", "not", "if", "then", "else"}
	listMembers   = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	mapMembers    = []string{"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"}
	// Members that may be null.
	valueMembers = []string{"const", "default", "example", "examples"}
	// noteMembers do not constrain values.
	noteMembers = []string{"title", "description", "default", "example", "examples", "deprecated", "readOnly", "writeOnly", "$comment"}
)

// errInline means that the references of a schema cannot be replaced with their targets.
var errInline = errors.New("a reference stays")

// schemaReader reads the schemas of a tool's schema.
type schemaReader struct {
	root    map[string]any
	inlines bool // replaces references
	nodes   int
}

// read returns a copy of a schema that providers take. It leaves out members of null and
// patterns that are none. open are the references that are being replaced.
func (r *schemaReader) read(of any, path string, open []string) (any, error) {
	if r.nodes++; r.nodes > maxNodes {
		if r.inlines {
			return nil, errInline
		}
		return nil, problem.Invalid(path, fmt.Sprintf("at most %d schemas in all", maxNodes), "more")
	}
	object, ok := of.(map[string]any)
	if !ok {
		return of, checkMembers(of, path)
	}
	s := maps.Clone(object)
	maps.DeleteFunc(s, func(name string, value any) bool { return value == nil && !slices.Contains(valueMembers, name) })
	if list, ok := s["items"].([]any); ok { // until draft 2019-09
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
	// The pattern may be one of ECMAScript that Go does not know. The server checks its arguments anyway.
	if pattern, ok := s["pattern"].(string); ok && !isPattern(pattern) {
		delete(s, "pattern")
	}
	types, _ := s["type"].([]any)
	if s["items"] == nil && s["prefixItems"] == nil && (s["type"] == "array" || slices.Contains(types, any("array"))) {
		s["items"] = map[string]any{} // OpenAI and Gemini require it
	}
	if err := r.readParts(s, path, open); err != nil {
		return nil, err
	}
	ref, ok := s["$ref"].(string)
	if !ok {
		return s, nil
	}
	target, ok := r.find(ref)
	switch {
	case !ok:
		return nil, problem.Invalid(path+".$ref", "a part of the schema, such as #/$defs/item", fmt.Sprintf("%.80q", ref))
	case !r.inlines:
		return s, nil
	case slices.Contains(open, ref):
		return nil, errInline
	}
	delete(s, "$ref")
	read, err := r.read(target, path, append(slices.Clip(open), ref))
	if err != nil {
		return nil, err
	}
	return merge(read, s)
}

// readParts reads the schemas in the members of s.
func (r *schemaReader) readParts(s map[string]any, path string, open []string) (err error) {
	if r.inlines { // no reference leads there any more
		delete(s, "$defs")
		delete(s, "definitions")
	}
	for _, name := range schemaMembers {
		if part, ok := s[name]; ok {
			if s[name], err = r.read(part, path+"."+name, open); err != nil {
				return err
			}
		}
	}
	for _, name := range listMembers {
		if list, ok := s[name].([]any); ok {
			list = slices.Clone(list)
			for i := range list {
				if list[i], err = r.read(list[i], fmt.Sprintf("%s.%s[%d]", path, name, i), open); err != nil {
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
			return part == nil || name == "patternProperties" && !isPattern(key)
		})
		for key, part := range parts {
			if parts[key], err = r.read(part, path+"."+name+"."+key, open); err != nil {
				return err
			}
		}
		s[name] = parts
	}
	return nil
}

// find returns the part of the schema that a reference names by a JSON Pointer.
func (r *schemaReader) find(ref string) (part any, ok bool) {
	pointer, ok := strings.CutPrefix(ref, "#")
	if part = r.root; !ok || pointer == "" {
		return part, ok
	}
	if pointer, ok = strings.CutPrefix(pointer, "/"); !ok {
		return nil, false
	}
	for name := range strings.SplitSeq(pointer, "/") {
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		switch in := part.(type) {
		case map[string]any:
			part = in[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(in) {
				return nil, false
			}
			part = in[i]
		default:
			return nil, false
		}
	}
	return part, part != nil
}

// merge returns the target of a reference together with the members beside the reference.
func merge(target any, beside map[string]any) (any, error) {
	object, ok := target.(map[string]any)
	if len(beside) == 0 {
		return target, nil
	}
	if !ok {
		return nil, errInline
	}
	for name, value := range beside {
		if other, both := object[name]; both && !slices.Contains(noteMembers, name) && !reflect.DeepEqual(other, value) {
			return nil, errInline
		}
		object[name] = value
	}
	return object, nil
}

// checkMembers checks the members of one schema, without the schemas in it.
func checkMembers(schema any, path string) error {
	if err := metaSchema.Validate(schema); err != nil {
		return fmt.Errorf("%s: %s", path, strings.TrimPrefix(err.Error(), "validating root: "))
	}
	return nil
}

func isPattern(pattern string) bool {
	_, err := regexp.Compile(pattern)
	return err == nil
}
