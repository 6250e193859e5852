// Package faultproxy stands between a DynamoDB client and a server and does to
// chosen requests what networks and services do: lose them, lose their answers,
// delay, repeat, refuse or hang them, or carry them out long after the client
// has given up.
//
// The invariant: a fault is about the way of a request, never its content, so
// what the server then holds is what DynamoDB itself made of the requests that
// reached it.
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

// Fault is what is done to a request.
type Fault int

// The faults.
const (
	Pass       Fault = iota // forwarded and answered
	Drop                    // not forwarded; the connection breaks
	DropAnswer              // forwarded; the connection breaks before the answer
	FailAfter               // forwarded; the answer is InternalServerError
	Delay                   // forwarded after Rule.For
	Twice                   // forwarded twice; the second answer counts
	TwiceLater              // the same, the second time without its request token, as after ten minutes
	Throttle                // not forwarded; ThrottlingException
	Exceed                  // not forwarded; ProvisionedThroughputExceededException
	Conflict                // not forwarded; another transaction is at the item
	Internal                // not forwarded; InternalServerError
	Hang                    // not forwarded; no answer until the client gives up
	HangAfter               // forwarded; no answer until the client gives up
	Late                    // answered InternalServerError; forwarded by Release
)

var names = map[Fault]string{Pass: "pass", Drop: "drop", DropAnswer: "drop the answer", FailAfter: "fail after",
	Delay: "delay", Twice: "twice", TwiceLater: "twice, ten minutes later", Throttle: "throttle", Exceed: "exceed",
	Conflict: "conflict", Internal: "internal error", Hang: "hang", HangAfter: "hang after", Late: "late"}

func (f Fault) String() string { return names[f] }

// Faults lists them all but Pass.
func Faults() []Fault {
	var all []Fault
	for f := Drop; f <= Late; f++ {
		all = append(all, f)
	}
	return all
}

// Rule applies a fault to requests of an operation ("" to all): to the Nth
// after the rule was set, from 1 on, or with Nth 0 to every one.
type Rule struct {
	Operation string // DynamoDB's name, such as PutItem
	Nth       int
	Fault     Fault
	For       time.Duration // of a Delay

	seen int
}

// Watcher is told of each request twice: when it came, before rules or the
// server meet it, and when the server has carried it out, before its answer
// goes out. If it says false the connection breaks there. It may be called at
// the same time for several requests.
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

// Start runs a proxy on 127.0.0.1 before target until the test ends.
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

// Set replaces the rules. The first that fits a request applies.
func (p *Proxy) Set(rules ...Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = nil
	for _, r := range rules {
		p.rules = append(p.rules, &r)
	}
}

// Watch has w told of every request from now on; nil ends that.
func (p *Proxy) Watch(w Watcher) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watch = w
}

// Cut breaks all connections that clients hold, as time does to those of a
// frozen process. New ones are taken.
func (p *Proxy) Cut() { p.server.CloseClientConnections() }

// Seen is how many requests of an operation came so far, whatever became of
// them.
func (p *Proxy) Seen(operation string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[operation]
}

// Release forwards the late requests in the order in which they came and
// returns the server's statuses.
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

// goesOn tells the watcher of a request, and says whether it goes on.
func (p *Proxy) goesOn(r request, carriedOut bool) bool {
	p.mu.Lock()
	w := p.watch
	p.mu.Unlock()
	return w == nil || w(r.operation(), r.body, carriedOut)
}

// decide finds the fault for a request of an operation.
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

// request is one that came, kept whole: it may be sent more than once.
type request struct {
	header http.Header
	body   []byte
}

// operation is the part of the target header after the service's version.
func (r request) operation() string {
	_, operation, _ := strings.Cut(r.header.Get("X-Amz-Target"), ".")
	return operation
}

// ServeHTTP forwards a request, or does what the rules say.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, in *http.Request) {
	// Read whole: only then does the server watch for the client going away.
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
		panic(http.ErrAbortHandler) // the server is gone: so are we
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

// hang waits until the client, or the test, has had enough, and never returns.
func (p *Proxy) hang(in *http.Request) {
	select {
	case <-in.Context().Done():
	case <-p.done:
	}
	panic(http.ErrAbortHandler)
}

// forward sends a request on and reads its answer. It does not end with the
// client: what a client has sent may arrive however the client ended.
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
