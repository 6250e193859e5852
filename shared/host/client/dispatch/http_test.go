package dispatch_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/dispatchtest"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func TestHTTPPost(t *testing.T) {
	s := dispatchtest.NewServer(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.WriteHeader(409)
		_, _ = w.Write([]byte(r.Method + " " + r.Header.Get("Content-Type") + " " + string(b)))
	})
	status, got, err := dispatch.NewHTTP(dispatch.HTTPOptions{}).Post(t.Context(), s.URL+"/x", []byte("body"))
	if status != 409 || string(got) != "POST application/json body" || err != nil {
		t.Errorf("Post() = %d %q %v", status, got, err)
	}
}

func TestHTTPFailures(t *testing.T) {
	h := dispatch.NewHTTP(dispatch.HTTPOptions{})
	redirected := false
	other := dispatchtest.NewServer(t, func(http.ResponseWriter, *http.Request) { redirected = true })
	s := dispatchtest.NewServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case "/large":
			_, _ = w.Write(make([]byte, canon.AnswerLimits().Bytes+1))
		case "/cut":
			c, _, _ := w.(http.Hijacker).Hijack()
			c.Close()
		}
	})
	for path, kind := range map[string]problem.Kind{"/redirect": problem.Usage, "/large": problem.TooLarge, "/cut": problem.DeadlineExceeded} {
		if _, _, err := h.Post(t.Context(), s.URL+path, nil); !problem.Is(err, kind) {
			t.Errorf("Post(%s) = %v, want %v", path, err, kind)
		}
	}
	if redirected {
		t.Error("a redirect was followed")
	}
	s.Close()
	fresh := dispatch.NewHTTP(dispatch.HTTPOptions{}) // with a kept-alive connection the error would be ambiguous
	if _, _, err := fresh.Post(t.Context(), s.URL, nil); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Post() to nobody = %v, want unavailable: nothing was sent", err)
	}
	strange := httptest.NewTLSServer(http.NotFoundHandler())
	defer strange.Close()
	strange.Config.ErrorLog = log.New(io.Discard, "", 0)
	if _, _, err := fresh.Post(t.Context(), strange.URL, nil); !problem.Is(err, problem.Unavailable) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("Post() to a host without a known certificate = %v, want unavailable: nothing was sent", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := h.Post(ctx, other.URL, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Post() = %v, want canceled", err)
	}
}

func TestHTTPTimeout(t *testing.T) {
	stop := make(chan struct{})
	s := dispatchtest.NewServer(t, func(http.ResponseWriter, *http.Request) { <-stop })
	defer close(stop)
	if _, _, err := dispatch.NewHTTP(dispatch.HTTPOptions{Timeout: 20 * time.Millisecond}).Post(t.Context(), s.URL, nil); !problem.Is(err, problem.DeadlineExceeded) {
		t.Errorf("Post() = %v, want deadline: it may have arrived", err)
	}
}

func TestSendURL(t *testing.T) {
	for given, want := range map[string]string{
		"http://h:8080":                 "http://h:8080/a2a/message/send",
		"http://h:8080/":                "http://h:8080/a2a/message/send",
		"https://h/v/ab":                "https://h/v/ab/a2a/message/send",
		"https://h/v/ab/":               "https://h/v/ab/a2a/message/send",
		"https://h/a2a/message/send":    "https://h/a2a/message/send",
		"https://h/p/a2a/message/send/": "https://h/p/a2a/message/send",
		"https://h/?vacant=demo":        "https://h/a2a/message/send?vacant=demo",
		"https://h/arn%3Aa%2Fb/run/?q":  "https://h/arn%3Aa%2Fb/run/a2a/message/send?q",
		"ftp://h":                       "",
		"h:8080":                        "",
		"":                              "",
		"http://":                       "",
		"http://u@h/":                   "",
		"https://h/#x":                  "",
		"http://h\x7f/":                 "",
		"https://h/a2a/message/send?x=%2Fa2a%2Fask": "https://h/a2a/message/send?x=%2Fa2a%2Fask",
	} {
		got, err := dispatch.SendURL(given)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("SendURL(%q) = %q, %v, want %q", given, got, err, want)
		}
	}
}

// The other handlers are found beside it (PROTOCOL §23 C4).
func TestCardsEndpointIsPostedToAsItIs(t *testing.T) {
	for endpoint, callURLs := range map[string][]string{
		"https://h/v/x/a2a/message/send": {"https://h/v/x/a2a/message/send", "https://h/v/x/a2a/chain/reset", "https://h/v/x/a2a/message/ask"},
		"https://h/":                     {"https://h/", "https://h/a2a/chain/reset", "https://h/a2a/message/ask"},
		"https://h/p?q=1":                {"https://h/p?q=1", "https://h/p/a2a/chain/reset?q=1", "https://h/p/a2a/message/ask?q=1"},
		"https://h/arn%3Aa%2Fb/run/":     {"https://h/arn%3Aa%2Fb/run/", "https://h/arn%3Aa%2Fb/run/a2a/chain/reset", "https://h/arn%3Aa%2Fb/run/a2a/message/ask"},
	} {
		w := newWorld(t)
		c := newCard(t, w.host.Key, endpoint)
		var got []string
		w.Transport = dispatchtest.PostFunc(func(url string, raw []byte) (int, []byte, error) {
			got = append(got, url)
			return 503, nil, nil
		})
		w.MaxTries = 1
		_, _ = w.Call(t.Context(), dispatch.TargetOfCard(&c), dispatchtest.UserMessage("x"))
		_, _ = w.Reset(t.Context(), dispatch.TargetOfCard(&c))
		_, _ = w.Ask(t.Context(), dispatch.TargetOfCard(&c))
		if strings.Join(got, " ") != strings.Join(callURLs, " ") {
			t.Errorf("posts = %q, want %q", got, callURLs)
		}
	}
}

func newCard(t *testing.T, k *identity.Key, endpoint string) card.Card {
	t.Helper()
	c, err := card.New(k.ID(), "echo", []string{"mock"}, endpoint)
	must(t, err)
	must(t, c.Sign(t.Context(), k))
	return c
}

func TestFetchTarget(t *testing.T) {
	k := dispatchtest.NewKey(t, 5)
	c := newCard(t, k, "https://elsewhere.example/a2a/message/send")
	forged := c
	forged.CapabilityText = "better"
	answer := func(id string, blob []byte) string {
		b, _ := json.Marshal(map[string]any{"vacant_id": id, "capability_text": "echo", "endpoint": nil, "halo_version": 1, "capability_card_blob_hex": hex.EncodeToString(blob)})
		return string(b)
	}
	body, status, asked := "", 200, ""
	s := dispatchtest.NewServer(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.RequestURI
		if !strings.HasSuffix(r.URL.Path, "/card") || r.Method != http.MethodGet {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	})
	h := dispatch.NewHTTP(dispatch.HTTPOptions{})

	body = answer(k.ID().String(), c.Blob())
	for _, given := range []string{s.URL, s.URL + "/a2a/message/send"} {
		got, err := dispatch.FetchTarget(t.Context(), h, given)
		if err != nil || got.ID != k.ID() || got.URL != s.URL+"/a2a/message/send" || got.Card == nil || got.Name != given {
			t.Errorf("FetchTarget(%s) = %+v, %v", given, got, err)
		}
	}
	if got, err := dispatch.FetchTarget(t.Context(), h, s.URL+"/arn%3Aa%2Fb/run/?q=%2F"); err != nil || asked != "/arn%3Aa%2Fb/run/card?q=%2F" || got.URL != s.URL+"/arn%3Aa%2Fb/run/a2a/message/send?q=%2F" {
		t.Errorf("FetchTarget() of an escaped path = %s after a request for %s, %v", got.URL, asked, err)
	}
	if _, err := dispatch.FetchTarget(t.Context(), h, s.URL+"/v/"+k.ID().String()); err != nil {
		t.Errorf("FetchTarget() by id = %v", err)
	}
	if _, err := dispatch.FetchTarget(t.Context(), h, s.URL+"/v/"+(identity.ID{7}).String()); !problem.Is(err, problem.Untrusted) {
		t.Errorf("FetchTarget() of another id = %v, want untrusted", err)
	}
	for name, bad := range map[string]string{
		"forged":       answer(k.ID().String(), forged.Blob()),
		"other id":     answer(dispatchtest.NewKey(t, 6).ID().String(), c.Blob()),
		"no blob":      `{"vacant_id":"x"}`,
		"not hex":      `{"vacant_id":"x","capability_card_blob_hex":"zz"}`,
		"not a card":   answer(k.ID().String(), []byte("{}")),
		"not JSON":     "<html>",
		"twice a key":  `{"vacant_id":"a","vacant_id":"b"}`,
		"a wrong type": `{"vacant_id":5}`,
	} {
		body = bad
		if _, err := dispatch.FetchTarget(t.Context(), h, s.URL); !problem.Is(err, problem.Untrusted) {
			t.Errorf("%s: FetchTarget() = %v, want untrusted", name, err)
		}
	}
	body, status = `{"detail":"several vacants: name one by ?vacant="}`, 404
	if _, err := dispatch.FetchTarget(t.Context(), h, s.URL); !problem.Is(err, problem.NotFound) || !strings.Contains(err.Error(), "?vacant=") {
		t.Errorf("FetchTarget() = %v, want not found with the host's words", err)
	}
	s.Close()
	h = dispatch.NewHTTP(dispatch.HTTPOptions{})
	if _, err := dispatch.FetchTarget(t.Context(), h, s.URL); !problem.Is(err, problem.Unavailable) {
		t.Errorf("FetchTarget() of nobody = %v, want unavailable", err)
	}
}
