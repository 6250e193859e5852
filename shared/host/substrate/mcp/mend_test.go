package mcp

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/network/sse"
)

// FuzzMend: whatever a server answers, the library reads lines of JSON, or what came.
func FuzzMend(f *testing.F) {
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"content":[7],"isError":1}}`, "id: 7\ndata: {\"error\":{\"code\":1e300}}\n\n", `{"result":{"tools":[null,{"name":null}]}}`,
		"data: {\"method\":7}\n\ndata: {\"result\":\ndata: 7}\n\n", `{"result":null,"error":null}`, "data: {\n\n",
	} {
		for _, method := range []string{"tools/list", "tools/call", "initialize"} {
			f.Add(body, method)
		}
	}
	f.Fuzz(func(t *testing.T, body, method string) {
		q := sentRequest{json.RawMessage("7"), method}
		for _, media := range []string{"application/json", "text/event-stream"} {
			reply := &http.Response{Header: http.Header{"Content-Type": {media}}, Body: io.NopCloser(strings.NewReader(body))}
			q.repairResponse(reply)
			got, err := io.ReadAll(reply.Body)
			if err != nil || reply.Body.Close() != nil {
				t.Fatal(err)
			}
			if media == "application/json" {
				if json.Valid([]byte(body)) && !json.Valid(got) {
					t.Errorf("%q becomes %q", body, got)
				}
				continue
			}
			for e, err := range sse.Events(strings.NewReader(string(got)), 1<<20) {
				if err != nil || json.Valid(e.Data) && strings.ContainsRune(string(e.Data), '\n') {
					t.Errorf("%q has the event %q, %v", got, e.Data, err)
				}
			}
		}
	})
}
