package integration

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/tests/integration/policy"
)

// file sends a request for a file. headers are pairs of names and values.
func (a *tenant) file(want int, method, url, body string, headers ...string) (tag, text string) {
	a.t.Helper()
	r, err := http.NewRequestWithContext(a.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+a.key)
	r.Header.Set("Content-Type", "application/octet-stream")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	reply, err := web(a.t, a.aws, "").Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer reply.Body.Close()
	b, err := io.ReadAll(reply.Body)
	if err != nil || reply.StatusCode != want {
		a.t.Fatalf("%s %s %q = %d %s, %v; want %d", method, url, headers, reply.StatusCode, b, err, want)
	}
	return reply.Header.Get("ETag"), string(b)
}

// filed makes agent, worker and admin do all that they ever do with files. Another instance reads and replaces a file
// than the instance that created it.
func (s *deployed) filed(t *testing.T) {
	t.Helper()
	a, name := s.tenant(t, "files"+word(t)), "ws-"+word(t)
	var made struct{ Secret string }
	a.read(&made, "keys", "create", a.name, "--scope", "agents,read", "--json")
	a.key = made.Secret
	operator := &tenant{deployed: s, t: t, key: string(s.OperatorKey)}
	for _, side := range []struct {
		by                   *tenant
		base, path, function string
	}{{a, s.URL, "/v1", functions.Agent.Name}, {operator, s.AdminURL, "/v1/admin", functions.Admin.Name}} {
		by, agent := side.by, "clerk"+word(t)
		s.agent(t, agent, by.name, clerk(name))
		renew := func() {
			t.Helper()
			if s.aws != nil {
				s.kill(t, side.function)
			}
		}
		all := side.base + side.path + "/workspaces/" + name
		at := all + "/files/docs/plan.md"
		first, _ := by.file(201, "PUT", at, "the first plan")
		renew()
		if tag, text := by.file(200, "GET", at, ""); text != "the first plan" || tag != first {
			t.Errorf("another instance reads %q with the ETag %s, want the first plan with %s", text, tag, first)
		}
		by.file(304, "GET", at, "", "If-None-Match", first)
		by.file(412, "PUT", at, "another first plan")
		second, _ := by.file(200, "PUT", at, "the second plan", "If-Match", first)
		renew()
		by.file(412, "PUT", at, "a late plan", "If-Match", first)
		by.file(412, "DELETE", at, "", "If-Match", first)
		if tag, text := by.file(200, "GET", at, ""); text != "the second plan" || tag != second {
			t.Errorf("after a refused write it is %q with the ETag %s, want the second plan with %s", text, tag, second)
		}
		s.worked(by, side.base+side.path, agent, all)
		if _, page := by.file(200, "GET", all+"/files?prefix=docs/", ""); strings.Count(page, `"path"`) != 2 {
			t.Errorf("the files are %s, want two", page)
		}
		by.file(204, "DELETE", at, "", "If-Match", second)
		by.file(404, "GET", at, "")
		by.file(204, "DELETE", all, "")
		by.file(404, "GET", all+"/files/docs/report.md", "")
	}
}

// clerk is an agent that reads a file of a workspace and writes another one, under a lock.
func clerk(workspace string) object {
	return object{"provider": "mock", "workspace": workspace, "lock_paths": []string{"docs/report.md"}, "system": "```mock\n" +
		"call: LS {\"path\":\"docs\"}\ncall: Read {\"file_path\":\"docs/plan.md\"}\n---\n" +
		"call: Write {\"file_path\":\"docs/report.md\",\"content\":\"a report of the second plan\"}\n---\ntext: reported\n```"}
}

// worked has the worker run a task that writes a file, with locks that are enforced.
func (s *deployed) worked(by *tenant, base, agent, workspaceURL string) {
	t := by.t
	t.Helper()
	do := func(method, path, body string) object {
		t.Helper()
		status, answer := by.askAt(base, method, "/tasks"+path, body)
		if status/100 != 2 {
			t.Fatalf("%s %s/tasks%s = %d %v", method, base, path, status, answer)
		}
		return answer
	}
	do("PUT", "/locks", fmt.Sprintf(`{"workspace":%q,"policy":"queue"}`, workspaceURL[strings.LastIndexByte(workspaceURL, '/')+1:]))
	id := do("POST", "", fmt.Sprintf(`{"agent":%q,"task":"report"}`, agent))["taskId"].(string)
	var got object
	await.Until(t, "the task ends", func() bool {
		got = do("GET", "/"+id, "")
		return got["status"] == "completed" || got["status"] == "failed"
	})
	if got["status"] != "completed" || !strings.Contains(fmt.Sprint(got["result"]), "docs/report.md") {
		t.Errorf("the task is %v", got)
	}
	if locks := do("GET", "/locks", ""); strings.Contains(fmt.Sprint(locks["locks"]), id) {
		t.Errorf("the finished task holds a lock: %v", locks)
	}
	if _, log := by.file(200, "GET", base+"/tasks/"+id+"/log", ""); !strings.Contains(log, "write_text_file") || strings.Contains(log, "second plan") {
		t.Errorf("the log of the task is %s", log)
	}
	if _, text := by.file(200, "GET", workspaceURL+"/files/docs/report.md", ""); text != "a report of the second plan" {
		t.Errorf("the task has written %q", text)
	}
	s.sealed(t, "second plan")
}

// sealed requires the bytes of files to be sealed objects below the prefix of workspaces, and no other object to have the
// text of a file.
func (s *deployed) sealed(t *testing.T, text string) {
	t.Helper()
	client, name, files := bucket(s), awssdk.String(s.outputs(t, "data")["Blobs"]), 0
	pages := s3.NewListObjectsV2Paginator(client, &s3.ListObjectsV2Input{Bucket: name})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page.Contents {
			key := awssdk.ToString(o.Key)
			if strings.HasPrefix(key, workspace.BlobPrefix) {
				files++
			}
			got, err := client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: name, Key: o.Key})
			if err != nil {
				continue // it was replaced or removed meanwhile
			}
			b, err := io.ReadAll(got.Body)
			got.Body.Close()
			if err != nil || bytes.Contains(b, []byte(text)) || strings.Contains(key, "report") {
				t.Errorf("object %s has the text or the path of a file, or cannot be read: %v", key, err)
			}
		}
	}
	if files < 2 {
		t.Errorf("%d objects below %s, want one of each file", files, workspace.BlobPrefix)
	}
}

func TestFilesOfAnAccountAreSharedByInstancesAndTasks(t *testing.T) {
	s := shared(t)
	s.filed(t)
	s.whole(t)
}

// Only functions that serve or clean workspaces may use the objects of files. message, which strangers call, may not.
func TestOnlyFewRolesMayUseTheObjectsOfFiles(t *testing.T) {
	s := shared(t)
	if s.aws == nil {
		t.Skip("reads roles from the local AWS")
	}
	arn := "arn:aws:s3:::" + s.outputs(t, "data")["Blobs"]
	object := func(action string) policy.Request {
		return policy.Request{Action: action, Resource: arn + "/" + workspace.BlobPrefix + "0123/4567"}
	}
	names := policy.Request{Action: "s3:ListBucket", Resource: arn, Context: map[string][]string{"s3:prefix": {workspace.BlobPrefix}}}
	writes := []string{"s3:GetObject", "s3:PutObject", "s3:ListBucket"}
	may := map[string][]string{
		functions.Agent.Name: writes, functions.Admin.Name: writes, functions.Worker.Name: writes,
		functions.Sweeper.Name: {"s3:DeleteObject", "s3:ListBucket"},
	}
	for _, f := range functions.All() {
		p, allowed := s.rolePolicy(t, f.Name), []string(nil)
		for _, r := range []policy.Request{object("s3:GetObject"), object("s3:PutObject"), object("s3:DeleteObject"), names} {
			if ok, _ := p.Decide(r); ok {
				allowed = append(allowed, r.Action)
			}
		}
		if fmt.Sprint(allowed) != fmt.Sprint(may[f.Name]) {
			t.Errorf("%s may %v the objects of files, want %v", f.Name, allowed, may[f.Name])
		}
		elsewhere := object("s3:PutObject")
		if elsewhere.Resource = arn + "/usage/x"; len(may[f.Name]) > 0 {
			if ok, _ := p.Decide(elsewhere); ok {
				t.Errorf("%s may write objects beside the files", f.Name)
			}
		}
	}
}
