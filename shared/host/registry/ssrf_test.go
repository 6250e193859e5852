package registry_test

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"

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

// A stranger chooses the endpoint that the probe dials. A private address in any spelling must not
// be dialled or listed.
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
		"https://no-such-name.example/":  "no public address was found",
		"https://127.1/":                 "no public address was found",
		"https://2130706433/":            "no public address was found",
		"https://0x7f.0.0.1/":            "no public address was found",
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
	r, refused := open(inner, newClock()), 0
	probe := registry.NewProbe(outbound.New(outbound.Options{Resolver: known}))
	for endpoint, reason := range endpoints {
		_, err := r.Publish(t.Context(), publication(t, key(1), draft{Endpoint: endpoint}))
		if err != nil { // an address in the URL itself
			refused++
		} else {
			inner, r = memory.New(), open(inner, newClock())
			err = probe(t.Context(), endpoint)
			if reached, failed := r.ProbeEndpoints(t.Context(), probe); reached.Unanswered != 1 || reached.Listed > 0 || failed != nil {
				t.Errorf("ProbeEndpoints() of %s = %+v, %v; want one silent", endpoint, reached, failed)
			}
			r = open(inner, newClock())
		}
		if err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v, want a refusal that says %q", endpoint, err, reason)
		}
	}
	if refused == 0 || refused == len(endpoints) {
		t.Errorf("%d of %d endpoints are refused when they are published, want those with an address", refused, len(endpoints))
	}
	if diff := cmp.Diff(map[string]string{}, everything(t, inner)); diff != "" {
		t.Errorf("a refused endpoint left (-want +got):\n%s", diff)
	}
}

// A name may have any address when it is registered. Only the address at the time of dialling
// matters.
func TestANameThatMovesInsideIsNotDialled(t *testing.T) {
	known := names{"moves.example": {netip.MustParseAddr("2606:4700::1")}}
	r := open(memory.New(), newClock())
	must(t, errorOf(r.Publish(t.Context(), publication(t, key(1), draft{Endpoint: "https://moves.example/"}))))
	known["moves.example"] = []netip.Addr{netip.MustParseAddr("169.254.169.254")}
	reached, err := r.ProbeEndpoints(t.Context(), registry.NewProbe(outbound.New(outbound.Options{Resolver: known})))
	if reached.Unanswered != 1 || err != nil {
		t.Errorf("ProbeEndpoints() = %+v, %v; want it silent", reached, err)
	}
	if g := get(t, r, key(1).ID()); g.IsListed() {
		t.Error("the vacant is listed")
	}
}

// A closed child must not make the host dial an address of its choice, which would reveal the
// child's existence to the owner of the address.
func TestEndpointsOfClosedChildrenAreNotProbed(t *testing.T) {
	var probed []string
	r := open(memory.New(), newClock())
	child, grown := key(2), key(3)
	// An endpoint to probe belongs to a child that is closed before the probe.
	must(t, errorOf(r.Publish(t.Context(), publication(t, grown, draft{}))))
	must(t, registrytest.AddManifest(t.Context(), r, manifest(t, key(1), grown, true)))
	must(t, registrytest.AddManifest(t.Context(), r, manifest(t, key(1), child, true)))
	told := draft{Endpoint: "https://stranger.example/?told=all", Visibility: lifecycle.Public}
	if _, err := r.Publish(t.Context(), publication(t, child, told)); !problem.Is(err, problem.Forbidden) {
		t.Errorf("Publish() as %s = %v, want forbidden", told.Visibility, err)
	}
	told.Visibility = lifecycle.Hidden
	if _, err := r.Publish(t.Context(), publication(t, child, told)); err != nil {
		t.Errorf("Publish() as %s = %v, want nil", told.Visibility, err)
	}
	if _, err := r.ProbeEndpoints(t.Context(), func(_ context.Context, endpoint string) error {
		probed = append(probed, endpoint)
		return nil
	}); err != nil || probed != nil {
		t.Errorf("ProbeEndpoints() = %v and probed %v, want none", err, probed)
	}
}
