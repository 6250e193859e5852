//go:build unix

package kills

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/call/calltest"
	"github.com/vacancy-host/vacancy/shared/store"
)

// victimConfig turns this test binary into a `vacancy dev`. Its clock stands
// still, so that what it caches for a second is the same on every machine.
const victimConfig = "VACANCY_TEST_VICTIM"

type config struct {
	Args []string
	Now  time.Time
	Kill *place
}

// place is where a process dies: before or after a store call or a write to a
// socket. The second of equal calls within a request is "… 2".
type place struct {
	Call  string
	After bool
}

func (p place) String() string {
	if p.After {
		return "after " + p.Call
	}
	return "before " + p.Call
}

// order is sent by the test to a running victim, one JSON object a line on its
// standard input. The victim confirms each by an object on file descriptor 3:
// the calls since the order before.
type order struct {
	Kill    *place
	Advance time.Duration
	Await   string // the call that ends before the victim confirms
}

// steps records calls in order and says when one is the place to die at. Safe
// for concurrent use.
type steps struct {
	mu    sync.Mutex
	kill  *place
	count map[string]int
	trace []string
	ended map[string]chan bool // closed when the call has ended
}

// restart begins to count again and returns what was recorded.
func (s *steps) restart(kill *place) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.trace
	s.kill, s.count, s.trace, s.ended = kill, map[string]int{}, nil, map[string]chan bool{}
	return t
}

// end returns a channel that is closed when a call has ended. s.mu is held.
func (s *steps) end(name string) chan bool {
	if s.ended == nil {
		s.ended = map[string]chan bool{}
	}
	if s.ended[name] == nil {
		s.ended[name] = make(chan bool)
	}
	return s.ended[name]
}

// await returns when a call has ended.
func (s *steps) await(name string) {
	s.mu.Lock()
	end := s.end(name)
	s.mu.Unlock()
	<-end
}

// before records a call; name includes its number among equal ones.
func (s *steps) before(call string) (name string, die bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == nil {
		s.count = map[string]int{}
	}
	name = call
	if s.count[call]++; s.count[call] > 1 {
		name = fmt.Sprintf("%s %d", call, s.count[call])
	}
	s.trace = append(s.trace, name)
	return name, s.kill != nil && *s.kill == place{Call: name}
}

func (s *steps) after(name string) (die bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := s.end(name)
	select {
	case <-end: // a call of before the restart had this name
	default:
		close(end)
	}
	return s.kill != nil && *s.kill == place{Call: name, After: true}
}

// victim is the process that dies.
type victim struct {
	steps
	mu  sync.Mutex
	now time.Time
}

// runVictim is main of the process.
func runVictim(encoded string) int {
	var c config
	if err := json.Unmarshal([]byte(encoded), &c); err != nil {
		panic(err)
	}
	v := &victim{now: c.Now}
	v.restart(c.Kill)
	go v.obey(json.NewDecoder(os.Stdin), json.NewEncoder(os.NewFile(3, "confirmations")))
	return cli.Run(
		context.Background(), cli.Seams{StoreWrapper: v.store, BlobsWrapper: v.blobs, EndpointWrapper: v.interceptEndpoint, Now: v.clock}, c.Args, strings.NewReader(""), os.Stdout, os.Stderr, os.Environ())
}

// obey takes orders until the test closes them or ends; then the process ends
// too.
func (v *victim) obey(orders *json.Decoder, done *json.Encoder) {
	for {
		var o order
		if orders.Decode(&o) != nil {
			die()
		}
		v.mu.Lock()
		v.now = v.now.Add(o.Advance)
		v.mu.Unlock()
		if o.Await != "" {
			v.await(o.Await)
		}
		if done.Encode(v.restart(o.Kill)) != nil {
			die()
		}
	}
}

func (v *victim) clock() time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.now
}

// die sends kill -9 to itself. It does not return: what comes after the place
// must not happen.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func (v *victim) step(call string, do func() error) error {
	name, now := v.before(call)
	if now {
		die()
	}
	err := do()
	if v.after(name) {
		die()
	}
	return err
}

func (v *victim) store(inner store.Store) store.Store {
	return &calltest.Intercept{Store: inner, Handle: func(ctx context.Context, op calltest.Op, do func(context.Context) error) error {
		return v.step(op.Name, func() error { return do(ctx) })
	}}
}

func (v *victim) interceptEndpoint(d serve.Endpoint) serve.Endpoint {
	d.Listener = listener{d.Listener, v}
	return d
}

// listener returns connections whose writes are steps.
type listener struct {
	net.Listener
	v *victim
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return conn{c, l.v}, nil
}

type conn struct {
	net.Conn
	v *victim
}

func (c conn) Write(b []byte) (n int, err error) {
	err = c.v.step(write, func() (err error) {
		n, err = c.Conn.Write(b)
		return err
	})
	return n, err
}

// write is the step of a write to a socket.
const write = "Write"
