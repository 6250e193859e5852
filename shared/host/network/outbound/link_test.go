package outbound

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/problem"
)

var goodLinks = []string{
	"https://example.com", "https://example.com/cat.png", "HTTPS://Example.COM./cat.png?a=b#c", "https://cdn_1.example.com:8443/x", "https://8.8.8.8/x",
	"https://[2606:4700::1111]/x", "https://xn--mnchen-3ya.de/x", "https://example.com/@127.0.0.1", "https://localhost.example.com/", "https://1.example.com/", "https://10.0.0.5.example.com/",
	"https://example.com/a%2fb?url=http://127.0.0.1/",
}

var badLinks = []string{
	"", "cat.png", "//example.com/x", "http://example.com/x", "ftp://example.com/x", "file:///etc/passwd", "file://example.com/x", "data:image/png;base64,AAAA",
	"javascript:alert(1)", "gopher://example.com/", "https:example.com", "https:/example.com", "https:///example.com", "https://", "https://:443/", "https:\\\\127.0.0.1",
	"https://user@example.com/", "https://user:pw@example.com/", "https://@example.com/", "https://example.com@127.0.0.1/", "https://a.example\\@127.0.0.1/",
	"https://127.0.0.1/", "https://127.0.0.1./", "https://127.1/", "https://127.0.1/", "https://0/", "https://2130706433/", "https://0x7f000001/", "https://0x7f.0.0.1/", "https://0X7F.1/",
	"https://0177.0.0.1/", "https://127.0.0.0x1/", "https://017700000001/", "https://127.0.0.1:8443/", "https://0.0.0.0/", "https://10.0.0.5/", "https://172.16.0.1/", "https://192.168.1.1/",
	"https://169.254.169.254/latest", "https://100.100.100.200/", "https://224.0.0.1/", "https://1.2.3.4.5/", "https://256.1.1.1/", "https://1.2.3.4../",
	"https://[::1]/", "https://[::]/", "https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/", "https://[::127.0.0.1]/", "https://[fd00:ec2::254]/", "https://[fe80::1%25eth0]/", "https://[fe80::1]/",
	"https://[64:ff9b::7f00:1]/", "https://[2002:7f00:1::]/", "https://[v1.x]/", "https://[127.0.0.1]/",
	"https://localhost/", "https://LOCALHOST./", "https://app.localhost/", "https://localhost:8080/", "https://metadata/", "https://intranet/x", "https://metadata.google.internal/",
	"https://printer.local/", "https://router.home.arpa./", "https://１２７.0.0.1/", "https://127。0。0。1/", "https://ⓛocalhost/", "https://münchen.de/", "https://%31%32%37.0.0.1/", "https://a.example%2f@127.0.0.1/",
	"https://127.0.0.1\t/", "https://127.0.\n0.1/", " https://example.com/", "https://example.com /", "https://exa mple.com/", "https://example..com/", "https://.example.com/", "https://example.com:x/",
	"https://example.com/" + strings.Repeat("x", maxURLBytes),
}

func TestLinksForAgentsAreHTTPSAtPublicHosts(t *testing.T) {
	for _, s := range goodLinks {
		if err := CheckLink(s); err != nil {
			t.Errorf("CheckLink(%q) = %v", s, err)
		}
	}
	for _, s := range badLinks {
		if err := CheckLink(s); !problem.Is(err, problem.Malformed) || !strings.Contains(err.Error(), "public https URL") {
			t.Errorf("CheckLink(%.100q) = %v, want it refused", s, err)
		}
	}
}

func TestNoRefusedRangeHasALink(t *testing.T) {
	for _, span := range refusedRanges {
		for _, a := range []netip.Addr{span.prefix.Addr(), span.prefix.Addr().Next()} {
			if !span.prefix.Contains(a) {
				continue
			}
			host := a.String()
			if a.Is6() {
				host = "[" + host + "]"
			}
			if CheckLink("https://"+host+"/") == nil {
				t.Errorf("a link to %s (%s) is accepted", a, span.reason)
			}
		}
	}
}

func FuzzLink(f *testing.F) {
	for _, s := range append(goodLinks, badLinks...) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if CheckLink(s) != nil {
			return
		}
		u, err := ParseURL(s)
		if err != nil || u.Scheme != "https" || u.User != nil || IsThisMachine(NormalizeHost(u.Hostname())) || AddressRefusal(NormalizeHost(u.Hostname())) != "" {
			t.Errorf("%q is accepted, and leads to %v, %v", s, u, err)
		}
		// What another program reads, to which a backslash is a slash, and which drops tabs and line ends.
		other := strings.NewReplacer("\\", "/", "\t", "", "\n", "", "\r", "").Replace(s)
		if v, err := url.Parse(other); err != nil || v.Host != u.Host || v.User != nil {
			t.Errorf("%q is accepted, and other programs read the host %v, not %s", s, v, u.Host)
		}
	})
}
