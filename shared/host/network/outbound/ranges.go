package outbound

import "net/netip"

type addressRange struct {
	prefix netip.Prefix
	reason string
	source string
}

const (
	loopbackReason = "loopback"
	privateReason  = "private"
)

// refusedRanges lists the addresses that a host does not connect to unless their reason is allowed.
// The first match determines the reason, so narrow ranges precede wide ranges. Translated forms
// such as NAT64 and Teredo could hide an address such as 169.254.169.254.
var refusedRanges = []addressRange{
	{netip.MustParsePrefix("0.0.0.0/8"), "unspecified, \"this network\": many systems connect it to themselves", "RFC 1122 §3.2.1.3"},
	{netip.MustParsePrefix("10.0.0.0/8"), privateReason, "RFC 1918"},
	{netip.MustParsePrefix("100.100.100.200/32"), "metadata service", "Alibaba Cloud"},
	{netip.MustParsePrefix("100.64.0.0/10"), "shared address space behind carrier-grade NAT", "RFC 6598"},
	{netip.MustParsePrefix("127.0.0.0/8"), loopbackReason, "RFC 1122 §3.2.1.3"},
	{netip.MustParsePrefix("168.63.129.16/32"), "metadata service", "Azure"},
	{netip.MustParsePrefix("169.254.169.254/32"), "metadata service", "AWS, Google Cloud, Azure and others"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local: credentials of containers and functions live here", "RFC 3927"},
	{netip.MustParsePrefix("172.16.0.0/12"), privateReason, "RFC 1918"},
	{netip.MustParsePrefix("192.0.0.0/24"), "protocol assignments", "RFC 6890"},
	{netip.MustParsePrefix("192.0.2.0/24"), "documentation", "RFC 5737"},
	{netip.MustParsePrefix("192.88.99.0/24"), "6to4 relay", "RFC 7526"},
	{netip.MustParsePrefix("192.168.0.0/16"), privateReason, "RFC 1918"},
	{netip.MustParsePrefix("198.18.0.0/15"), "benchmarking", "RFC 2544"},
	{netip.MustParsePrefix("198.51.100.0/24"), "documentation", "RFC 5737"},
	{netip.MustParsePrefix("203.0.113.0/24"), "documentation", "RFC 5737"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast", "RFC 5771"},
	{netip.MustParsePrefix("255.255.255.255/32"), "broadcast", "RFC 919"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved", "RFC 1112 §4"},

	{netip.MustParsePrefix("::/128"), "unspecified: many systems connect it to themselves", "RFC 4291 §2.5.2"},
	{netip.MustParsePrefix("::1/128"), loopbackReason, "RFC 4291 §2.5.3"},
	{netip.MustParsePrefix("::/96"), "v4-compatible", "RFC 4291 §2.5.5.1"},
	{netip.MustParsePrefix("::ffff:0:0/96"), "v4-mapped", "RFC 4291 §2.5.5.2"},
	{netip.MustParsePrefix("::ffff:0:0:0/96"), "v4-translated", "RFC 2765"},
	{netip.MustParsePrefix("64:ff9b::/96"), "NAT64", "RFC 6052"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "local NAT64", "RFC 8215"},
	{netip.MustParsePrefix("100::/64"), "discard-only", "RFC 6666"},
	{netip.MustParsePrefix("2001::/32"), "Teredo", "RFC 4380"},
	{netip.MustParsePrefix("2001::/23"), "protocol assignments", "RFC 2928"},
	{netip.MustParsePrefix("2001:db8::/32"), "documentation", "RFC 3849"},
	{netip.MustParsePrefix("2002::/16"), "6to4", "RFC 3056"},
	{netip.MustParsePrefix("3fff::/20"), "documentation", "RFC 9637"},
	{netip.MustParsePrefix("5f00::/16"), "segment routing", "RFC 9602"},
	{netip.MustParsePrefix("fd00:ec2::254/128"), "metadata service", "AWS"},
	{netip.MustParsePrefix("fd20:ce::254/128"), "metadata service", "Google Cloud"},
	{netip.MustParsePrefix("fc00::/7"), privateReason, "RFC 4193, unique local"},
	{netip.MustParsePrefix("fe80::/10"), "link-local", "RFC 4291 §2.5.6"},
	{netip.MustParsePrefix("fec0::/10"), "site-local", "RFC 3879"},
	{netip.MustParsePrefix("ff00::/8"), "multicast", "RFC 4291 §2.7"},
	// Global unicast is 2000::/3.
	{netip.MustParsePrefix("::/3"), "not global unicast", "RFC 4291 §2.4"},
	{netip.MustParsePrefix("4000::/2"), "not global unicast", "RFC 4291 §2.4"},
	{netip.MustParsePrefix("8000::/1"), "not global unicast", "RFC 4291 §2.4"},
}

// refusalReason must check zones itself, because netip.Prefix.Contains never matches an address
// with a zone.
func refusalReason(a netip.Addr, allowedReasons map[string]bool) string {
	if !a.IsValid() {
		return "not an address"
	}
	if a.Zone() != "" {
		return "an address of one network interface (RFC 4007)"
	}
	for _, s := range refusedRanges {
		if s.prefix.Contains(a) {
			if allowedReasons[s.reason] {
				return ""
			}
			return s.reason + " (" + s.source + ")"
		}
	}
	return ""
}
