package outbound

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
)

var internalNames = []string{"localhost", "local", "internal", "home.arpa"}

// CheckLink returns an error unless s is a public https URL. It refuses unusual spellings of hosts,
// because some programs read 0x7f.1 as 127.0.0.1. It does not resolve names, so an agent that
// fetches the URL must check the address.
func CheckLink(s string) error {
	const want = "a public https URL without user and password, for example https://example.com/cat.png"
	invalidErr := problem.Invalid("url", want, quote(s))
	u, err := url.Parse(s)
	if len(s) > maxURLBytes || err != nil || u.Scheme != "https" || u.Opaque != "" || u.User != nil {
		return invalidErr
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if a, err := netip.ParseAddr(host); err == nil {
		if refusalReason(a, nil) != "" {
			return invalidErr
		}
		return nil
	}
	coversHost := func(name string) bool { return host == name || strings.HasSuffix(host, "."+name) }
	if !isPlainName(host) || slices.ContainsFunc(internalNames, coversHost) {
		return invalidErr
	}
	return nil
}

func isPlainName(host string) bool {
	labels := strings.Split(host, ".")
	isPlainRune := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_' }
	for _, label := range labels {
		if label == "" || strings.ContainsFunc(label, func(r rune) bool { return !isPlainRune(r) }) {
			return false
		}
	}
	// Browsers may parse a name whose last label starts with a digit as an IPv4 address.
	lastLabel := labels[len(labels)-1]
	return len(labels) > 1 && (lastLabel[0] < '0' || lastLabel[0] > '9')
}
