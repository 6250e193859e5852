//go:build unix

package kills

import (
	"bytes"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/tests/caller"
)

// aMessage is a call in a message of A2A.
func aMessage(s *stage) request { return inA2A(s.caller.Call("hi", s.target.now())) }

func inA2A(e *envelope.Envelope) request {
	body := append([]byte(`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"role":"ROLE_USER","parts":[{"text":`), canon.AppendString(nil, e.Payload.Text())...)
	body = append(envelope.AppendMetadata(append(body, `}],"metadata":`...), e), `}}}`...)
	return request{path: "/v/" + e.To.String(), body: body, envelope: e}
}

// messageAgain checks the fate of the call by the signed path, and that its answer is
// a task's: the same message finds it.
func messageAgain(s *stage, p process, r request, _ *response, then fate) {
	s.t.Helper()
	if then == stored {
		got, err := p.do(inA2A(r.envelope))
		s.must(err)
		if got.status != http.StatusOK || !bytes.Contains(got.body, []byte(`"state":"TASK_STATE_COMPLETED"`)) {
			s.t.Fatalf("the same message: %d %s, want its task", got.status, got.body)
		}
	}
	callAgain(s, p, message(caller.SendPath, r.envelope), nil, then)
}
