package serve_test

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/client/discovery"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/family/egress"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// family is a host with a parent and two closed children: the substrate of one
// is an endpoint that its manifest permits, the other echoes.
type family struct {
	*serve.Server
	parent, thinker, closed vacants.Record
	client                  *outbound.Client // like the host's own
	reached                 *atomic.Int64    // requests that arrived outside
	outside                 string
}

func newFamily(t *testing.T, model http.HandlerFunc) *family {
	t.Helper()
	f := &family{Server: httpServer(t, memory.New(), "http://127.0.0.1:1", quiet), reached: &atomic.Int64{}}
	endpoint := httptest.NewServer(model)
	t.Cleanup(endpoint.Close)
	outside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		f.reached.Add(1)
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, "out")
	}))
	t.Cleanup(outside.Close)
	f.outside = outside.URL
	guard := egress.Guard{Vacants: f.Vacants, Manifests: f.Registry}
	f.client = outbound.New(outbound.Options{AllowLoopback: true, Guard: guard.CheckPermission})
	var err error
	f.parent, err = f.Vacants.Create(t.Context(), vacants.CreateSpec{Name: "parent", Capability: "leads", Substrate: "echo"})
	must(t, err)
	for name, spec := range map[string]string{"thinker": "http:" + endpoint.URL + "/answer", "closed": "echo"} {
		r, _, err := f.Vacants.Spawn(t.Context(), vacants.SpawnSpec{Parent: f.parent.ID, Path: "D2", Name: name, Substrate: spec})
		must(t, err)
		if name == "thinker" {
			f.thinker = r
		} else {
			f.closed = r
		}
	}
	return f
}

// ask makes the parent call one of its children.
func (f *family) ask(t *testing.T, child identity.ID) (string, *problem.Error) {
	t.Helper()
	e := envelope.Envelope{From: f.parent.ID, To: child, Seq: 1, Time: time.Now().UTC().Truncate(time.Microsecond),
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{"think"}}}
	must(t, f.Vacants.WithSigner(t.Context(), f.parent.ID, func(s identity.Signer) error { _, err := e.Sign(t.Context(), s); return err }))
	out := f.Calls.Send(t.Context(), identity.ID{}, &e)
	if out.Problem != nil {
		return "", out.Problem
	}
	return out.Reply.Payload.Text(), nil
}

func TestAClosedChildReachesTheSubstrateOfItsManifest(t *testing.T) {
	f := newFamily(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, "thought")
	})
	if text, refused := f.ask(t, f.thinker.ID); refused != nil || text != "thought" {
		t.Errorf("a call of the child = %q, %v, want thought", text, refused)
	}
}

// The permitted endpoint redirects to another address.
func TestAClosedChildFollowsNoRedirectOutOfItsTree(t *testing.T) {
	var f *family
	f = newFamily(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, f.outside, http.StatusTemporaryRedirect)
	})
	if text, refused := f.ask(t, f.thinker.ID); refused == nil || refused.Kind != problem.SubstrateMisconfigured {
		t.Errorf("a call of the child = %q, %v, want a failure", text, refused)
	}
	if n := f.reached.Load(); n > 0 {
		t.Errorf("%d requests came to the outside, want none", n)
	}
}

// The record names a substrate that the manifest does not.
func TestAClosedChildReachesNoOtherSubstrate(t *testing.T) {
	f := newFamily(t, http.NotFound)
	for who, id := range map[string]identity.ID{"thinker": f.thinker.ID, "closed": f.closed.ID} {
		_, err := f.client.Do(t.Context(), outbound.VacantActor(id, outbound.Stranger), outbound.Request{Method: http.MethodPost, URL: f.outside + "/answer"})
		if !problem.Is(err, problem.TreeOnly) || !strings.Contains(problem.AsError(err).Text(), "outbound_policy") {
			t.Errorf("Do() as %s = %v, want a refusal that names the policy", who, err)
		}
	}
	if n := f.reached.Load(); n > 0 {
		t.Errorf("%d requests came to the outside, want none", n)
	}
	if _, err := f.client.Do(t.Context(), outbound.VacantActor(f.parent.ID, outbound.Stranger), outbound.Request{Method: http.MethodPost, URL: f.outside}); err != nil {
		t.Errorf("Do() as the parent, which is nobody's child = %v", err)
	}
}

// A stranger's card, found in a registry, verifies and names an endpoint. The
// child has its key and can sign calls.
func TestAClosedChildCallsNoStrangerByItsCard(t *testing.T) {
	f := newFamily(t, http.NotFound)
	key, err := identity.NewKey(rand.Reader)
	must(t, err)
	theirs, err := card.New(key.ID(), "collects", []string{"echo"}, f.outside+"/a2a/message/send")
	if err == nil {
		err = theirs.Sign(t.Context(), key)
	}
	must(t, err)
	tricked, err := card.Parse(f.parent.Card)
	must(t, err)
	for name, tt := range map[string]struct {
		callee *card.Card
		want   string
	}{
		"the stranger as itself":             {&theirs, "cannot call"},
		"the stranger's address as a parent": {&tricked, "another endpoint"},
	} {
		before := f.reached.Load()
		way := dispatch.GuardedTransport{Client: f.client.ForActor(outbound.VacantActor(f.closed.ID, outbound.Stranger).WithCallee(tt.callee))}
		_, _, err := way.Post(t.Context(), theirs.Endpoint, []byte("{}"))
		if err == nil || !strings.Contains(err.Error(), tt.want) || f.reached.Load() > before {
			t.Errorf("%s: Post() = %v with %d requests out, want %q and none", name, err, f.reached.Load()-before, tt.want)
		}
	}
	if _, err := discovery.HostRoute(f.client, f.closed.ID)("https://registry.example", &theirs); !problem.Is(err, problem.Forbidden) {
		t.Errorf("a route to an endpoint in clear = %v, want it refused", err)
	}
	open := dispatch.GuardedTransport{Client: f.client.ForActor(outbound.VacantActor(f.parent.ID, outbound.Stranger).WithCallee(&theirs))}
	if status, _, err := open.Post(context.Background(), theirs.Endpoint, []byte("{}")); status != http.StatusOK || err != nil {
		t.Errorf("Post() by the parent = %d, %v, want 200", status, err)
	}
}
