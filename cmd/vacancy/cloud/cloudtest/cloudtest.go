// Package cloudtest provides a server with recorded AWS responses, for faults and results that no
// local server can produce on demand. A test fails if the tested code sends an operation for which
// the test has set no response.
package cloudtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
)

// AWS speaks the protocols of the AWS services that "vacancy" uses.
type AWS struct {
	URL string

	t          testing.TB
	mu         sync.Mutex
	responders map[string]func(Request) Reply
	requests   []Request
}

type Request struct {
	Operation string // for example DescribeStacks
	Path      string
	Form      url.Values
	JSON      map[string]any
	Body      []byte
}

// Reply is a response. If Code (AWS's error code) is set, the response is an error.
type Reply struct {
	Body    string
	Header  map[string]string
	Code    string
	Message string
}

func New(t testing.TB) *AWS {
	t.Helper()
	a := &AWS{t: t, responders: map[string]func(Request) Reply{}}
	s := httptest.NewServer(http.HandlerFunc(a.serve))
	t.Cleanup(s.Close)
	a.URL = s.URL
	return a
}

// NewWithEnv starts a server for account 123456789012, and sets the environment so that the AWS SDK
// uses it. The SDK's retries stay on, because the server may close an idle connection.
func NewWithEnv(t *testing.T) *AWS {
	t.Helper()
	a := New(t)
	missingFile := filepath.Join(t.TempDir(), "none")
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": a.URL, "AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
		"AWS_CONFIG_FILE": missingFile, "AWS_SHARED_CREDENTIALS_FILE": missingFile, "AWS_PROFILE": "", "AWS_SESSION_TOKEN": "",
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_MAX_ATTEMPTS": "", "AWS_ENDPOINT_URL_S3": "",
	} {
		t.Setenv(name, value)
	}
	a.SetAccount("123456789012")
	return a
}

func DevRecord() stage.Record {
	return stage.Record{Stage: "dev", Region: "eu-west-1", Account: "123456789012", URL: "https://dev.example", AdminURL: "https://a.example", ExportURL: "https://b.example",
		OperatorKey: "vop_secret", Context: map[string]string{}}
}

func (a *AWS) SetResponder(operation string, f func(Request) Reply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.responders[operation] = f
}

func (a *AWS) SetResponse(operation, body string) {
	a.SetResponder(operation, func(Request) Reply { return Reply{Body: body} })
}

func (a *AWS) SetError(operation, code, message string) {
	a.SetResponder(operation, func(Request) Reply { return Reply{Code: code, Message: message} })
}

func (a *AWS) SetAccount(account string) {
	a.SetResponse("GetCallerIdentity", "<GetCallerIdentityResponse><GetCallerIdentityResult><Account>"+account+
		"</Account><Arn>arn:aws:iam::"+account+":user/someone</Arn></GetCallerIdentityResult></GetCallerIdentityResponse>")
}

type Stack struct {
	Name, Status string
	Outputs      map[string]string
}

// SetStacks sets the response of DescribeStacks.
func (a *AWS) SetStacks(stacks ...Stack) {
	a.SetResponder("DescribeStacks", func(r Request) Reply {
		name := r.Form.Get("StackName")
		i := slices.IndexFunc(stacks, func(s Stack) bool { return s.Name == name || "arn:"+s.Name == name })
		if i < 0 {
			return Reply{Code: "ValidationError", Message: "Stack with id " + name + " does not exist"}
		}
		var outputs strings.Builder
		for key, value := range stacks[i].Outputs {
			fmt.Fprintf(&outputs, "<member><OutputKey>%s</OutputKey><OutputValue>%s</OutputValue></member>", key, value)
		}
		return Reply{Body: "<DescribeStacksResponse><DescribeStacksResult><Stacks><member><StackId>arn:" + stacks[i].Name + "</StackId><StackName>" + stacks[i].Name +
			"</StackName><CreationTime>2026-05-06T00:00:00Z</CreationTime><StackStatus>" + stacks[i].Status + "</StackStatus><Outputs>" + outputs.String() +
			"</Outputs></member></Stacks></DescribeStacksResult></DescribeStacksResponse>"}
	})
}

func (a *AWS) Requests(operation string) []Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	var requests []Request
	for _, r := range a.requests {
		if r.Operation == operation {
			requests = append(requests, r)
		}
	}
	return requests
}

func (a *AWS) serve(w http.ResponseWriter, r *http.Request) {
	req := decodeRequest(r)
	a.mu.Lock()
	a.requests = append(a.requests, req)
	respond := a.responders[req.Operation]
	a.mu.Unlock()
	if respond == nil {
		a.t.Errorf("AWS was asked %s %s %s, which the test does not expect", req.Operation, r.Method, r.URL)
		respond = func(Request) Reply { return Reply{Code: "Unexpected", Message: "not expected"} }
	}
	reply := respond(req)
	for name, value := range reply.Header {
		w.Header().Set(name, value)
	}
	if reply.Code == "" {
		w.Header().Set("Content-Length", strconv.Itoa(len(reply.Body)))
		_, _ = io.WriteString(w, reply.Body)
		return
	}
	status := http.StatusBadRequest
	if strings.HasPrefix(reply.Code, "Internal") {
		status = http.StatusInternalServerError
	}
	w.Header().Set("X-Amzn-Errortype", reply.Code)
	w.WriteHeader(status)
	switch {
	case req.Form.Get("Action") != "":
		fmt.Fprintf(w, "<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error></ErrorResponse>", reply.Code, reply.Message)
	case req.JSON != nil || strings.HasPrefix(req.Path, "/20"): // Lambda's paths begin with a date
		_ = json.NewEncoder(w).Encode(map[string]string{"__type": reply.Code, "message": reply.Message})
	default:
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", reply.Code, reply.Message)
	}
}

func decodeRequest(r *http.Request) Request {
	body, _ := io.ReadAll(r.Body)
	req := Request{Path: r.URL.Path, Body: body, Form: url.Values{}}
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		_, req.Operation, _ = strings.Cut(target, ".")
		_ = json.Unmarshal(body, &req.JSON)
		return req
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		req.Form, _ = url.ParseQuery(string(body))
		req.Operation = req.Form.Get("Action")
		return req
	}
	query := r.URL.Query()
	switch {
	case strings.HasSuffix(r.URL.Path, "/invocations"):
		req.Operation = "Invoke"
	case strings.HasSuffix(r.URL.Path, "/concurrency"):
		req.Operation = r.Method + " concurrency"
	case strings.HasSuffix(r.URL.Path, "/code"):
		req.Operation = "UpdateFunctionCode"
	case strings.HasSuffix(r.URL.Path, "/configuration"):
		req.Operation = "GetFunctionConfiguration"
	case query.Has("versions"):
		req.Operation = "ListObjectVersions"
	case query.Has("delete"):
		req.Operation = "DeleteObjects"
	default:
		req.Operation = r.Method + " " + r.URL.Path
	}
	return req
}
