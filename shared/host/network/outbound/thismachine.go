package outbound

import (
	"net/netip"
	"strings"
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

// RefusedAddress returns why a host without a port is not dialled, if it is an
// address; "" if it is a name or a public address. A name is resolved and
// checked when it is dialled.
func RefusedAddress(host string) string {
	a, err := netip.ParseAddr(host)
	if err != nil {
		return ""
	}
	return check(a, false)
}
