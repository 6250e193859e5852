//go:build unix

package lambda

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
)

// Event is a Function URL request, payload version 2.0, with the members that a
// function reads. Lambda sends more.
type Event struct {
	Version         string            `json:"version"`
	RouteKey        string            `json:"routeKey"`
	RawPath         string            `json:"rawPath"`
	RawQueryString  string            `json:"rawQueryString"`
	Cookies         []string          `json:"cookies,omitempty"`
	Headers         map[string]string `json:"headers"`
	RequestContext  RequestContext    `json:"requestContext"`
	Body            string            `json:"body,omitempty"`
	IsBase64Encoded bool              `json:"isBase64Encoded"`
}

// RequestContext is the Function URL's description of a request.
type RequestContext struct {
	AccountID    string      `json:"accountId"`
	APIID        string      `json:"apiId"`
	DomainName   string      `json:"domainName"`
	DomainPrefix string      `json:"domainPrefix"`
	HTTP         HTTPContext `json:"http"`
	RequestID    string      `json:"requestId"`
	RouteKey     string      `json:"routeKey"`
	Stage        string      `json:"stage"`
	Time         string      `json:"time"`
	TimeEpoch    int64       `json:"timeEpoch"`
}

// HTTPContext is the request line and the sender's address.
type HTTPContext struct {
	Method    string `json:"method"`
	Path      string `json:"path"`
	Protocol  string `json:"protocol"`
	SourceIP  string `json:"sourceIp"`
	UserAgent string `json:"userAgent"`
}

const domain = "test.lambda-url.us-east-1.on.aws"

// NewEvent returns a request for a path, with a query after '?'. With a body it
// is a JSON POST.
func NewEvent(path string, body []byte) Event {
	raw, query, _ := strings.Cut(path, "?")
	method := "GET"
	headers := map[string]string{
		"accept": "*/*", "host": domain, "user-agent": "curl/8.5.0", "x-amzn-trace-id": "Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700",
		"x-forwarded-for": "192.0.2.1", "x-forwarded-port": "443", "x-forwarded-proto": "https",
	}
	if body != nil {
		method = "POST"
		headers["content-type"], headers["content-length"] = "application/json", fmt.Sprint(len(body))
	}
	return Event{
		Version: "2.0", RouteKey: "$default", RawPath: raw, RawQueryString: query, Headers: headers, Body: string(body),
		RequestContext: RequestContext{
			AccountID: "anonymous", APIID: "test", DomainName: domain, DomainPrefix: "test",
			HTTP:      HTTPContext{Method: method, Path: raw, Protocol: "HTTP/1.1", SourceIP: "192.0.2.1", UserAgent: "curl/8.5.0"},
			RequestID: "00000000-0000-0000-0000-000000000000", RouteKey: "$default", Stage: "$default",
			Time: "01/Jan/2026:00:00:00 +0000", TimeEpoch: 1767225600000,
		},
	}
}

// Base64 returns e with its body in base64, as Lambda sends bodies that are not
// text.
func (e Event) Base64() Event {
	e.Body, e.IsBase64Encoded = base64.StdEncoding.EncodeToString([]byte(e.Body)), true
	return e
}

// Encode is e as Lambda sends it.
func (e Event) Encode() []byte {
	b, err := json.Marshal(e)
	if err != nil {
		panic(err) // strings, numbers and maps of strings always marshal
	}
	return b
}

// Response is the function's answer to an Event.
type Response struct {
	Status  int               `json:"statusCode"`
	Headers map[string]string `json:"headers"`
	Cookies []string          `json:"cookies"`
	Body    string            `json:"body"`
	Base64  bool              `json:"isBase64Encoded"`
}

// prelude ends the status and headers of an answer that is streamed; its body follows.
var prelude = make([]byte, 8)

// Send invokes the function with an event and parses its answer, whole or streamed.
func (f *Function) Send(ctx context.Context, event []byte) (Response, error) {
	b, err := f.Invoke(ctx, event)
	if err != nil {
		return Response{}, err
	}
	var r Response
	head, body, streamed := bytes.Cut(b, prelude)
	if streamed {
		r.Body = string(body)
	}
	if err := json.Unmarshal(head, &r); err != nil {
		return r, fmt.Errorf("the function's answer: %w: %s", err, b)
	}
	return r, nil
}

// Post sends a JSON body to a path of the function.
func (f *Function) Post(ctx context.Context, path string, body []byte) (Response, error) {
	return f.Send(ctx, NewEvent(path, body).Encode())
}
