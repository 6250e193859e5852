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
	for name, key := range map[string]string{"the key that was rotated out": revoked, "the key of another stage": foreign} {
		for _, url := range []string{s.AdminURL + "/v1/admin/vacants", s.ExportURL + "/v1/admin/export"} {
			if status, _, body := request(t, client, "GET", url, "Bearer "+key); status != http.StatusUnauthorized {
				t.Errorf("%s: GET %s = %d %s, want 401", name, url, status, body)
			}
		}
	}
	if status, _, body := request(t, client, "GET", s.AdminURL+"/v1/admin/vacants", "Bearer "+own); status != http.StatusOK {
		t.Errorf("the new key: %d %s, want 200", status, body)
	}
	if status, _, body := request(t, client, "GET", s.URL+"/v1/admin/vacants", "Bearer "+own); !s.Edge && status != http.StatusNotFound {
		t.Errorf("an admin route at the public handler: %d %s, want 404", status, body)
	}
}
