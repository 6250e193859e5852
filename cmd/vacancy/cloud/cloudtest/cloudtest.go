// Package cloudtest answers as AWS does, by shapes that were recorded: for what
// no server on a laptop shows, or not when it is wanted, such as faults,
// throttling, pages and odd orders.
//
// The invariant: an operation that a test did not expect fails that test.
package cloudtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// AWS is a server on loopback that speaks the protocols of the services that
// the command line uses.
type AWS struct {
	URL string

	t        testing.TB
	mu       sync.Mutex
	answers  map[string]func(Request) Reply
	requests []Request
}

// Request is one request, taken apart as far as a test looks.
type Request struct {
	Operation string // CloudFormation's or another's: DescribeStacks, InvokeFunction
	Path      string // of REST services
	Form      url.Values
	JSON      map[string]any
	Body      []byte
}

// Reply is an answer. A Code makes it an error.
type Reply struct {
	Body    string
	Header  map[string]string
	Code    string
	Message string
}

// New starts a server that ends with the test.
func New(t testing.TB) *AWS {
	t.Helper()
	a := &AWS{t: t, answers: map[string]func(Request) Reply{}}
	s := httptest.NewServer(http.HandlerFunc(a.serve))
	t.Cleanup(s.Close)
	a.URL = s.URL
	return a
}

// On answers an operation.
func (a *AWS) On(operation string, f func(Request) Reply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers[operation] = f
}

// Always answers an operation the same.
func (a *AWS) Always(operation, body string) {
	a.On(operation, func(Request) Reply { return Reply{Body: body} })
}

// Fails answers an operation with an error.
func (a *AWS) Fails(operation, code, message string) {
	a.On(operation, func(Request) Reply { return Reply{Code: code, Message: message} })
}

// Account answers who the caller is.
func (a *AWS) Account(account string) {
	a.Always("GetCallerIdentity", "<GetCallerIdentityResponse><GetCallerIdentityResult><Account>"+account+
		"</Account><Arn>arn:aws:iam::"+account+":user/someone</Arn></GetCallerIdentityResult></GetCallerIdentityResponse>")
}

// Stack is a stack as DescribeStacks tells it.
type Stack struct {
	Name, Status string
	Outputs      map[string]string
}

// Stacks answers DescribeStacks; a stack that is not among them does not exist.
func (a *AWS) Stacks(stacks ...Stack) {
	a.On("DescribeStacks", func(r Request) Reply {
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

// Requests are those of an operation so far.
func (a *AWS) Requests(operation string) []Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	var found []Request
	for _, r := range a.requests {
		if r.Operation == operation {
			found = append(found, r)
		}
	}
	return found
}

func (a *AWS) serve(w http.ResponseWriter, r *http.Request) {
	req := read(r)
	a.mu.Lock()
	a.requests = append(a.requests, req)
	f := a.answers[req.Operation]
	a.mu.Unlock()
	if f == nil {
		a.t.Errorf("AWS was asked %s %s %s, which the test does not expect", req.Operation, r.Method, r.URL)
		f = func(Request) Reply { return Reply{Code: "Unexpected", Message: "not expected"} }
	}
	reply := f(req)
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
	case req.JSON != nil || strings.HasPrefix(req.Path, "/2015-03-31/"):
		_ = json.NewEncoder(w).Encode(map[string]string{"__type": reply.Code, "message": reply.Message})
	default:
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", reply.Code, reply.Message)
	}
}

// read finds out which operation a request is: by form, by header, or by method
// and path.
func read(r *http.Request) Request {
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
