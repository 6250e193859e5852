package hammer

import (
	"net/http/httptest"
	"testing"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func TestOnlyThisMachineIsHammered(t *testing.T) {
	h, url := target(t, nil)
	for _, given := range []string{
		"http://192.0.2.1", "http://[2001:db8::1]:80/", "http://0.0.0.0:8080", "http://10.0.0.1", "http://169.254.169.254",
		"http://[::ffff:192.0.2.1]", "https://192.0.2.1/v/" + h.Demo.ID.String(),
	} {
		if got, err := Find(t.Context(), given, h.Demo.ID); !problem.Is(err, problem.Forbidden) {
			t.Errorf("Find(%s) = %v, %v, want it refused", given, got, err)
		}
	}
	if got, err := Find(t.Context(), url, identity.ID{}); err != nil || got.ID != h.Demo.ID {
		t.Errorf("Find(%s) = %v, %v, want the demo vacant", url, got, err)
	}
}

func TestAURLIsUnderstood(t *testing.T) {
	h, url := target(t, nil)
	send := "/v/" + h.Demo.ID.String() + "/a2a/message/send"
	for given, want := range map[string]string{
		url: send, url + "/": send, url + "/v/" + h.Demo.ID.String(): send, url + send: send,
		url + "/arn%3Aa%2Fb/run/?q=1": "/arn%3Aa%2Fb/run" + send + "?q=1", url + "/arn%3Aa%2Fb" + send: "/arn%3Aa%2Fb" + send,
	} {
		if got, err := Find(t.Context(), given, h.Demo.ID); err != nil || got.URL.RequestURI() != want {
			t.Errorf("Find(%s, id) = %v, %v, want %s", given, got.URL, err, want)
		}
	}
	for _, given := range []string{"", "127.0.0.1", "ftp://127.0.0.1", "http://127.0.0.1/v/00"} {
		if _, err := Find(t.Context(), given, h.Demo.ID); !problem.Is(err, problem.Usage) {
			t.Errorf("Find(%q) = %v, want Usage", given, err)
		}
	}
	none := httptest.NewServer(nil)
	none.Close()
	if _, err := Find(t.Context(), none.URL, identity.ID{}); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Find(nobody there) = %v, want Unavailable", err)
	}
}
