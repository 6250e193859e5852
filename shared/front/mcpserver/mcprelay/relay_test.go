package mcprelay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
)

// server answers each request by the method that it has, as a stream or whole.
type server struct{}

func (server) Open(_ context.Context, r outbound.Request) (*http.Response, error) {
	media, body := "application/json", `{"jsonrpc":"2.0","id":null,"result":{}}`
	if bytes.Contains(r.Body, []byte("progressToken")) {
		media, body = "text/event-stream", "data: [DONE]\n\nevent: ping\ndata: 12:00\n\nevent: ping\ndata: {\"time\":1}\n\nevent: message\ndata: {\"method\":\"notifications/progress\",\"params\":{}}\n\ndata: "+body+"\n\n"
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {media}}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// slowReader is an output that takes its first line when it is released.
type slowReader struct{ writing, release chan struct{} }

func (w slowReader) Write(b []byte) (int, error) {
	select {
	case w.writing <- struct{}{}:
	default:
	}
	<-w.release
	return len(b), nil
}

func TestTheRelayReadsWhileTheClientReadsNoAnswers(t *testing.T) {
	out := slowReader{make(chan struct{}, 1), make(chan struct{})}
	in, client := io.Pipe()
	ended := make(chan error, 1)
	r := &Relay{URL: "http://localhost/mcp", Transport: server{}, Logf: t.Logf}
	go func() { ended <- r.Serve(t.Context(), in, out) }()
	for i := range 3 {
		// A pipe has no buffer: the write of a request ends when the relay has read it.
		if _, err := fmt.Fprintf(client, `{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`+"\n", i); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			<-out.writing
		}
	}
	close(out.release)
	client.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A server in this process answers with the ids of its client, which the library reads as floats.
func TestALocalServerKeepsIDs(t *testing.T) {
	r := &Relay{URL: "http://localhost/mcp", Transport: NewLocal(sdk.NewServer(&sdk.Implementation{Name: "x", Version: "1"}, nil)), Logf: t.Logf}
	for _, id := range []string{"1732796400123456789", "1.0", "1e2", `"\u00e9"`} {
		ping := `{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`
		for in, want := range map[string]string{ping: `{"jsonrpc":"2.0","id":` + id + `,"result":{}}`, "[" + ping + "," + ping + "]": `[{"jsonrpc":"2.0","id":` + id + `,"result":{}},{"jsonrpc":"2.0","id":` + id + `,"result":{}}]`} {
			var out bytes.Buffer
			if err := r.Serve(t.Context(), strings.NewReader(in), &out); err != nil || out.String() != want+"\n" {
				t.Errorf("%s: %s, %v", in, out.String(), err)
			}
		}
	}
}

// Whatever a client writes: each line of the output is a message, and nothing of the input ends the program.
func FuzzRelay(f *testing.F) {
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"ask","_meta":{"progressToken":1}}}`,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, `{"method":"notifications/cancelled","params":{"requestId":1}}`, "{\n\n7\n\"", "{\"id\":1e9,\"method\":\"x\"}",
		`{"id":1,"method":"tools/call","params":[]}`, `{"id":1,"method":"tools/call","params":{"name":"ask","_meta":3}}`, "\xff", `{"id":"\u2028","method":"\u0000"}`,
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, input string) {
		var out bytes.Buffer
		r := &Relay{URL: "http://localhost/mcp", Transport: server{}, StopTasks: true, Logf: t.Logf}
		if err := r.Serve(context.Background(), strings.NewReader(input), &out); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			var m struct {
				Version       string `json:"jsonrpc"`
				Method        string
				Result, Error json.RawMessage
			}
			if err := json.Unmarshal([]byte(line), &m); err != nil || m.Method == "" && (m.Version != "2.0" || (m.Result == nil) == (m.Error == nil)) || !strings.HasSuffix(line, "\n") {
				t.Errorf("%q: %v", line, err)
			}
		}
		if lines := strings.Count(input, "\n") + 1; strings.Count(out.String(), "\n") > 2*lines {
			t.Errorf("%d lines for %d of the client", strings.Count(out.String(), "\n"), lines)
		}
	})
}
