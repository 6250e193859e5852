package mcptool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// ReplaceIDs returns a message, or a batch, of JSON-RPC whose ids are 1, 2, 3 …, and the ids that
// the client sent. The library reads numbers as float64, which changes large ids. Members that
// JSON-RPC does not have are left out. What is not JSON-RPC is returned unchanged.
func ReplaceIDs(message []byte) (replaced []byte, ids []json.RawMessage) {
	replaced, err := rewrite(message, func(key string, value []byte) []byte {
		if key != "id" {
			return value
		}
		ids = append(ids, bytes.Clone(value))
		return strconv.AppendInt(nil, int64(len(ids)), 10)
	})
	if err != nil {
		return message, nil
	}
	return replaced, ids
}

// RestoreIDs returns an answer of the library with the ids that ReplaceIDs returned. An error of
// the library about parameters gets a code, and words without names of Go.
func RestoreIDs(answer []byte, ids []json.RawMessage) []byte {
	restored, err := rewrite(answer, func(key string, value []byte) []byte {
		switch n, err := strconv.Atoi(string(value)); {
		case key == "id" && err == nil && n > 0 && n <= len(ids):
			return ids[n-1]
		case key == "error" && bytes.Contains(value, []byte(" into a *mcp.")):
			name := "params"
			if field := goField.FindSubmatch(value); field != nil {
				name += "." + string(field[1])
			}
			return fmt.Appendf(nil, `{"code":-32602,"message":"%s: expected the type that MCP defines, got another value"}`, name)
		}
		return value
	})
	if err != nil {
		return answer
	}
	return restored
}

// goField finds the member that an error of encoding/json is about.
var goField = regexp.MustCompile(`Go struct field mcp\.\w+\.([\w.]+) of type [^"]*"`)

// maxDepth bounds how deep results are; requests have a lower bound.
const maxDepth = 1000

// rewrite returns a message, or a batch, with the values that change returns.
func rewrite(message []byte, change func(key string, value []byte) []byte) ([]byte, error) {
	d := canon.NewDecoder(message, canon.Limits{Bytes: len(message), Depth: maxDepth, Keys: 16, Lenient: true})
	b := make([]byte, 0, len(message)+64)
	one := func(int) error {
		b = append(b, '{')
		err := d.Object(func(key string) error {
			if !slices.Contains([]string{"jsonrpc", "id", "method", "params", "result", "error"}, key) {
				return d.Skip()
			}
			value, err := d.Span()
			if err == nil {
				b = append(append(append(canon.AppendString(b, key), ':'), change(key, value)...), ',')
			}
			return err
		})
		b = append(bytes.TrimSuffix(b, []byte(",")), "},"...)
		return err
	}
	if d.Kind() != canon.Array {
		err := errors.Join(one(0), d.End())
		return bytes.TrimSuffix(b, []byte(",")), err
	}
	b = append(b, '[')
	err := errors.Join(d.Array(one), d.End())
	return append(bytes.TrimSuffix(b, []byte(",")), ']'), err
}
