//go:build unix

package lambda

import (
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/front/workspaceapi"
	"github.com/vacancy-host/vacancy/shared/host/workspace"
)

// The agent function serves the files of accounts, and admin the operator's. A write is one PUT to the bucket. An instance
// writes no more than its limit.
func TestFilesAreObjectsOfTheBucket(t *testing.T) {
	c := newCrew(t)
	objects, env := bucket(t)
	key := c.must(c.admin, "POST", "/v1/admin/accounts/acme/keys", sampleOperator, `{"scopes":["agents","read"]}`)["secret"].(string)
	send := func(f *Function, method, path, key, body, match string) Response {
		t.Helper()
		e := keyed(method, path, nil)
		if method == "PUT" {
			e = keyed(method, path, []byte(body))
		}
		e.Headers["authorization"], e.Headers["content-type"] = "Bearer "+key, "application/octet-stream"
		if match != "" {
			e.Headers["if-match"] = match
		}
		r, err := f.Send(t.Context(), e.Encode())
		must(t, err)
		return r
	}
	with := func(name string, more ...string) *Function {
		return run(t, name, c.Host, append(append(c.cloud.env(), env...), more...)...)
	}
	for _, side := range []struct {
		prefix, key   string
		first, second *Function
	}{
		{"/v1", key, with("agent"), with("agent", "VACANCY_PUTS=0.001:1", "VACANCY_GETS=4:480")},
		{"/v1/admin", sampleOperator, with("admin"), with("admin")},
	} {
		at := side.prefix + strings.TrimPrefix(workspaceapi.Path, "/v1") + "/main/files/docs/a.md"
		objects.asked()
		if r := send(side.first, "PUT", at, side.key, "first", ""); r.Status != 201 {
			t.Fatalf("PUT %s = %d %s\n%s", at, r.Status, r.Body, side.first.Log())
		}
		if log := objects.asked(); len(log) != 1 || !strings.HasPrefix(log[0], "PUT "+workspace.Prefix) {
			t.Errorf("a write made the requests %q", log)
		}
		r := send(side.second, "GET", at, side.key, "", "")
		if r.Status != 200 || !strings.Contains(r.Body, "first") {
			t.Fatalf("GET %s = %d %s", at, r.Status, r.Body)
		}
		if r := send(side.second, "PUT", at, side.key, "second", r.Headers["Etag"]+r.Headers["ETag"]); r.Status != 200 {
			t.Errorf("PUT %s with its ETag = %d %s", at, r.Status, r.Body)
		}
		if side.prefix == "/v1" {
			if r := send(side.second, "PUT", at, side.key, "third", "*"); r.Status != 429 || !strings.Contains(r.Body, "limit of writes of files") {
				t.Errorf("PUT beyond the limit of an instance = %d %s", r.Status, r.Body)
			}
		}
		if r := send(side.first, "DELETE", at, side.key, "", ""); r.Status != 204 {
			t.Errorf("DELETE %s = %d %s", at, r.Status, r.Body)
		}
	}
	wantSound(t, c.Host)
}
