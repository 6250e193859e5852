//go:build unix

package lambda

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// machines is the part of Step Functions that the gate's handler uses, for
// functions that run beside DynamoDB Local: it records started executions, and
// reports the progress that a test chooses.
type machines struct {
	mu      sync.Mutex
	started []execution
	at      string // the state that was entered last
	away    bool   // it answers nobody
}

type execution struct{ StateMachineArn, Name, Input string }

// newMachines starts a server, and returns it with the environment for
// functions.
func newMachines(t *testing.T) (*machines, []string) {
	t.Helper()
	m := &machines{}
	s := httptest.NewServer(m)
	t.Cleanup(s.Close)
	return m, []string{"AWS_ENDPOINT_URL_SFN=" + s.URL}
}

func (m *machines) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	operation := strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "AWSStepFunctions.")
	var in execution
	switch err := json.NewDecoder(r.Body).Decode(&in); {
	case m.away || err != nil:
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"__type": "AccessDeniedException", "message": "refused by the test"})
	case operation == "StartExecution":
		m.started = append(m.started, in)
		_ = json.NewEncoder(w).Encode(map[string]any{"executionArn": in.Name, "startDate": 0})
	default:
		_ = json.NewEncoder(w).Encode(map[string]any{"events": []any{map[string]any{
			"id": 1, "timestamp": 0, "type": "TaskStateEntered", "stateEnteredEventDetails": map[string]any{"name": m.at}}}})
	}
}

// say sets the machine's reported state, or none.
func (m *machines) say(state string, away bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at, m.away = state, away
}

// runs are the executions that were started since the last call.
func (m *machines) runs() (all []execution) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all, m.started = m.started, nil
	return all
}
