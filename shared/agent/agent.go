// Package agent hosts and calls vacants from Go programs. Serve runs a host with one vacant whose
// answers come from a function, and Dial connects to a vacant.
//
// The names and signatures of this package are stable, but structs may get more fields. The data on
// disk is compatible with the command: `vacancy serve` reads the data directory, and `vacancy init`
// creates the same kind of identities. The packages below agent are internal to the project and may
// change.
package agent

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Call is one call of a vacant.
type Call struct {
	Text    string // message
	Caller  string // caller's id, 64 hex digits, proved by a signature
	Context string // id of the caller's conversation; may be empty
}

// Agent is a vacant and the function that answers its calls. Name is part of the vacant's address:
// 1 to 64 of the characters A-Z a-z 0-9 . _ -. Answer runs concurrently for different callers, and
// in order for each caller. Its context ends after 25 s. A message or answer has at most 300 KB. If
// Answer returns an error, Serve logs it, and the caller only learns that the vacant failed.
type Agent struct {
	Name       string
	Capability string // description for the vacant's card and for search
	Answer     func(ctx context.Context, c Call) (string, error)
}

// Options configures Serve. Data is required.
type Options struct {
	Data   string // data directory, created with mode 0700
	Listen string // address and port; defaults to 127.0.0.1:8080
	// PublicURL is the base URL in cards and links. It must be https unless it names this machine.
	// It defaults to http:// and the address of Listen, which must then be on loopback.
	PublicURL string
	Log       *slog.Logger // defaults to slog.Default()
	// Ready, if set, is called when the vacant can be called. url is the vacant's URL, and ends
	// with a slash.
	Ready func(url string)
}

// substrateKind is the name of the vacant's substrate, the part of a host that answers its calls.
const substrateKind = "agent"

// Serve hosts the agent until ctx ends, with a registry, search and a rate limit for each address.
// The vacant's key, history and registry entry are in the data directory and survive a restart.
// Serve publishes the vacant when it creates it and when its capability has changed. Only one
// process at a time can serve a data directory.
func Serve(ctx context.Context, a Agent, o Options) error {
	if a.Answer == nil {
		return problem.Invalid("Answer", "a function", "none")
	}
	if o.Data == "" {
		return problem.Invalid("Data", "a data directory", "none")
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Listen == "" {
		o.Listen = "127.0.0.1:8080"
	}
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return problem.Wrap(problem.Unavailable, err, "cannot listen at %s: %v", o.Listen, err)
	}
	defer listener.Close()
	base, err := baseURL(listener.Addr(), o.PublicURL)
	if err != nil {
		return err
	}
	host, err := standalone.Open(standalone.Config{
		Dir: o.Data, URL: base.String(), AllowLoopback: outbound.IsThisMachine(base.Hostname()), Log: o.Log, Now: time.Now, Rand: rand.Reader,
		Substrates: substrate.Kinds{substrateKind: func(string) (substrate.Substrate, error) { return newSubstrate(a.Answer), nil }},
	})
	if err != nil {
		return err
	}
	defer host.Close()
	wrapHandler := func(next http.Handler) http.Handler {
		return standalone.Guard(base, standalone.EdgeLimits(setting.Defaults().Host, time.Now), nil, next)
	}
	return host.Run(ctx, standalone.RunConfig{Public: listener, WrapPublic: wrapHandler}, func(ctx context.Context) error {
		v, err := ensureVacant(ctx, host.Vacants, a)
		if err == nil && o.Ready != nil {
			o.Ready(base.String() + "/v/" + v.Name + "/")
		}
		return err
	})
}

func baseURL(addr net.Addr, public string) (*url.URL, error) {
	if public == "" {
		if tcp, ok := addr.(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
			return nil, problem.Invalid("PublicURL", "the URL at which others reach "+addr.String(), "none")
		}
		public = "http://" + addr.String()
	}
	base, ok := standalone.ParseBaseURL(public)
	if !ok {
		return nil, problem.Invalid("PublicURL", "https://HOST without path", fmt.Sprintf("%.200q", public))
	}
	return base, nil
}

func ensureVacant(ctx context.Context, directory *vacants.Directory, a Agent) (vacants.Record, error) {
	r, err := directory.GetByName(ctx, vacants.OperatorAsker(), a.Name)
	isNew := problem.Is(err, problem.NotFound) || err == nil && r.IsDeleted()
	switch {
	case isNew:
		r, err = directory.Create(ctx, vacants.CreateSpec{Name: a.Name, Capability: a.Capability, Substrate: substrateKind})
	case err == nil:
		substrate := substrateKind
		r, err = directory.Update(ctx, r.ID, vacants.Changes{Capability: &a.Capability, Substrate: &substrate})
	}
	if err == nil && isNew {
		r, _, err = directory.Publish(ctx, r.ID, vacants.PublishOptions{})
	}
	return r, err
}

func newSubstrate(answer func(context.Context, Call) (string, error)) substrate.Func {
	return func(ctx context.Context, r substrate.Request) (string, error) {
		c := Call{Text: r.Text(), Caller: r.Caller.String()}
		if r.ContextID != nil {
			c.Context = *r.ContextID
		}
		return answer(ctx, c)
	}
}
