package registry_test

import (
	"context"
	"crypto/rand"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/registrytest"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// names is a resolver with chosen answers.
type names map[string][]netip.Addr

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if found := n[host]; found != nil {
		return found, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// A stranger chooses the endpoint, and the probe dials it: no spelling of a
// private address may be dialled, and none is listed.
func TestInternalEndpointsAreRefused(t *testing.T) {
	known := names{}
	inside := map[string]string{
		"127.0.0.1": "loopback (RFC 1122", "10.1.2.3": "private (RFC 1918)", "172.16.0.1": "private (RFC 1918)", "192.168.1.1": "private (RFC 1918)",
		"169.254.169.254": "metadata service", "169.254.1.1": "link-local", "100.64.0.1": "shared address space", "0.0.0.0": "unspecified",
		"224.0.0.1": "multicast", "255.255.255.255": "broadcast",
		"::1": "loopback (RFC 4291", "fd00:ec2::254": "metadata service", "fe80::1": "link-local", "fc00::1": "unique local", "64:ff9b::7f00:1": "NAT64",
		"2002:7f00:1::": "6to4",
	}
	endpoints := map[string]string{
		"https://[::ffff:127.0.0.1]/":    "v4-mapped",
		"https://no-such-name.example/":  "a name without an address",
		"https://127.1/":                 "a name without an address",
		"https://2130706433/":            "a name without an address",
		"https://0x7f.0.0.1/":            "a name without an address",
		"https://both.example/":          "private (RFC 1918)",
		"https://169.254.169.254:8443/x": "metadata service",
	}
	known["both.example"] = []netip.Addr{netip.MustParseAddr("2606:4700::1"), netip.MustParseAddr("10.0.0.1")}
	for address, reason := range inside {
		a := netip.MustParseAddr(address)
		name := "n" + strings.NewReplacer(".", "-", ":", "-").Replace(address) + ".example"
		known[name] = []netip.Addr{a}
		endpoints["https://"+name+"/"] = reason
		endpoints["https://"+net.JoinHostPort(address, "443")+"/"] = reason
	}
	inner := memory.New()
	r := open(inner, newClock(), func(c *registry.Config) {
		c.Probe = registry.Prober(outbound.New(outbound.Options{Resolver: known}))
	})
	for endpoint, reason := range endpoints {
		_, err := r.Publish(t.Context(), publication(t, key(1), draft{Endpoint: endpoint}))
		if !problem.Is(err, problem.Malformed) || !strings.Contains(problem.Of(err).Text(), reason) {
			t.Errorf("Publish() of %s = %v, want a refusal that says %q", endpoint, err, reason)
		}
	}
	if diff := cmp.Diff(map[string]string{}, everything(t, inner)); diff != "" {
		t.Errorf("a refused endpoint left (-want +got):\n%s", diff)
	}
}

// A name may have any address when it is registered: the address at the time of
// dialling counts.
func TestANameThatMovesInsideIsNotDialled(t *testing.T) {
	known := names{"moves.example": {netip.MustParseAddr("2606:4700::1")}}
	r := open(memory.New(), newClock(), func(c *registry.Config) {
		c.Probe = registry.Prober(outbound.New(outbound.Options{Resolver: known}))
	})
	d := draft{Endpoint: "https://moves.example/", Visibility: lifecycle.Hidden}
	mustPublish(t, r, key(1), d)
	known["moves.example"] = []netip.Addr{netip.MustParseAddr("169.254.169.254")}
	d.Seq, d.Visibility = 2, lifecycle.Public
	if _, err := r.Publish(t.Context(), publication(t, key(1), d)); !problem.Is(err, problem.Malformed) || !strings.Contains(err.Error(), "metadata service") {
		t.Errorf("Publish() = %v, want a refusal", err)
	}
	if g := get(t, r, key(1).ID()); g.Visibility != lifecycle.Hidden {
		t.Errorf("the vacant is %s, want NONE", g.Visibility)
	}
}

// A closed child without permission must not make the host dial an address of
// its choice, which would tell the address's owner that it exists.
func TestEndpointsOfClosedChildrenAreNotProbed(t *testing.T) {
	probed := 0
	r := open(memory.New(), newClock(), func(c *registry.Config) {
		c.Probe = func(context.Context, string) error {
			probed++
			return nil
		}
	})
	child := key(2)
	if err := registrytest.AddManifest(t.Context(), r, manifest(t, key(1), child, true)); err != nil {
		t.Fatal(err)
	}
	told := draft{Endpoint: "https://stranger.example/?told=all", Visibility: lifecycle.Public}
	if _, err := r.Publish(t.Context(), publication(t, child, told)); !problem.Is(err, problem.Forbidden) {
		t.Errorf("Publish() as %s = %v, want forbidden", told.Visibility, err)
	}
	told.Visibility = lifecycle.Hidden
	if _, err := r.Publish(t.Context(), publication(t, child, told)); err != nil {
		t.Errorf("Publish() as %s = %v, want nil", told.Visibility, err)
	}
	if probed > 0 {
		t.Errorf("its endpoint was probed %d times, want never", probed)
	}
}

func TestEndpointsThatHangTakeLittleOfAProcess(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	made := 0
	probe := registry.FewProbes(func(context.Context, string) error { made++; return nil }, func() time.Time { return at })
	for range 20 {
		if err := probe(t.Context(), "https://slow.example"); err != nil && !problem.Is(err, problem.TooMany) {
			t.Errorf("after %d probes: %v, want TooMany", made, err)
		}
	}
	if made != 5 {
		t.Errorf("%d probes at once, want 5", made)
	}
	for _, tt := range []struct {
		after time.Duration
		want  int
	}{{9 * time.Second, 5}, {time.Second, 6}, {0, 6}, {time.Hour, 7}} {
		at = at.Add(tt.after)
		_ = probe(t.Context(), "https://slow.example")
		if made != tt.want {
			t.Errorf("%v later %d probes were made, want %d", tt.after, made, tt.want)
		}
	}
	// A publication that has to wait says for how long, and keeps nothing.
	inner := memory.New()
	busy := registry.New(registry.Config{Store: inner, Now: newClock().Now, Rand: rand.Reader,
		Probe: func(context.Context, string) error { return problem.New(problem.TooMany, "publish again in 3 s") }})
	if _, err := busy.Publish(t.Context(), publication(t, key(1), draft{Endpoint: "https://elsewhere.example/a2a"})); !problem.Is(err, problem.TooMany) {
		t.Errorf("Publish() = %v, want TooMany", err)
	}
	if _, ok, err := busy.Get(t.Context(), key(1).ID()); ok || err != nil {
		t.Errorf("Get() = %t, %v; want nothing kept", ok, err)
	}
}
