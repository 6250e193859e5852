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

// ReplaceIDs replaces the ids of a JSON-RPC message or batch by 1, 2, 3 and so on, because the
// library parses numbers as float64 and would change large ids. It returns an invalid message
// unchanged.
func ReplaceIDs(message []byte) (replaced []byte, ids []json.RawMessage) {
	replaced, err := rewriteMembers(message, func(key string, value []byte) []byte {
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

// RestoreIDs restores the ids that ReplaceIDs returned. It also rewrites the library's errors about
// parameters, whose texts contain names of Go types.
func RestoreIDs(answer []byte, ids []json.RawMessage) []byte {
	restored, err := rewriteMembers(answer, func(key string, value []byte) []byte {
		switch n, err := strconv.Atoi(string(value)); {
		case key == "id" && err == nil && n > 0 && n <= len(ids):
			return ids[n-1]
		case key == "error" && bytes.Contains(value, []byte(" into a *mcp.")):
			name := "params"
			if match := goFieldError.FindSubmatch(value); match != nil {
				name += "." + string(match[1])
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

// goFieldError matches an error of encoding/json about a member.
var goFieldError = regexp.MustCompile(`Go struct field mcp\.\w+\.([\w.]+) of type [^"]*"`)

const maxResultDepth = 1000

func rewriteMembers(message []byte, replaceValue func(key string, value []byte) []byte) ([]byte, error) {
	d := canon.NewDecoder(message, canon.Limits{Bytes: len(message), Depth: maxResultDepth, Keys: 16, Lenient: true})
	b := make([]byte, 0, len(message)+64)
	rewriteObject := func(int) error {
		b = append(b, '{')
		err := d.Object(func(key string) error {
			if !slices.Contains([]string{"jsonrpc", "id", "method", "params", "result", "error"}, key) {
				return d.Skip()
			}
			value, err := d.SkipRaw()
			if err == nil {
				b = append(append(append(canon.AppendString(b, key), ':'), replaceValue(key, value)...), ',')
			}
			return err
		})
		b = append(bytes.TrimSuffix(b, []byte(",")), "},"...)
		return err
	}
	if d.Kind() != canon.Array {
		err := errors.Join(rewriteObject(0), d.End())
		return bytes.TrimSuffix(b, []byte(",")), err
	}
	b = append(b, '[')
	err := errors.Join(d.Array(rewriteObject), d.End())
	return append(bytes.TrimSuffix(b, []byte(",")), ']'), err
}
