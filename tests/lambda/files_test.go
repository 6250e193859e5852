//go:build unix

package lambda

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/vacancy-host/vacancy/shared/front/workspaceapi"
	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/shared/host/workspace/locks"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/blob"
	"github.com/vacancy-host/vacancy/shared/store/blob/s3"
	"github.com/vacancy-host/vacancy/shared/store/dynamo"
	"github.com/vacancy-host/vacancy/tests/awshost"
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
		if log := objects.asked(); len(log) != 1 || !strings.HasPrefix(log[0], "PUT "+workspace.BlobPrefix) {
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
			if r := send(side.second, "PUT", at, side.key, "third", "*"); r.Status != 429 || !strings.Contains(r.Body, "rate limit for file writes") {
				t.Errorf("PUT beyond the limit of an instance = %d %s", r.Status, r.Body)
			}
		}
		objects.mu.Lock()
		clear(objects.kept)
		objects.mu.Unlock()
		if r := send(side.first, "GET", at, side.key, "", ""); r.Status != 500 {
			t.Errorf("GET %s without its object = %d %s, want 500", at, r.Status, r.Body)
		}
		if r := send(side.first, "DELETE", at, side.key, "", ""); r.Status != 204 {
			t.Errorf("DELETE %s = %d %s", at, r.Status, r.Body)
		}
	}
	wantSound(t, c.Host)
}

// A task at the worker writes an object, which agent reads. A file whose object is missing does not end a task that reads
// the file.
func TestTasksAtTheWorkerWriteObjects(t *testing.T) {
	c := newCrew(t)
	objects, env := bucket(t)
	with := func(name string) *Function { return run(t, name, c.Host, append(c.cloud.env(), env...)...) }
	agent, worker := with("agent"), with("worker")
	key := c.must(c.admin, "POST", "/v1/admin/accounts/acme/keys", sampleOperator, `{"scopes":["agents","read"]}`)["secret"].(string)
	for name, script := range map[string]string{
		"writer": `call: Write {"file_path":"docs/report.md","content":"the report"}`, "reader": `call: Read {"file_path":"docs/report.md"}`,
	} {
		c.must(c.admin, "POST", "/v1/admin/vacants", sampleOperator, fmt.Sprintf(`{"name":%q,"tenant":"acme","capability":"files","agent":{"provider":"mock","lock_paths":["docs"],"system":%q}}`,
			name, "```mock\n"+script+"\n---\ntext: {result}\n```"))
	}
	c.must(agent, "PUT", "/v1/tasks/locks", key, `{"workspace":"main","policy":"queue"}`)
	ends := func(name, want string) {
		t.Helper()
		id := c.must(agent, "POST", "/v1/tasks", key, fmt.Sprintf(`{"agent":%q,"task":"go"}`, name))["taskId"].(string)
		left := deliver(t, worker, c.Host, "tasks", 1)
		got := c.must(agent, "GET", "/v1/tasks/"+id, key, "")
		if result := fmt.Sprint(got["result"]); left != 0 || got["status"] != "completed" || !strings.Contains(result, want) {
			t.Errorf("the task of %s is %v, want it completed with %q; %d messages are left\n%s", name, got, want, left, worker.Log())
		}
		if locks := c.must(agent, "GET", "/v1/tasks/locks", key, ""); strings.Contains(fmt.Sprint(locks["locks"]), id) {
			t.Errorf("the finished task of %s holds a lock: %v", name, locks)
		}
	}
	objects.asked()
	ends("writer", "wrote 10 bytes to docs/report.md")
	if log := objects.asked(); len(log) != 1 || !strings.HasPrefix(log[0], "PUT "+workspace.BlobPrefix) {
		t.Errorf("a write of a task made the requests %q", log)
	}
	ends("reader", "the report")
	objects.mu.Lock()
	clear(objects.kept)
	objects.mu.Unlock()
	ends("reader", "the bytes of docs/report.md are missing")
	if r := c.must(agent, "GET", "/v1/workspaces/main/files", key, ""); !strings.Contains(fmt.Sprint(r), "docs/report.md") {
		t.Errorf("the files are %v", r)
	}
}

// The job of sweeper cleans at the first minute of an hour, so it runs in this process here. Its requests are judged by
// the role of the function.
func TestTheSweeperDeletesBytesWithoutAFile(t *testing.T) {
	host := awshost.New(t)
	objects, env := bucket(t)
	open := func(s *dynamo.Store, env []string) workspace.Config {
		_, endpoint, _ := strings.Cut(env[0], "=")
		client := s3.NewClient(aws.Config{Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
		return workspace.Config{
			Store: store.Updater{Store: s, Rand: rand.Reader}, Blobs: func() (blob.Blobs, error) { return s3.New(client, sampleBucket, rand.Reader), nil },
			Vault: host.Vault, CheckWritable: func(context.Context, string) error { return nil }, RemoveRelated: locks.Remove, Now: time.Now,
		}
	}
	c := open(host.Store(host.Endpoint), env)
	files := workspace.New(c)
	main, gone := workspace.Ref{Owner: "acme", Name: workspace.MainName}, workspace.Ref{Owner: "acme", Name: "gone"}
	write := func(ref workspace.Ref) {
		t.Helper()
		_, err := files.Write(t.Context(), ref, workspace.Change{Path: "a.md", Data: []byte("text")})
		must(t, err)
	}
	write(main)
	want := objects.keys()
	write(gone)
	c.Blobs = func() (blob.Blobs, error) { return nil, errors.New("the bucket is away") }
	must(t, workspace.New(c).RemoveWorkspace(t.Context(), gone))
	objects.mu.Lock()
	objects.kept[workspace.BlobPrefix+"0123/4567"] = object3{at: time.Now().Add(-25 * time.Hour)}
	objects.mu.Unlock()
	c = open(storeOf(t, "sweeper", host), judge(t, "sweeper", host, env))
	c.Now = func() time.Time { return time.Now().Add(time.Hour) } // no backup reads the removed workspace any more
	sweeper := workspace.New(c)
	if deleted, err := sweeper.Sweep(t.Context()); err != nil || deleted != 2 {
		t.Errorf("Sweep() = %d, %v; want the object of the removed workspace and the old one", deleted, err)
	}
	if keys := objects.keys(); !slices.Equal(keys, want) {
		t.Errorf("the bucket has %q, want %q", keys, want)
	}
}
