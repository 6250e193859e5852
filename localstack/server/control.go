package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Region and Account of everything on the server.
const (
	Region  = "us-east-1"
	Account = "000000000000"
)

// Env is the environment that makes a command use this server and no other:
// endpoints, Region, dummy credentials, and none of the user's files. The
// caller must omit the user's AWS_PROFILE.
func (s *Server) Env() []string {
	return []string{
		"AWS_ENDPOINT_URL=" + s.URL, "AWS_ENDPOINT_URL_S3=" + s.URL,
		"AWS_REGION=" + Region, "AWS_DEFAULT_REGION=" + Region,
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test",
		"AWS_CONFIG_FILE=" + os.DevNull, "AWS_SHARED_CREDENTIALS_FILE=" + os.DevNull,
		"AWS_EC2_METADATA_DISABLED=true",
	}
}

// Dial connects names under localhost, such as Function URLs, to the loopback
// address, for resolvers that do not; other names as usual. It is an
// http.Transport's DialContext.
func (s *Server) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(host, ".localhost") {
		address = net.JoinHostPort("127.0.0.1", port)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// Call is an AWS call made with a function's role.
type Call struct {
	Time       time.Time         `json:"time"`
	Function   string            `json:"function"`
	Role       string            `json:"role"`       // ARN
	Instance   string            `json:"instance"`   // the execution environment; empty if Lambda made the call for the function
	Invocation string            `json:"invocation"` // request id; empty in init
	Service    string            `json:"service"`    // as in dynamodb
	Operation  string            `json:"operation"`  // as in PutItem
	Actions    []Action          `json:"actions"`
	Context    map[string]string `json:"context"`    // encryption context, of KMS calls
	Keys       map[string]string `json:"keys"`       // other IAM condition keys, as in kms:SigningAlgorithm
	Parameters []string          `json:"parameters"` // names only, never values
	Status     int               `json:"status"`     // of HTTP; 0 if the call was not answered
	Error      string            `json:"error"`      // code, or empty
	Fault      string            `json:"fault"`      // what was injected, or empty
}

// Action is a permission that IAM checks: one for each call, or for each part
// of a transaction.
type Action struct {
	Name      string `json:"action"`    // as in dynamodb:PutItem
	Resource  string `json:"resource"`  // ARN, or *
	Condition string `json:"condition"` // the condition expression's text, without values
	// Keys are the IAM condition keys of one part of a transaction, as in
	// dynamodb:LeadingKeys.
	Keys map[string]string `json:"keys"`
}

// Calls returns all AWS calls made with roles of functions since the start, in
// order. A call is listed before its caller has the answer. Calls that Lambda
// makes itself (logs, polling a stream) are listed once for each kind.
func (s *Server) Calls(ctx context.Context) ([]Call, error) {
	f, err := os.Open(filepath.Join(s.Dir, "calls.jsonl"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseCalls(ctx, f)
}

func parseCalls(ctx context.Context, r io.Reader) ([]Call, error) {
	var calls []Call
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return calls, nil // an incomplete line is still being written
		}
		if err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var c Call
		if err := json.Unmarshal(line, &c); err != nil {
			return nil, fmt.Errorf("calls.jsonl: %w", err)
		}
		calls = append(calls, c)
	}
}

// Kind is a kind of fault.
type Kind string

// The kinds of faults. Error codes are the called service's.
const (
	Throttled Kind = "throttled" // not carried out; ProvisionedThroughputExceededException, ThrottlingException
	Internal  Kind = "internal"  // not carried out; HTTP 500
	Denied    Kind = "denied"    // not carried out; AccessDeniedException
	Expired   Kind = "expired"   // not carried out; ExpiredTokenException
	Slow      Kind = "slow"      // carried out after Seconds
	Lost      Kind = "lost"      // carried out, and the connection is cut without an answer
	Refused   Kind = "refused"   // not carried out, and the connection is cut
)

// Fault affects the next matching calls. Empty fields match all.
type Fault struct {
	Kind      Kind    `json:"kind"`
	Function  string  `json:"function,omitempty"`
	Service   string  `json:"service,omitempty"`
	Operation string  `json:"operation,omitempty"`
	Table     string  `json:"table,omitempty"`   // as named in the call
	Skip      int     `json:"skip,omitempty"`    // matching calls to skip
	Times     int     `json:"times,omitempty"`   // calls to fail; 0 means 1. The SDK retries by itself.
	Seconds   float64 `json:"seconds,omitempty"` // of Slow
}

// Fault adds f to the plan. Of several matching faults, the first one that is
// not used up applies.
func (s *Server) Fault(ctx context.Context, f Fault) error {
	f.Times = max(f.Times, 1)
	return s.do(ctx, http.MethodPost, "/_vacancy/faults", f, nil)
}

// ClearFaults drops all faults and kills that have not happened.
func (s *Server) ClearFaults(ctx context.Context) error {
	return s.do(ctx, http.MethodDelete, "/_vacancy/faults", nil, nil)
}

// Waiting counts the planned faults and kills that are not used up.
func (s *Server) Waiting(ctx context.Context) (int, error) {
	var all []json.RawMessage
	err := s.do(ctx, http.MethodGet, "/_vacancy/faults", nil, &all)
	return len(all), err
}

// Moment is the call at which a process is killed.
type Moment struct {
	when, service, operation, table string
	call                            int
}

// Now kills every process of the function at once, idle or busy.
func Now() Moment { return Moment{when: "now"} }

// Before is before the n-th AWS call (from 1) of an invocation.
func Before(n int) Moment { return Moment{when: "before", call: n} }

// After is after the n-th AWS call (from 1) of an invocation, before its answer
// arrives.
func After(n int) Moment { return Moment{when: "after", call: n} }

// Of counts only calls of a service and operation.
func (m Moment) Of(service, operation string) Moment {
	m.service, m.operation = service, operation
	return m
}

// On counts only calls to a table.
func (m Moment) On(table string) Moment {
	m.table = table
	return m
}

// Kill ends the process of a function like kill -9: now, or once, in the first
// invocation that reaches the moment. Now returns the number of killed
// processes.
func (s *Server) Kill(ctx context.Context, function string, when Moment) (int, error) {
	plan := map[string]any{"function": function, "when": when.when}
	if when.when != "now" {
		plan["call"], plan["service"], plan["operation"], plan["table"] = when.call, when.service, when.operation, when.table
	}
	var done struct {
		PIDs []int `json:"pids"`
	}
	err := s.do(ctx, http.MethodPost, "/_vacancy/kills", plan, &done)
	return len(done.PIDs), err
}

// Instance is an execution environment.
type Instance struct {
	Function    string `json:"function"`
	ID          string `json:"instance"`
	PID         int    `json:"pid"` // 0 if its process has ended
	Busy        bool   `json:"busy"`
	Invocations int    `json:"invocations"`
}

// Instances returns the execution environments of all functions.
func (s *Server) Instances(ctx context.Context) ([]Instance, error) {
	var all []Instance
	err := s.do(ctx, http.MethodGet, "/_vacancy/instances", nil, &all)
	return all, err
}

// skipped matches the lines in LocalStack's log that are its only sign of a
// resource that was not made or an update that was not made.
var skipped = regexp.MustCompile(`No resource provider found|Unable to update resource type`)

// Skipped returns the log lines of silently skipped resources and updates since
// the start.
func (s *Server) Skipped() ([]string, error) {
	content, err := os.ReadFile(s.Log)
	if err != nil {
		return nil, err
	}
	var lines []string
	for line := range strings.Lines(string(content)) {
		if skipped.MatchString(line) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines, nil
}

// do requests path from the server and decodes its answer into out, if not nil.
func (s *Server) do(ctx context.Context, method, path string, in, out any) error {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, s.URL+path, &body)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	const most = 8 << 20
	content, err := io.ReadAll(io.LimitReader(response.Body, most))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s answered %s: %s", method, path, strconv.Itoa(response.StatusCode), content)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(content, out)
}
