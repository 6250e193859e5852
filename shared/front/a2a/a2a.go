// Package a2a serves vacants to A2A clients: JSON-RPC in versions 1.0 and 0.3, the HTTP+JSON
// binding of 1.0, and the agent card. It translates between A2A and package host/a2a/task.
//
// Clients cannot find out which closed children exist. (Only its parent may call a closed child.)
// At any one path, a closed child, an unknown vacant and an unknown route get the same answer, byte
// for byte. Only the owner of a task can find the task.
package a2a

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/front/plain"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/push"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type Config struct {
	*plain.Service
	WithSigner func(ctx context.Context, id identity.ID, fn func(identity.Signer) error) error
	Callers    caller.Verifier
	// If Push is nil, the host does not support push notifications.
	Push *push.Pusher
	// SignedCalls serves POST / if the body is a signed call in the host's own form.
	SignedCalls http.Handler
	// MaxSubscription limits the duration of a subscription to the events of a task. Zero means 120 s.
	MaxSubscription time.Duration
}

// Server serves all requests of A2A clients. It is safe for concurrent use.
type Server struct{ *api }

func New(c Config) Server {
	if c.MaxSubscription == 0 {
		c.MaxSubscription = 120 * time.Second
	}
	return Server{&api{Config: c, cards: &cardCache{pages: map[cardKey]*publicPage{}}}}
}

func (s Server) Card(ctx context.Context, v *vacants.Record, base string) ([]byte, error) {
	c, err := s.cards.cardFor(ctx, s.api, v, base, unionCard)
	if err != nil {
		return nil, err
	}
	return c.body, nil
}

type api struct {
	Config
	cards *cardCache
}

type request struct {
	*plain.Exchange

	op             a2awire.Operation
	dialect        a2awire.Dialect
	isUnwrapped    bool // results and stream frames have no JSON-RPC wrapper
	rpcID          []byte
	isNotification bool
	hasExtension   bool // the client lists a2awire.Extension in a header
	body           []byte
}

func (r *request) setOperation(op a2awire.Operation, name string) {
	r.op, r.Line.Operation, r.Line.IsCall = op, name, op == a2awire.Send || op == a2awire.Stream
}

func (s Server) Handle(x *plain.Exchange) (err error) {
	a, r := s.api, &request{Exchange: x}
	defer func() {
		var f *fault
		if errors.As(err, &f) {
			a.writeFault(r, f)
			err = nil
		}
	}()
	if r.URL.Path == "/" {
		if r.Method != http.MethodPost {
			return problem.New(problem.NotFound, "this is a host of agents, which have no page: GET /v/NAME/ shows the card of the agent NAME, POST /v/NAME/text sends it a text; GET /v1/search?q=WORDS finds agents, GET /v1/openapi.json describes all operations")
		}
		isSignedCall, err := a.isSignedCall(r)
		if err != nil {
			return err
		}
		if isSignedCall {
			r.HandOver(a.SignedCalls)
			return nil
		}
	}
	route, isREST := parseRESTRoute(r.SubPath)
	isRPC := r.SubPath == "" && r.Method == http.MethodPost
	if isREST || isRPC {
		r.HasTasks, r.Refuse = true, r.writeRefusal
	}
	if err := r.OpenByPath(); err != nil {
		return err
	}
	isGet := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch r.SubPath {
	case "", cardPath, "/.well-known/agent.json":
		switch {
		case isRPC:
			return a.serveRPC(r)
		case isGet:
			return a.serveCard(r)
		case r.SubPath == "":
			return r.MethodError("GET, POST")
		}
		return r.MethodError("GET")
	case keySetPath, "/jwks.json":
		if !isGet {
			return r.MethodError("GET")
		}
		return a.serveKeySet(r)
	}
	if !isREST {
		return plain.NotFoundError()
	}
	return a.serveREST(r, route)
}

const (
	cardPath   = "/.well-known/agent-card.json"
	keySetPath = "/.well-known/jwks.json"
)

func (r *request) recordExtension() {
	for _, header := range []string{"A2A-Extensions", "X-A2A-Extensions"} {
		for _, value := range r.Request.Header.Values(header) {
			for uri := range strings.SplitSeq(value, ",") {
				if strings.TrimSpace(uri) == a2awire.Extension && !r.hasExtension {
					r.hasExtension = true
					r.ResponseWriter.Header().Set(header, a2awire.Extension)
				}
			}
		}
	}
}

const (
	version1  = "1.0"
	version03 = "0.3"
)

func (r *request) requestedVersion() string {
	return strings.TrimSpace(cmp.Or(strings.TrimSpace(r.Request.Header.Get("A2A-Version")), r.URL.Query().Get("A2A-Version")))
}

func (r *request) supportedVersion() (string, error) {
	v := r.requestedVersion()
	parts := strings.SplitN(v, ".", 3)
	if v == "" {
		return "", nil
	}
	if len(parts) >= 2 {
		if majorMinor := parts[0] + "." + parts[1]; majorMinor == version1 || majorMinor == version03 {
			return majorMinor, nil
		}
	}
	return "", &fault{kind: versionNotSupported, message: fmt.Sprintf("A2A-Version: expected %s or %s, got %.20q", version1, version03, v)}
}
