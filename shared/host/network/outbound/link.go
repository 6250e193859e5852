package outbound

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// innerNames are the top-level names of hosts inside a network: RFC 6761, RFC 6762, RFC 8375 and
// ICANN's reservation of internal.
var innerNames = []string{"localhost", "local", "internal", "home.arpa"}

// CheckLink returns an error unless s is a URL that a caller may hand to an agent, which perhaps
// fetches it: a URL of https without user and password, whose host is neither an address inside a
// network nor a name for one. The host must be written plainly, because programs disagree about
// other spellings: 0x7f.1 and １２７.0.0.1 are 127.0.0.1 to some of them. Names are not resolved,
// so an agent that fetches must still check the address that it connects to.
func CheckLink(s string) error {
	const want = "a public https URL without user and password, for example https://example.com/cat.png"
	refused := problem.Invalid("url", want, quote(s))
	u, err := url.Parse(s)
	if len(s) > maxURL || err != nil || u.Scheme != "https" || u.Opaque != "" || u.User != nil {
		return refused
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if a, err := netip.ParseAddr(host); err == nil {
		if check(a, nil) != "" {
			return refused
		}
		return nil
	}
	inner := func(name string) bool { return host == name || strings.HasSuffix(host, "."+name) }
	if !isPlainName(host) || slices.ContainsFunc(innerNames, inner) {
		return refused
	}
	return nil
}

// isPlainName reports whether host has at least two labels of letters, digits, "-" and "_". A last
// label that starts with a digit makes the name an IPv4 address to browsers, so it is not plain.
func isPlainName(host string) bool {
	labels := strings.Split(host, ".")
	plain := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_' }
	for _, label := range labels {
		if label == "" || strings.ContainsFunc(label, func(r rune) bool { return !plain(r) }) {
			return false
		}
	}
	last := labels[len(labels)-1]
	return len(labels) > 1 && (last[0] < '0' || last[0] > '9')
}
