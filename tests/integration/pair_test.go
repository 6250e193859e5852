package integration

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/caller"
)

// pair is a caller and a vacant, at the handler of a stage.
type pair struct {
	*caller.Caller
	t    *testing.T
	url  string // of the message handler
	http *http.Client
}

// messageURL is where message answers: the edge, or its Function URL, because the host's own
// URL without an edge is agent's.
func (s *deployed) messageURL(t *testing.T) string {
	t.Helper()
	if s.Edge {
		return s.URL
	}
	return strings.TrimRight(s.outputs(t, "functions")["MessageUrl"], "/")
}

func (s *deployed) pair(t *testing.T, to identity.ID) *pair {
	t.Helper()
	return &pair{Caller: caller.New(t, to), t: t, url: s.messageURL(t), http: web(t, s.aws, "")}
}

// heard is an answer with its headers. Status 0: none came.
type heard struct {
	caller.Answer
	header http.Header
}

// post sends a body to a path of the handler. An answer that is not the
// function's, such as Lambda's after its process died, has no header and its
// status.
func (p *pair) post(path string, e *envelope.Envelope) heard {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.url+path, bytes.NewReader(caller.Body(e)))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.http.Do(req)
	if err != nil {
		return heard{}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return heard{}
	}
	if resp.StatusCode == http.StatusBadGateway {
		return heard{Answer: caller.Answer{Status: resp.StatusCode, Detail: string(body)}}
	}
	a, err := caller.Read(e, resp.StatusCode, body)
	if err != nil {
		p.t.Fatalf("the answer to %q: %v", e.Payload.Text(), err)
	}
	return heard{a, resp.Header}
}

// get fetches a page of the handler.
func (p *pair) get(path string) heard {
	p.t.Helper()
	status, header, body := request(p.t, p.http, http.MethodGet, p.url+path, "")
	var m struct{ Code, Detail string }
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		p.t.Fatalf("GET %s: %d %s", path, status, body)
	}
	return heard{caller.Answer{Status: status, Code: m.Code, Detail: m.Detail}, header}
}

// send sends an envelope to its route.
func (p *pair) send(e *envelope.Envelope) heard {
	p.t.Helper()
	return p.post(caller.Path(e), e)
}

// say makes the next call, which must be answered.
func (p *pair) say(text string) (*envelope.Envelope, heard) {
	p.t.Helper()
	e := p.Call(text, time.Now())
	a := p.send(e)
	if a.Status != http.StatusOK || a.Reply == nil {
		p.t.Fatalf("%q: %v, want it answered", text, a)
	}
	p.Accepted(e)
	return e, a
}

// refused requires an answer with a status and code.
func (p *pair) refused(what string, a heard, status int, code string) {
	p.t.Helper()
	if a.Status != status || a.Code != code || a.Reply != nil {
		p.t.Errorf("%s: %v, want %d %q", what, a, status, code)
	}
}
