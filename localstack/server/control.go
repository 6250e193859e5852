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

const (
	Region  = "us-east-1"
	Account = "000000000000"
)

// Env returns the environment that makes a command use only this server. The caller must omit the
// user's AWS_PROFILE.
func (s *Server) Env() []string {
	return []string{
		"AWS_ENDPOINT_URL=" + s.URL, "AWS_ENDPOINT_URL_S3=" + s.URL,
		"AWS_REGION=" + Region, "AWS_DEFAULT_REGION=" + Region,
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test",
		"AWS_CONFIG_FILE=" + os.DevNull, "AWS_SHARED_CREDENTIALS_FILE=" + os.DevNull,
		"AWS_EC2_METADATA_DISABLED=true",
	}
}

// Dial connects names under localhost to the loopback address, because some resolvers do not know
// Function URLs.
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

type Call struct {
	Time     time.Time `json:"time"`
	Function string    `json:"function"`
	Role     string    `json:"role"` // ARN
	// Instance is empty if Lambda made the call for the function.
	Instance   string            `json:"instance"`
	Invocation string            `json:"invocation"` // request id; empty during init
	Service    string            `json:"service"`
	Operation  string            `json:"operation"`
	Actions    []Action          `json:"actions"`
	Context    map[string]string `json:"context"` // encryption context of KMS calls
	Keys       map[string]string `json:"keys"`
	Parameters []string          `json:"parameters"` // names only, never values
	Status     int               `json:"status"`     // 0 if the caller got no answer
	Error      string            `json:"error"`
	Fault      string            `json:"fault"` // injected fault
}

// Action is a permission that IAM checks. A transaction has an action for each part.
type Action struct {
	Name      string            `json:"action"`   // for example dynamodb:PutItem
	Resource  string            `json:"resource"` // ARN, or *
	Condition string            `json:"condition"`
	Keys      map[string]string `json:"keys"`
}

// Calls returns the AWS calls made with roles of functions since the start, in order. A call is
// listed before its caller gets the answer. Each kind of call that Lambda itself makes, for example
// to write logs, is listed only once.
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

type FaultKind string

const (
	Throttled FaultKind = "throttled" // not carried out
	Internal  FaultKind = "internal"  // not carried out; HTTP 500
	Denied    FaultKind = "denied"    // not carried out; AccessDeniedException
	Expired   FaultKind = "expired"   // not carried out; ExpiredTokenException
	Slow      FaultKind = "slow"      // carried out after Seconds
	Lost      FaultKind = "lost"      // carried out, but the connection is closed without an answer
	Refused   FaultKind = "refused"   // not carried out, and the connection is closed
)

// Fault affects the next calls that match its fields. An empty string matches all calls.
type Fault struct {
	Kind      FaultKind `json:"kind"`
	Function  string    `json:"function,omitempty"`
	Service   string    `json:"service,omitempty"`
	Operation string    `json:"operation,omitempty"`
	Table     string    `json:"table,omitempty"`
	Skip      int       `json:"skip,omitempty"` // number of matching calls to skip
	Times     int       `json:"times,omitempty"`
	Seconds   float64   `json:"seconds,omitempty"` // delay of Slow
}

// AddFault adds a fault. If several faults match a call, the first one that has not yet failed its
// number of calls applies.
func (s *Server) AddFault(ctx context.Context, f Fault) error {
	f.Times = max(f.Times, 1)
	return s.doJSON(ctx, http.MethodPost, "/_vacancy/faults", f, nil)
}

func (s *Server) ClearFaults(ctx context.Context) error {
	return s.doJSON(ctx, http.MethodDelete, "/_vacancy/faults", nil, nil)
}

func (s *Server) CountFaults(ctx context.Context) (int, error) {
	var faults []json.RawMessage
	err := s.doJSON(ctx, http.MethodGet, "/_vacancy/faults", nil, &faults)
	return len(faults), err
}

type Moment struct {
	phase, service, operation, table string
	call                             int
}

func Immediately() Moment { return Moment{phase: "now"} }

func BeforeCall(n int) Moment { return Moment{phase: "before", call: n} }

// AfterCall returns the Moment after the n-th AWS call (from 1) of an invocation, before its answer
// arrives.
func AfterCall(n int) Moment { return Moment{phase: "after", call: n} }

func (m Moment) ForOperation(service, operation string) Moment {
	m.service, m.operation = service, operation
	return m
}

func (m Moment) ForTable(table string) Moment {
	m.table = table
	return m
}

// Kill ends the process of a function like kill -9 in the first invocation that reaches the moment.
// If the moment is [Immediately], Kill ends all processes at once and returns their number.
func (s *Server) Kill(ctx context.Context, function string, moment Moment) (int, error) {
	plan := map[string]any{"function": function, "when": moment.phase}
	if moment.phase != "now" {
		plan["call"], plan["service"], plan["operation"], plan["table"] = moment.call, moment.service, moment.operation, moment.table
	}
	var result struct {
		PIDs []int `json:"pids"`
	}
	err := s.doJSON(ctx, http.MethodPost, "/_vacancy/kills", plan, &result)
	return len(result.PIDs), err
}

type Instance struct {
	Function    string `json:"function"`
	ID          string `json:"instance"`
	PID         int    `json:"pid"` // 0 if its process has ended
	Busy        bool   `json:"busy"`
	Invocations int    `json:"invocations"`
}

func (s *Server) Instances(ctx context.Context) ([]Instance, error) {
	var instances []Instance
	err := s.doJSON(ctx, http.MethodGet, "/_vacancy/instances", nil, &instances)
	return instances, err
}

// skippedPattern matches log lines about resources that LocalStack silently did not create or
// update.
var skippedPattern = regexp.MustCompile(`No resource provider found|Unable to update resource type`)

func (s *Server) ReadSkippedResources() ([]string, error) {
	content, err := os.ReadFile(s.LogPath)
	if err != nil {
		return nil, err
	}
	var lines []string
	for line := range strings.Lines(string(content)) {
		if skippedPattern.MatchString(line) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines, nil
}

func (s *Server) doJSON(ctx context.Context, method, path string, in, out any) error {
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
	const maxResponseBytes = 8 << 20
	content, err := io.ReadAll(io.LimitReader(response.Body, maxResponseBytes))
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
