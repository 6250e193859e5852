// Package faultproxy is a proxy between a DynamoDB client and its server. It injects faults of
// networks and services into selected requests: it drops requests or their answers, delays,
// repeats, refuses or hangs them, or forwards them long after the client gave up.
//
// A fault never changes the content of a request, so the server's data results only from requests
// that DynamoDB itself processed.
package faultproxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Fault is the fate of a request.
type Fault int

// The faults.
const (
	Pass       Fault = iota // forwarded and answered
	Drop                    // not forwarded; the connection breaks
	DropAnswer              // forwarded; the connection breaks before the answer
	FailAfter               // forwarded; the answer is InternalServerError
	Delay                   // forwarded after Rule.For
	Twice                   // forwarded twice; the second answer counts
	TwiceLater              // forwarded twice, the second time without its request token, as after ten minutes
	Throttle                // not forwarded; ThrottlingException
	Exceed                  // not forwarded; ProvisionedThroughputExceededException
	Conflict                // not forwarded; another transaction holds the item
	Internal                // not forwarded; InternalServerError
	Hang                    // not forwarded; no answer until the client gives up
	HangAfter               // forwarded; no answer until the client gives up
	Late                    // answered InternalServerError; forwarded by Release
)

var names = map[Fault]string{Pass: "pass", Drop: "drop", DropAnswer: "drop the answer", FailAfter: "fail after",
	Delay: "delay", Twice: "twice", TwiceLater: "twice, ten minutes later", Throttle: "throttle", Exceed: "exceed",
	Conflict: "conflict", Internal: "internal error", Hang: "hang", HangAfter: "hang after", Late: "late"}

func (f Fault) String() string { return names[f] }

// Faults lists all faults but Pass.
func Faults() []Fault {
	var all []Fault
	for f := Drop; f <= Late; f++ {
		all = append(all, f)
	}
	return all
}

// Rule applies a fault to requests of an operation ("" means all): to the Nth
// since the rule was set, counted from 1, or to all if Nth is 0.
type Rule struct {
	Operation string // DynamoDB's name, such as PutItem
	Nth       int
	Fault     Fault
	For       time.Duration // duration of a Delay

	seen int
}

// Watcher is called twice for each request: when it arrives, before rules and
// server, and after the server has processed it, before its answer is sent. If
// it returns false, the connection is closed there. It may be called
// concurrently.
type Watcher func(operation string, body []byte, carriedOut bool) bool

// Proxy is a running proxy.
type Proxy struct {
	URL string

	target string
	client *http.Client
	server *httptest.Server
	done   chan struct{}

	mu    sync.Mutex
	watch Watcher
	rules []*Rule
	late  []request
	seen  map[string]int
}

// Start runs a proxy on 127.0.0.1 for target until the test ends.
func Start(t testing.TB, target string) *Proxy {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 128}
	p := &Proxy{target: target, client: &http.Client{Transport: transport}, done: make(chan struct{}), seen: map[string]int{}}
	p.server = httptest.NewServer(p)
	p.URL = p.server.URL
	t.Cleanup(func() {
		close(p.done)
		p.server.CloseClientConnections()
		p.server.Close()
		transport.CloseIdleConnections()
	})
	return p
}

// Set replaces the rules. The first matching rule applies.
func (p *Proxy) Set(rules ...Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = nil
	for _, r := range rules {
		p.rules = append(p.rules, &r)
	}
}

// Watch calls w for every request from now on; nil stops that.
func (p *Proxy) Watch(w Watcher) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watch = w
}

// Cut closes all client connections, as when a process was frozen. New
// connections are accepted.
func (p *Proxy) Cut() { p.server.CloseClientConnections() }

// Seen returns the number of requests of an operation so far, whatever happened
// to them.
func (p *Proxy) Seen(operation string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[operation]
}

// Release forwards the late requests in their original order and returns the
// server's statuses.
func (p *Proxy) Release() ([]int, error) {
	p.mu.Lock()
	late := p.late
	p.late = nil
	p.mu.Unlock()
	var statuses []int
	for _, r := range late {
		a, err := p.forward(r)
		if err != nil {
			return statuses, err
		}
		statuses = append(statuses, a.status)
	}
	return statuses, nil
}

// goesOn calls the watcher and reports whether the request continues.
func (p *Proxy) goesOn(r request, carriedOut bool) bool {
	p.mu.Lock()
	w := p.watch
	p.mu.Unlock()
	return w == nil || w(r.operation(), r.body, carriedOut)
}

// decide returns the fault of a request for an operation.
func (p *Proxy) decide(operation string) (Fault, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[operation]++
	fault, wait := Pass, time.Duration(0)
	for _, r := range p.rules {
		if r.Operation != "" && r.Operation != operation {
			continue
		}
		r.seen++
		if fault == Pass && (r.Nth == 0 || r.Nth == r.seen) {
			fault, wait = r.Fault, r.For
		}
	}
	return fault, wait
}

// request is a stored request, which may be sent more than once.
type request struct {
	header http.Header
	body   []byte
}

// operation is the part of the target header after the service's version.
func (r request) operation() string {
	_, operation, _ := strings.Cut(r.header.Get("X-Amz-Target"), ".")
	return operation
}

// ServeHTTP forwards a request or applies its fault.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, in *http.Request) {
	// The body is read completely, because only then does the server notice a
	// disconnected client.
	body, err := io.ReadAll(in.Body)
	if err != nil {
		return
	}
	r := request{header: in.Header.Clone(), body: body}
	if !p.goesOn(r, false) {
		panic(http.ErrAbortHandler) // the documented way to break a connection
	}
	fault, wait := p.decide(r.operation())
	switch fault {
	case Drop:
		panic(http.ErrAbortHandler)
	case Throttle, Exceed, Conflict, Internal:
		refuse(fault, r).write(w)
		return
	case Late:
		p.mu.Lock()
		p.late = append(p.late, r)
		p.mu.Unlock()
		refuse(Internal, r).write(w)
		return
	case Hang:
		p.hang(in)
	case Delay:
		select {
		case <-time.After(wait):
		case <-p.done:
		}
	}
	a, err := p.forward(r)
	if err != nil {
		panic(http.ErrAbortHandler) // the server is gone
	}
	if !p.goesOn(r, true) {
		panic(http.ErrAbortHandler)
	}
	switch fault {
	case DropAnswer:
		panic(http.ErrAbortHandler)
	case FailAfter:
		a = refuse(Internal, r)
	case HangAfter:
		p.hang(in)
	case Twice, TwiceLater:
		if fault == TwiceLater {
			r.body = withoutToken(r.body)
		}
		if a, err = p.forward(r); err != nil {
			panic(http.ErrAbortHandler)
		}
	}
	a.write(w)
}

// hang waits until the client or the test gives up, and never returns.
func (p *Proxy) hang(in *http.Request) {
	select {
	case <-in.Context().Done():
	case <-p.done:
	}
	panic(http.ErrAbortHandler)
}

// forward sends a request and reads its answer. It does not use the client's
// context: a sent request may arrive although its client has disconnected.
func (p *Proxy) forward(r request) (answer, error) {
	out, err := http.NewRequest(http.MethodPost, p.target, bytes.NewReader(r.body))
	if err != nil {
		return answer{}, err
	}
	out.Header = r.header.Clone()
	resp, err := p.client.Do(out)
	if err != nil {
		return answer{}, err
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return answer{}, fmt.Errorf("reading the server's answer: %w", err)
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: body}, nil
}
