// Package yamldoc converts YAML documents of users to JSON. It accepts only the features of YAML
// that JSON also has, so that a document means what it appears to mean.
package yamldoc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

const MaxBytes = 1 << 20

// ToJSON converts a user's document to JSON. It returns valid JSON unchanged, byte for byte, so
// that the receiver checks what the user wrote. In YAML, it rejects aliases, tags and multiple
// documents, and it treats dates as strings.
func ToJSON(doc []byte) (json.RawMessage, error) {
	doc = canon.TrimByteOrderMark(doc)
	if json.Valid(doc) {
		return doc, nil
	}
	d := yaml.NewDecoder(bytes.NewReader(doc))
	var n yaml.Node
	if err := d.Decode(&n); errors.Is(err, io.EOF) {
		return nil, problem.New(problem.Usage, "it is empty")
	} else if err != nil {
		return nil, problem.New(problem.Usage, "it is neither JSON nor YAML: %.200s", err)
	}
	if err := d.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, problem.New(problem.Usage, "expected one document, got more")
	}
	v, err := nodeValue(&n, 0)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, problem.Wrap(problem.Usage, err, "it cannot be converted to JSON")
	}
	return b, nil
}

const maxDepth = 32

func FromJSON(doc []byte) ([]byte, error) {
	var v any
	if err := json.Unmarshal(doc, &v); err != nil {
		return nil, err
	}
	return yaml.Marshal(v)
}

func nodeValue(n *yaml.Node, depth int) (any, error) {
	if depth > maxDepth {
		return nil, problem.New(problem.Usage, "line %d: expected at most %d levels", n.Line, maxDepth)
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return nodeValue(n.Content[0], depth+1)
	case yaml.MappingNode:
		return mappingValue(n, depth)
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, c := range n.Content {
			v, err := nodeValue(c, depth+1)
			if err != nil {
				return nil, err
			}
			list[i] = v
		}
		return list, nil
	case yaml.ScalarNode:
		return scalarValue(n)
	}
	return nil, problem.New(problem.Usage, "line %d: aliases are not supported; repeat the value", n.Line)
}

func mappingValue(n *yaml.Node, depth int) (any, error) {
	m := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
			return nil, problem.New(problem.Usage, "line %d: expected a name, got %.80q", key.Line, key.Value)
		}
		if _, isDuplicate := m[key.Value]; isDuplicate {
			return nil, problem.New(problem.Usage, "line %d: %.80q occurs twice", key.Line, key.Value)
		}
		v, err := nodeValue(n.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		m[key.Value] = v
	}
	return m, nil
}

func scalarValue(n *yaml.Node) (v any, err error) {
	switch tag := n.ShortTag(); tag {
	case "!!str", "!!timestamp":
		return n.Value, nil
	case "!!null":
		return nil, nil
	case "!!bool":
		var b bool
		err, v = n.Decode(&b), b
	case "!!int":
		var i int64
		err, v = n.Decode(&i), i
	case "!!float":
		// The number is copied unchanged, and JSON has no infinities.
		if !json.Valid([]byte(n.Value)) {
			return nil, problem.New(problem.Usage, "line %d: %.80q is not a number of JSON", n.Line, n.Value)
		}
		return json.Number(n.Value), nil
	default:
		return nil, problem.New(problem.Usage, "line %d: expected a text, a number, true, false or null, got %.80s", n.Line, tag)
	}
	if err != nil {
		return nil, problem.New(problem.Usage, "line %d: %s", n.Line, fmt.Sprintf("%.200s", err))
	}
	return v, nil
}
