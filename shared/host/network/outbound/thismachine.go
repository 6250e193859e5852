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
