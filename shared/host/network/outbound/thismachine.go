package outbound

import (
	"net/netip"
	"strings"
	"unicode/utf8"
)

// IsLocalhost reports whether a host name is localhost or ends in ".localhost".
// Such names mean this machine, whatever DNS answers (RFC 6761 section 6.3).
func IsLocalhost(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// IsThisMachine reports whether a host without a port is this machine by its
// form: a loopback address without a zone, or an IsLocalhost name. It asks no
// name server.
func IsThisMachine(host string) bool {
	ip, err := netip.ParseAddr(host)
	return IsLocalhost(host) || err == nil && ip.Zone() == "" && ip.Unmap().IsLoopback()
}

// NormalHost returns the normal form of a host's name or address: one for all spellings
// that reach the same host. It is "" if the name is not ASCII, because no request is sent
// to such a host.
func NormalHost(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return ""
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if a, err := netip.ParseAddr(name); err == nil {
		return a.Unmap().String()
	}
	return name
}

// RefusedAddress returns why a host without a port is not dialled, if it is an
// address; "" if it is a name or a public address. A name is resolved and
// checked when it is dialled.
func RefusedAddress(host string) string {
	a, err := netip.ParseAddr(host)
	if err != nil {
		return ""
	}
	return check(a, nil)
}
