package outbound

import (
	"net/netip"
	"strings"
	"testing"
)

func TestAddressesInsideTheNetworkAreRefused(t *testing.T) {
	for _, c := range []struct{ addr, reason string }{
		{"0.0.0.0", "unspecified"},
		{"0.1.2.3", "unspecified"},
		{"10.0.0.1", "private"},
		{"10.255.255.255", "private"},
		{"100.64.0.1", "carrier-grade NAT"},
		{"100.127.255.255", "carrier-grade NAT"},
		{"100.100.100.200", "metadata"},
		{"127.0.0.1", "loopback"},
		{"127.255.255.254", "loopback"},
		{"168.63.129.16", "metadata"},
		{"169.254.169.254", "metadata"},
		{"169.254.170.2", "link-local"},
		{"169.254.0.1", "link-local"},
		{"172.16.0.1", "private"},
		{"172.31.255.255", "private"},
		{"192.0.0.192", "protocol assignments"},
		{"192.0.2.1", "documentation"},
		{"192.88.99.1", "6to4"},
		{"192.168.1.1", "private"},
		{"198.18.0.1", "benchmarking"},
		{"198.19.255.255", "benchmarking"},
		{"198.51.100.1", "documentation"},
		{"203.0.113.1", "documentation"},
		{"224.0.0.1", "multicast"},
		{"239.255.255.255", "multicast"},
		{"240.0.0.1", "reserved"},
		{"255.255.255.255", "broadcast"},
		{"::", "unspecified"},
		{"::1", "loopback"},
		{"::7f00:1", "v4-compatible"},
		{"::ffff:127.0.0.1", "v4-mapped"},
		{"::ffff:8.8.8.8", "v4-mapped"},
		{"::ffff:0:127.0.0.1", "v4-translated"},
		{"64:ff9b::7f00:1", "NAT64"},
		{"64:ff9b::169.254.169.254", "NAT64"},
		{"64:ff9b:1::7f00:1", "local NAT64"},
		{"100::1", "discard"},
		{"2001::1", "Teredo"},
		{"2001:2::1", "protocol assignments"},
		{"2001:20::1", "protocol assignments"},
		{"2001:db8::1", "documentation"},
		{"2002:7f00:1::", "6to4"},
		{"3fff::1", "documentation"},
		{"5f00::1", "segment routing"},
		{"fc00::1", "unique local"},
		{"fd00:ec2::254", "metadata"},
		{"fd20:ce::254", "metadata"},
		{"fdff::1", "unique local"},
		{"fe80::1", "link-local"},
		{"fe80::1%eth0", "interface"},
		{"2606:4700::1111%lo", "interface"},
		{"fec0::1", "site-local"},
		{"ff02::1", "multicast"},
		{"200::1", "not global unicast"},
		{"4000::1", "not global unicast"},
		{"9000::1", "not global unicast"},
	} {
		got := refusalReason(netip.MustParseAddr(c.addr), nil)
		if !strings.Contains(got, c.reason) {
			t.Errorf("check(%s) = %q, want a reason with %q", c.addr, got, c.reason)
		}
	}
	if got := refusalReason(netip.Addr{}, map[string]bool{loopbackReason: true, privateReason: true}); got == "" {
		t.Error("check(no address) = allowed, want refused")
	}
}

func TestPublicAddressesAreAllowed(t *testing.T) {
	for _, a := range []string{
		"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
		"169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.167.255.255", "192.169.0.0",
		"198.17.255.255", "198.20.0.0", "223.255.255.255", "2001:200::1", "2001:4860:4860::8888", "2606:4700::1111", "2a00:1450::1", "3ffe::1",
	} {
		if got := refusalReason(netip.MustParseAddr(a), nil); got != "" {
			t.Errorf("check(%s) = %q, want allowed", a, got)
		}
	}
}

func TestAllowLoopbackOpensLoopbackAlone(t *testing.T) {
	for _, a := range []string{"127.0.0.1", "127.9.9.9", "::1"} {
		if got := refusalReason(netip.MustParseAddr(a), map[string]bool{loopbackReason: true}); got != "" {
			t.Errorf("check(%s, loopback allowed) = %q, want allowed", a, got)
		}
	}
	for _, a := range []string{"0.0.0.0", "::", "10.0.0.1", "169.254.169.254", "::ffff:127.0.0.1", "::7f00:1", "64:ff9b::7f00:1", "fe80::1", "::1%lo"} {
		if got := refusalReason(netip.MustParseAddr(a), map[string]bool{loopbackReason: true}); got == "" {
			t.Errorf("check(%s, loopback allowed) = allowed, want refused", a)
		}
	}
}

// An actor with WithPrivateAddresses reaches private addresses but no metadata service.
func TestInPrivateOpensPrivateAddressesAlone(t *testing.T) {
	private := map[string]bool{privateReason: true}
	for _, a := range []string{"10.0.0.1", "172.16.0.1", "192.168.1.1", "fd00::1", "8.8.8.8"} {
		if got := refusalReason(netip.MustParseAddr(a), private); got != "" {
			t.Errorf("check(%s, private allowed) = %q, want allowed", a, got)
		}
	}
	for _, a := range []string{"127.0.0.1", "::1", "169.254.169.254", "100.100.100.200", "168.63.129.16", "fd00:ec2::254", "fd20:ce::254", "fe80::1", "::ffff:10.0.0.1", "100.64.0.1", "0.0.0.0"} {
		if got := refusalReason(netip.MustParseAddr(a), private); got == "" {
			t.Errorf("check(%s, private allowed) = allowed, want refused", a)
		}
	}
}

// The table is compared with net/netip, and every v6 spelling of a v4 address with the v4 address.
func FuzzCheck(f *testing.F) {
	for _, s := range refusedRanges {
		f.Add(s.prefix.Addr().AsSlice())
	}
	f.Add([]byte{8, 8, 8, 8})
	f.Fuzz(func(t *testing.T, b []byte) {
		a, ok := netip.AddrFromSlice(b)
		if !ok {
			return
		}
		if refusalReason(a, nil) == "" {
			if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() || a.Is4In6() {
				t.Errorf("check(%s) = allowed, want refused", a)
			}
			if a.Is6() && !netip.MustParsePrefix("2000::/3").Contains(a) {
				t.Errorf("check(%s) = allowed outside 2000::/3", a)
			}
		}
		if refusalReason(a, map[string]bool{loopbackReason: true}) == "" && refusalReason(a, nil) != "" && !a.IsLoopback() {
			t.Errorf("check(%s): AllowLoopback opened what is not loopback", a)
		}
		if !a.Is4() {
			return
		}
		v4 := a.As4()
		for _, prefix := range [][]byte{
			{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
			{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff},
			{0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0},
			{0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0},
			{0x20, 0x02, v4[0], v4[1], v4[2], v4[3], 0, 0, 0, 0, 0, 0},
		} {
			six := netip.AddrFrom16([16]byte(append(prefix, v4[:]...)))
			if refusalReason(six, map[string]bool{loopbackReason: true}) == "" && six != netip.IPv6Loopback() {
				t.Errorf("check(%s) = allowed, but it is %s in v6", six, a)
			}
		}
	})
}
