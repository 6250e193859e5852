package outbound

import "testing"

func TestOnlyNamesOfLocalhostAreThisMachine(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "x.localhost": true, "x.y.LOCALHOST.": true,
		"": false, "localhost.example": false, "notlocalhost": false, "x.localhost.example": false, "127.0.0.1": false, "localhost..": false,
	} {
		if got := IsLocalhost(host); got != want {
			t.Errorf("IsLocalhost(%q) = %t, want %t", host, got, want)
		}
	}
}

func TestOnlyAddressesThatStayHereAreThisMachine(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.8.9.1": true, "::1": true, "::ffff:127.0.0.1": true, "localhost": true, "LOCALHOST": true,
		"x.lambda-url.us-east-1.localhost": true, "a.localhost.": true,
		"localhost.example.org": false, "127.0.0.1.example.org": false, "10.0.0.1": false, "0.0.0.0": false, "::": false, "::1%0": false, "[::1]": false,
		"2130706433": false, "0x7f000001": false, "127.1": false, "example.org": false, "": false, "notlocalhost": false,
	} {
		if got := IsThisMachine(host); got != want {
			t.Errorf("IsThisMachine(%q) = %t, want %t", host, got, want)
		}
	}
}
