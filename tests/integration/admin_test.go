package integration

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
)

// request makes a request to a handler with an Authorization header, "" for
// none.
func request(t *testing.T, client *http.Client, method, url, authorization string) (status int, header http.Header, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(b)
}

// Only this stage's latest operator key is admitted by its admin API.
func TestOnlyTheStagesOwnKeyOpensItsControlHandlers(t *testing.T) {
	s := shared(t)
	foreign := "vop_" + strings.Repeat("B", 43)
	if !testing.Short() {
		foreign = string(neighbour(t).OperatorKey)
	}
	revoked := string(s.OperatorKey)
	if _, exit := s.vacancy(t, "keys", "rotate-operator", "--stage", s.Stage); exit != 0 {
		t.Fatalf("rotate-operator: exit %d", exit)
	}
	rec, err := stage.Records{Dir: filepath.Join(s.dataHome, "stages")}.Read(s.Stage)
	if err != nil {
		t.Fatal(err)
	}
	s.OperatorKey = rec.OperatorKey
	own := string(rec.OperatorKey)
	if own == revoked {
		t.Fatal("the key was not changed")
	}
	client := web(t, s.aws, "")
	handlers := []struct{ method, url string }{
		{"GET", s.AdminURL + "/v1/admin/vacants"}, {"POST", s.AdminURL + "/v1/admin/vacants"}, {"GET", s.AdminURL + "/v1/admin/host"},
		{"PUT", s.AdminURL + "/v1/admin/host"}, {"POST", s.AdminURL + "/v1/admin/vacants/x/pause"}, {"DELETE", s.AdminURL + "/v1/admin/vacants/x"},
		{"POST", s.AdminURL + "/v1/admin/vacants/x/export"}, {"GET", s.ExportURL + "/v1/admin/export"}, {"GET", s.AdminURL + "/nowhere"},
	}
	for _, tt := range []struct{ name, authorization, query string }{
		{"no key", "", ""},
		{"a wrong key", "Bearer vop_" + strings.Repeat("A", 43), ""},
		{"a key that is none", "Bearer x", ""},
		{"another scheme", "Basic " + own, ""},
		{"the key that was rotated out", "Bearer " + revoked, ""},
		{"the key of another stage", "Bearer " + foreign, ""},
		{"the right key in the query alone", "", "?key=" + own + "&access_token=" + own},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, d := range handlers {
				status, header, body := request(t, client, d.method, d.url+tt.query, tt.authorization)
				if status != http.StatusUnauthorized || header.Get("WWW-Authenticate") == "" || strings.Contains(body, "vop_") {
					t.Errorf("%s %s = %d %v %s, want 401 with WWW-Authenticate", d.method, d.url, status, header, body)
				}
			}
		})
	}
	if status, _, body := request(t, client, "GET", s.AdminURL+"/v1/admin/vacants", "Bearer "+own); status != http.StatusOK {
		t.Errorf("the new key: %d %s, want 200", status, body)
	}
	if status, _, body := request(t, client, "GET", s.URL+"/v1/admin/vacants", "Bearer "+own); !s.Edge && status != http.StatusNotFound {
		t.Errorf("an admin route at the public handler: %d %s, want 404", status, body)
	}
}
