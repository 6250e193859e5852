package outbound_test

import (
	"net/url"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
)

func TestReplaceSuffixKeepsEscapesAndQuery(t *testing.T) {
	const runtime = "https://h/runtimes/arn%3Aaws%3Aagent%2Fmine/invocations"
	for _, tt := range []struct{ given, old, new, want string }{
		{runtime + "/", "", "/card", runtime + "/card"},
		{runtime + "/card", "/card", "/send", runtime + "/send"},
		{runtime + "//card//?q=a%2Fb&x", "/card", "", runtime + "?q=a%2Fb&x"},
		{"https://h", "/card", "/card", "https://h/card"},
		{"https://h/?x=/card", "/card", "", "https://h?x=/card"},
		{"https://h/a%2Fcard", "/card", "/send", "https://h/a%2Fcard/send"},
		{"https://h/a//b/../c%20d/%7Ee/", "", "/card", "https://h/a//b/../c%20d/%7Ee/card"},
		{"https://h/postcard", "/card", "/send", "https://h/postcard/send"},
	} {
		u, err := url.Parse(tt.given)
		if err != nil {
			t.Fatal(err)
		}
		if got := outbound.ReplaceSuffix(u, tt.old, tt.new).String(); got != tt.want {
			t.Errorf("ReplaceSuffix(%s, %q, %q) = %s, want %s", tt.given, tt.old, tt.new, got, tt.want)
		}
		if u.String() != tt.given {
			t.Errorf("ReplaceSuffix() changed its argument %s to %s", tt.given, u)
		}
	}
}
