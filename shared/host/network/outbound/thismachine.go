package outbound

import (
	"net/netip"
	"strings"
	"unicode/utf8"
)

func IsLocalhost(host string) bool {
	// RFC 6761 section 6.3 reserves these names, regardless of DNS.
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// IsThisMachine reports whether host, without a port, is a loopback address or name.
func IsThisMachine(host string) bool {
	ip, err := netip.ParseAddr(host)
	return IsLocalhost(host) || err == nil && ip.Zone() == "" && ip.Unmap().IsLoopback()
}

// NormalizeHost returns "" for a name that is not ASCII.
func NormalizeHost(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return ""
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if a, err := netip.ParseAddr(name); err == nil {
		return a.Unmap().String()
	}
	return name
}

// AddressRefusal returns the reason why host is refused by default, or "" for a name or a public
// address.
func AddressRefusal(host string) string {
	a, err := netip.ParseAddr(host)
	if err != nil {
		return ""
	}
	return refusalReason(a, nil)
}
