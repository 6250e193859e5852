package mcptool

import (
	"encoding/json"
	"testing"
)

func TestErrorsOfParametersHaveNoNamesOfGo(t *testing.T) {
	for in, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"error":{"code":0,"message":"handling 'x': unmarshaling \"7\" into a *mcp.initializeParamsV2: json: cannot unmarshal \"7\" into Go value of type mcp.initializeParamsV2"}}`: `{"jsonrpc":"2.0","id":"a","error":{"code":-32602,"message":"params: expected the type that MCP defines, got another value"}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":0,"message":"unmarshaling \"{}\" into a *mcp.X: json: cannot unmarshal \"1\" into Go struct field mcp.X.clientInfo.name of type string"}}`:                  `{"jsonrpc":"2.0","id":"a","error":{"code":-32602,"message":"params.clientInfo.name: expected the type that MCP defines, got another value"}}`,
		`{"jsonrpc":"2.0","id":2,"result":{"id":1,"x":"<&>"}}`: `{"jsonrpc":"2.0","id":2,"result":{"id":1,"x":"<&>"}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-1}}`:      `{"jsonrpc":"2.0","id":null,"error":{"code":-1}}`,
		`no JSON`: `no JSON`, ``: ``, `[`: `[`, `{}{}`: `{}{}`, `[]`: `[]`, `7`: `7`,
	} {
		if got := string(RestoreIDs([]byte(in), []json.RawMessage{json.RawMessage(`"a"`)})); got != want {
			t.Errorf("%s\n becomes %s\n want %s", in, got, want)
		}
	}
}

// FuzzIDs: a message that is read as JSON-RPC stays JSON, and its ids come back as they came.
func FuzzIDs(f *testing.F) {
	for _, m := range []string{`{"id":1.0,"method":"x"}`, `[{"id":"a"},{"id":null},{}]`, `{"id":{"id":[1]},"odd":"\ud800"}`, `{"id":1,"id":2}`, `{`, ` [ ] `} {
		f.Add([]byte(m))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		replaced, ids := ReplaceIDs(message)
		if json.Valid(message) && !json.Valid(replaced) {
			t.Fatalf("%q becomes %q", message, replaced)
		}
		_, again := ReplaceIDs(RestoreIDs(replaced, ids))
		if len(ids) != len(again) {
			t.Fatalf("%q has the ids %q, then %q", message, ids, again)
		}
		for i, id := range ids {
			if string(id) != string(again[i]) {
				t.Errorf("%q: %q comes back as %q", message, id, again[i])
			}
		}
	})
}
