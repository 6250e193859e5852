// Package agent hosts and calls vacants from Go programs: Serve is a host with one
// vacant that a function answers for, Dial calls a vacant.
//
// Stable are the names and signatures of this package; a field may be added to a
// struct. What it keeps on disk is the data directory of `vacancy serve`, which
// reads it, and identities of `vacancy init`. Packages below are the project's own
// and may change.
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
	Text    string // the message
	Caller  string // the caller's id, 64 hex digits, proved by a signature
	Context string // the caller's thread; "" if it named none
}

// Agent is a vacant and the function that answers for it. Name is a part of its
// address: 1 to 64 of A-Z a-z 0-9 . _ -. Answer runs at once for several callers,
// and for each caller in order; its context ends after 25 s. A text has at most 300
// KB. An error is logged, and the caller is told only that the vacant failed.
type Agent struct {
	Name       string
	Capability string // what it can do, for its card and for search
	Answer     func(ctx context.Context, c Call) (string, error)
}

// Options configure Serve. Data is required.
type Options struct {
	Data   string // the data directory, created with mode 0700
	Listen string // address and port; "" is 127.0.0.1:8080
	// PublicURL is the URL in cards and links, https unless it names this machine; ""
	// is http:// and the address of Listen, which must be on loopback then.
	PublicURL string
	Log       *slog.Logger // nil means slog.Default()
	// Ready, if set, is called with the vacant's URL, which ends with a slash, once it answers.
	Ready func(url string)
}

// kind is the substrate of the agent's vacant.
const kind = "agent"

// Serve hosts the agent until ctx ends, with a registry, search and a limit for each
// address. The vacant lives in the data directory: its key, its history and its
// place in the registry are there again after a restart. It is published when it is
// made; a capability that changed is published, too. One process at a time serves a
// data directory.
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
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return problem.Wrap(problem.Unavailable, err, "it cannot listen at %s: %v", o.Listen, err)
	}
	defer l.Close()
	base, err := baseOf(l.Addr(), o.PublicURL)
	if err != nil {
		return err
	}
	host, err := standalone.Open(standalone.Config{
		Dir: o.Data, URL: base.String(), AllowLoopback: outbound.IsThisMachine(base.Hostname()), Log: o.Log, Now: time.Now, Rand: rand.Reader,
		Substrates: substrate.Kinds{kind: func(string) (substrate.Substrate, error) { return answers(a.Answer), nil }},
	})
	if err != nil {
		return err
	}
	defer host.Close()
	guard := func(next http.Handler) http.Handler {
		return standalone.Guard(base, standalone.Limits(setting.Defaults().Host, time.Now), nil, next)
	}
	return host.Run(ctx, standalone.Running{Public: l, Wrap: guard}, func(ctx context.Context) error {
		v, err := keep(ctx, host.Vacants, a)
		if err == nil && o.Ready != nil {
			o.Ready(base.String() + "/v/" + v.Name + "/")
		}
		return err
	})
}

// baseOf is the base URL of a host that listens at an address.
func baseOf(at net.Addr, public string) (*url.URL, error) {
	if public == "" {
		if tcp, ok := at.(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
			return nil, problem.Invalid("PublicURL", "the URL at which others reach "+at.String(), "none")
		}
		public = "http://" + at.String()
	}
	base, ok := standalone.ParseBase(public)
	if !ok {
		return nil, problem.Invalid("PublicURL", "https://HOST without path", fmt.Sprintf("%.200q", public))
	}
	return base, nil
}

// keep makes the agent's vacant, or brings it up to date.
func keep(ctx context.Context, v *vacants.Directory, a Agent) (vacants.Record, error) {
	r, err := v.ByName(ctx, vacants.Operator(), a.Name)
	made := problem.Is(err, problem.NotFound) || err == nil && r.IsDeleted()
	switch {
	case made:
		r, err = v.Create(ctx, vacants.Spec{Name: a.Name, Capability: a.Capability, Substrate: kind})
	case err == nil:
		substrate := kind
		r, err = v.Update(ctx, r.ID, vacants.Changes{Capability: &a.Capability, Substrate: &substrate})
	}
	if err == nil && made {
		r, _, err = v.Publish(ctx, r.ID, vacants.PublishOptions{})
	}
	return r, err
}

// answers is a function as a substrate.
func answers(answer func(context.Context, Call) (string, error)) substrate.Func {
	return func(ctx context.Context, r substrate.Request) (string, error) {
		c := Call{Text: r.Text(), Caller: r.Caller.String()}
		if r.ContextID != nil {
			c.Context = *r.ContextID
		}
		return answer(ctx, c)
	}
}
