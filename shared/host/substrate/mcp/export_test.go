package mcp

import "encoding/json"

// InputSchema is the schema that is offered for a tool's schema.
func InputSchema(schema []byte) (json.RawMessage, error) {
	var of any
	if err := json.Unmarshal(schema, &of); err != nil {
		return nil, err
	}
	return convertSchema(of)
}

// ReadSchemas reads schemas with one cache, and returns the number of schemas and bytes in it.
func ReadSchemas(schemas ...any) (entries, bytes int, err error) {
	c := new(schemaCache)
	for range 2 {
		for _, schema := range schemas {
			if _, err = c.convert(schema); err != nil {
				return 0, 0, err
			}
		}
	}
	return len(c.entries), c.size, nil
}
