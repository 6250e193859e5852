package server

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestNamesUnderLocalhostAreDialledHere(t *testing.T) {
	asked := make(chan string, 1)
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.Host }))
	defer web.Close()
	_, port, err := net.SplitHostPort(web.Listener.Addr().String())
	must(t, err)
	client := http.Client{Transport: &http.Transport{DialContext: new(Server).Dial}}
	host := "id.lambda-url.us-east-1.localhost:" + port
	response, err := client.Get("http://" + host)
	must(t, err)
	response.Body.Close()
	if got := <-asked; got != host {
		t.Errorf("Host = %q, want %q, by which the function is chosen", got, host)
	}
	if _, err := new(Server).Dial(t.Context(), "tcp", "no port"); err == nil {
		t.Error("Dial() of an address without a port = nil, want an error")
	}
}

func TestEnvLeadsToThisServerAndToNoFileOfTheUser(t *testing.T) {
	s := &Server{URL: "http://127.0.0.1:1"}
	env := strings.Join(s.Env(), " ")
	for _, want := range []string{"AWS_ENDPOINT_URL=http://127.0.0.1:1 ", "AWS_ENDPOINT_URL_S3=http://127.0.0.1:1 ", "AWS_CONFIG_FILE=" + os.DevNull} {
		if !strings.Contains(env, want) {
			t.Errorf("Env() = %s, want %s", env, want)
		}
	}
}

func TestLineThatIsStillBeingWrittenIsNoCallYet(t *testing.T) {
	const record = `{"time":"2026-01-02T03:04:05+00:00","function":"f","service":"dynamodb","operation":"PutItem","actions":[{"action":"dynamodb:PutItem","resource":"arn","condition":"c"}],"status":200}`
	got, err := parseCalls(t.Context(), strings.NewReader(record+"\n"+record[:40]))
	if err != nil || len(got) != 1 {
		t.Fatalf("parseCalls() = %v, %v, want one call", got, err)
	}
	if diff := cmp.Diff([]Action{{Name: "dynamodb:PutItem", Resource: "arn", Condition: "c"}}, got[0].Actions); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	if _, err := parseCalls(t.Context(), strings.NewReader("nonsense\n")); err == nil {
		t.Error("parseCalls() of nonsense = nil, want an error")
	}
}

func FuzzParseCalls(f *testing.F) {
	f.Add(`{"time":"2026-01-02T03:04:05Z","function":"f"}` + "\n")
	f.Add("{}\n{")
	f.Fuzz(func(t *testing.T, content string) {
		calls, err := parseCalls(context.Background(), strings.NewReader(content))
		if err == nil && len(calls) != strings.Count(content, "\n") {
			t.Errorf("parseCalls(%q) = %d calls, want one for each whole line", content, len(calls))
		}
	})
}

func TestSkippedFindsWhatOnlyTheLogTells(t *testing.T) {
	log := filepath.Join(t.TempDir(), "server.log")
	const made = `WARN --- : No resource provider found for "AWS::X::Y"`
	const updated = `WARN --- : Unable to update resource type "AWS::X::Z"`
	must(t, os.WriteFile(log, []byte("INFO fine\n"+made+"\nINFO fine\n"+updated), 0o644))
	got, err := (&Server{LogPath: log}).ReadSkippedResources()
	if diff := cmp.Diff([]string{made, updated}, got); diff != "" || err != nil {
		t.Errorf("Skipped() = %v (-want +got):\n%s", err, diff)
	}
}

func TestRefusalOfTheServerIsToldInItsWords(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte("kind = 'x', want one of throttled"))
	}))
	defer web.Close()
	s := &Server{URL: web.URL, client: web.Client()}
	if err := s.AddFault(t.Context(), Fault{Kind: "x"}); err == nil || !strings.Contains(err.Error(), "want one of throttled") {
		t.Errorf("AddFault() = %v, want the server's words", err)
	}
}

func TestAnswerOfAnotherServerIsNoHealth(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"dir":"/runs/other"}`)) }))
	defer web.Close()
	s := &Server{URL: web.URL, Dir: "/runs/mine", client: web.Client()}
	if err := s.CheckHealth(t.Context()); !problem.Is(err, problem.Conflict) {
		t.Errorf("CheckHealth() = %v, want Conflict", err)
	}
	s.Dir = "/runs/other"
	if err := s.CheckHealth(t.Context()); err != nil {
		t.Errorf("CheckHealth() = %v, want nil", err)
	}
}
