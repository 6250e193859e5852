package mcptool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
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
	isBatch := d.Kind() == canon.Array
	b := make([]byte, 0, len(message)+64)
	one := func(i int) error {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '{')
		first := true
		err := d.Object(func(key string) error {
			switch key {
			case "jsonrpc", "id", "method", "params", "result", "error":
			default:
				return d.Skip()
			}
			value, err := d.Span()
			if err != nil {
				return err
			}
			if !first {
				b = append(b, ',')
			}
			first = false
			b = append(append(canon.AppendString(b, key), ':'), change(key, value)...)
			return nil
		})
		b = append(b, '}')
		return err
	}
	if !isBatch {
		err := errors.Join(one(0), d.End())
		return b, err
	}
	b = append(b, '[')
	err := d.Array(one)
	return append(b, ']'), errors.Join(err, d.End())
}
