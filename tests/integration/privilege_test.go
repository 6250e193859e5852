package integration

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/vacancy-host/vacancy/localstack/server"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/tests/caller"
	"github.com/vacancy-host/vacancy/tests/integration/policy"
)

// everything makes each function do all that it ever does with AWS.
func (s *deployed) everything(t *testing.T) {
	t.Helper()
	s.kill(t, "message")
	p := s.pair(t, s.vacant(t))
	e, _ := p.say("a call")
	p.post(caller.AskPath, e)
	p.send(e)
	p.send(p.Reset(time.Now()))
	p.get("/health") // of the only vacant, if the host has one
	nobody := s.pair(t, caller.New(t, p.To).Key.ID())
	nobody.send(nobody.Call("is anybody there", time.Now()))

	api, id := s.admin(t), p.To.String()
	shown := s.vacant(t).String()
	_, published := admin.PublishVacant.Call(t.Context(), api, admin.NewVacantRequest(shown, admin.Publication{}))
	_, hidden := admin.UnpublishVacant.Call(t.Context(), api, admin.VacantRef{Vacant: shown})
	if err := errors.Join(published, hidden); err != nil {
		t.Fatal(err)
	}
	for _, to := range []op.Op[admin.VacantRef, admin.Vacant]{admin.PauseVacant, admin.ResumeVacant, admin.SinkVacant, admin.ArchiveVacant} {
		if _, err := to.Call(t.Context(), api, admin.VacantRef{Vacant: id}); err != nil {
			t.Fatal(err)
		}
	}
	// An own chain as a caller, which the vacant would have brought along.
	_, docs := s.tables(t)
	if err := docs.Commit(t.Context(), store.Put{Key: vacants.ChainDocs.Key(p.To.String(), p.Key.ID().String()), WriteID: store.WriteID{7}, Data: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	_, listed := admin.ListVacants.Call(t.Context(), api, admin.ListVacantsRequest{Cursor: "", All: false})
	_, exported := api.Export(t.Context(), id)
	_, deleted := admin.DeleteVacant.Call(t.Context(), api, admin.VacantRef{Vacant: id})
	_, proved := admin.GetHost.Call(t.Context(), api, admin.HostRequest{Challenge: []string{"c2hvdyBtZQ"}})
	_, set := admin.SetHost.Call(t.Context(), api, op.NewBody(admin.HostURL{URL: s.URL}))
	for _, err := range []error{listed, exported, deleted, proved, set} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"models", s.thought}, {"tasks", s.tasked}, {"teams", s.dispatched}, {"files", s.filed}, {"workers", s.leased}, {"slow vacants", s.slow}, {"searches", s.looked}, {"protocols", s.askedByOthers}, {"tokens", s.askedByTokens},
		{"children", s.grown}, {"money", s.charged}, {"verify", s.wholeOverHTTP}, {"sweeper", s.sweep},
	} {
		began := time.Now()
		step.run(t)
		fmt.Printf("step %s: %.1f s\n", step.name, time.Since(began).Seconds()) // a sign of life for the runner
	}
	since := time.Now()
	s.invoke(t, "tamper-changed")
	// The record is complete when Lambda has written the function's lines.
	s.lines(t, "tamper", since, func(all []line) bool { return len(all) > 0 })
}

// sweep makes the sweeper destroy an old day's key.
func (s *deployed) sweep(t *testing.T) {
	t.Helper()
	_, docs := s.tables(t)
	key := store.Key{Partition: "textkey", Sort: "2020-01-01"}
	old, err := docs.Doc(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := docs.Commit(t.Context(), store.Put{Key: key, IfVersion: old.Version, WriteID: store.WriteID{1, byte(old.Version)}, Data: []byte{1, 1, 9, 9}}); err != nil {
		t.Fatal(err)
	}
	event := filepath.Join(t.TempDir(), "event.json")
	if err := os.WriteFile(event, []byte(`{"source":"aws.events"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs, exit := s.invoked(t, "sweeper", event); exit != 0 {
		t.Fatalf("invoke sweeper: exit %d\n%s", exit, errs)
	}
	if d, err := docs.Doc(t.Context(), key); err != nil || len(d.Data) != 2 {
		t.Errorf("the key of 2020-01-01 after the sweep: %x, %v; want a tombstone", d.Data, err)
	}
}

// Every AWS call that a function has made in this run is allowed by its role's
// policies and by the key's own, and every grant is used.
func TestEachRoleAllowsWhatItsFunctionDoesAndNothingElse(t *testing.T) {
	s := shared(t)
	s.everything(t)
	tables, _ := s.tables(t)
	all, err := s.aws.Calls(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	keys := s.keyPolicies(t)
	for _, f := range functions.All() {
		t.Run(f.Name, func(t *testing.T) {
			p := s.rolePolicy(t, f.Name)
			var used []policy.Use
			seen := map[string]bool{}
			for _, c := range all {
				if c.Function != s.function(f.Name) {
					continue
				}
				var asks []policy.Request
				for _, a := range c.Actions {
					asks = append(asks, asked(c, a))
				}
				for _, r := range policy.Merge(asks, "dynamodb:leadingkeys") {
					if allowed, _ := p.Decide(r); !allowed && len(c.Actions) > 1 {
						t.Errorf("%s on %s with the keys %q of a transaction is not allowed by the role of %s", r.Action, r.Resource, r.Context["dynamodb:leadingkeys"], f.Name)
					}
				}
				for i, a := range c.Actions {
					allowed, by := p.Decide(asks[i])
					used = append(used, by...)
					if what := fmt.Sprint(a.Name, a.Resource, c.Context, a.Keys); !allowed && !seen[what] {
						seen[what] = true
						t.Errorf("%s on %s %v %v is not allowed by the role of %s", a.Name, a.Resource, c.Context, a.Keys, f.Name)
					}
					if k, ok := keys[a.Resource]; ok {
						if allowed, _ := k.Decide(asks[i]); !allowed {
							t.Errorf("%s on %s %v by %s is not allowed by the key's policy", a.Name, a.Resource, c.Context, c.Role)
						}
					}
					if a.Name == "dynamodb:PutItem" && strings.HasSuffix(a.Resource, "/"+tables.Rows) && !strings.Contains(a.Condition, "attribute_not_exists") {
						t.Errorf("PutItem on rows under the condition %q, want that it is not there", a.Condition)
					}
				}
			}
			for _, part := range p.Unused(used) {
				grant := f.Name + " " + p[part.Statement].Sid
				if part.Action != "" {
					grant += " " + part.Action
				}
				if !slices.Contains(policy.InLambda, grant) && !slices.Contains(policy.OfService(f), grant) {
					t.Errorf("the role of %s allows %s%s in %q, which nothing used", f.Name, part.Action, part.Resource, p[part.Statement].Sid)
				}
			}
			t.Logf("%d calls by %d statements", len(used), len(p))
		})
	}
}

// asked is an action and resource that IAM is asked about.
func asked(c server.Call, a server.Action) policy.Request {
	r := policy.Request{Action: a.Name, Resource: a.Resource, Context: map[string][]string{"aws:principalarn": {c.Role}}}
	for _, keys := range []map[string]string{c.Keys, a.Keys} {
		for key, value := range keys {
			r.Context[strings.ToLower(key)] = []string{value}
		}
	}
	for key, value := range c.Context {
		r.Context["kms:encryptioncontext:"+strings.ToLower(key)] = []string{value}
		r.Context["kms:encryptioncontextkeys"] = append(r.Context["kms:encryptioncontextkeys"], key)
	}
	return r
}

// keyPolicies returns the policies of the stage's keys, by ARN.
func (s *deployed) keyPolicies(t *testing.T) map[string]policy.Policy {
	t.Helper()
	client := kms.NewFromConfig(operator(s.aws))
	out := s.outputs(t, "data")
	all := map[string]policy.Policy{}
	for _, arn := range []string{out["SealKey"], out["HostKey"]} {
		got, err := client.GetKeyPolicy(t.Context(), &kms.GetKeyPolicyInput{KeyId: &arn, PolicyName: awssdk.String("default")})
		if err != nil {
			t.Fatal(err)
		}
		if all[arn], err = policy.ParseOf([]byte(awssdk.ToString(got.Policy)), server.Account); err != nil {
			t.Fatalf("policy of %s: %v", arn, err)
		}
	}
	return all
}

// rolePolicy lists everything that a function's deployed role may do.
func (s *deployed) rolePolicy(t *testing.T, function string) (p policy.Policy) {
	t.Helper()
	role := name(awssdk.ToString(s.configuration(t, function).Role))
	attached := s.iam(t, "ListAttachedRolePolicies", url.Values{"RoleName": {role}})
	if n := len(attached.Attached); n > 0 {
		t.Errorf("role %s has %d managed policies, want all it may do in its own", role, n)
	}
	for _, one := range s.iam(t, "ListRolePolicies", url.Values{"RoleName": {role}}).Inline {
		doc, err := url.QueryUnescape(s.iam(t, "GetRolePolicy", url.Values{"RoleName": {role}, "PolicyName": {one}}).Document)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := policy.Parse([]byte(doc))
		if err != nil {
			t.Fatalf("policy %s of role %s: %v", one, role, err)
		}
		p = append(p, parsed...)
	}
	if len(p) == 0 {
		t.Fatalf("role %s has no policy", role)
	}
	return p
}

// roleAnswer is the answer to the three requests about a role.
type roleAnswer struct {
	Attached []string `xml:"ListAttachedRolePoliciesResult>AttachedPolicies>member>PolicyArn"`
	Inline   []string `xml:"ListRolePoliciesResult>PolicyNames>member"`
	Document string   `xml:"GetRolePolicyResult>PolicyDocument"`
}

// iam asks IAM, whose protocol is form and XML.
func (s *deployed) iam(t *testing.T, action string, form url.Values) (a roleAnswer) {
	t.Helper()
	form = maps.Clone(form)
	form.Set("Action", action)
	form.Set("Version", "2010-05-08")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.aws.URL, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	who := awssdk.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}
	if err := v4.NewSigner().SignHTTP(t.Context(), who, req, "UNSIGNED-PAYLOAD", "iam", server.Region, time.Now()); err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s, %v", action, resp.StatusCode, b, err)
	}
	if err := xml.Unmarshal(b, &a); err != nil {
		t.Fatalf("%s: %v: %s", action, err, b)
	}
	return a
}

// The command replays the sample events on the deployed function.
func TestEverySampleEventIsReplayedByInvoke(t *testing.T) {
	s := shared(t)
	files, err := filepath.Glob(filepath.Join(root(t), "events", "*.json"))
	if err != nil || len(files) < len(functions.All()) {
		t.Fatalf("%d samples, %v; want one for each function at least", len(files), err)
	}
	replayed := map[string]bool{}
	for _, file := range files {
		function, _, _ := strings.Cut(filepath.Base(file), "-")
		function = strings.TrimSuffix(function, ".json")
		t.Run(filepath.Base(file), func(t *testing.T) {
			out, errs, _ := s.invoked(t, function, file, "--json")
			var r struct {
				Status int
				Error  string
				Answer json.RawMessage
			}
			err := json.Unmarshal(out, &r)
			// The gate's samples are of an attempt that never existed.
			unknown := bytes.Contains(r.Answer, []byte("is not known"))
			if err != nil || r.Error != "" && !unknown || r.Status >= 500 {
				t.Errorf("invoke %s: %v\n%s%s", function, err, out, errs)
			}
			t.Logf("%d", r.Status)
			replayed[function] = true
		})
	}
	if got := slices.Sorted(maps.Keys(replayed)); !slices.Equal(got, slices.Sorted(slices.Values(functions.Names()))) {
		t.Errorf("samples were replayed on %v, want them on each of %v", got, functions.Names())
	}
}

func TestLocalAWSSkippedNothing(t *testing.T) {
	skipped, err := local(t).ReadSkippedResources()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range skipped {
		t.Errorf("the local AWS did not do: %s", line)
	}
}
