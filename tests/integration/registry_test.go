package integration

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	indexes "github.com/vacancy-host/vacancy/shared/host/registry/search/snapshot"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/tests/caller"
)

// carrier sends requests to a stage's registry, and searches to search, like
// the edge, which does not exist locally.
type carrier struct {
	stage *deployed
	http  *http.Client
}

// Do implements registryclient.Transport.
func (c carrier) Do(ctx context.Context, r outbound.Request) (outbound.Reply, error) {
	if rest := strings.TrimPrefix(r.URL, c.stage.RegistryURL); strings.HasPrefix(rest, "/v1/search") || strings.HasPrefix(rest, "/v1/query_capability") {
		r.URL = c.stage.SearchURL + rest
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, strings.NewReader(string(r.Body)))
	if err != nil {
		return outbound.Reply{}, err
	}
	req.Header = r.Header
	resp, err := c.http.Do(req)
	if err != nil {
		return outbound.Reply{}, problem.Wrap(problem.Unavailable, err, "no answer")
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return outbound.Reply{Status: resp.StatusCode, Header: resp.Header, Body: body}, err
}

// registry is a client of the stage's registry; as is the reader, nil for an
// anonymous one.
func (s *deployed) registry(t *testing.T, as identity.Signer) *registryclient.Client {
	t.Helper()
	return &registryclient.Client{Transport: carrier{s, web(t, s.aws, "")}, URL: s.RegistryURL, Reader: as, Now: time.Now}
}

// word is unique.
func word(t *testing.T) string {
	t.Helper()
	b := make([]byte, 5)
	rand.Read(b)
	return "zq" + hex.EncodeToString(b)
}

// published is a vacant of the stage with its key, as exported by the host.
type published struct {
	key  *identity.Key
	card card.Card
	seq  int64
}

// draft is a hosted vacant whose own key signs its card.
func (s *deployed) draft(t *testing.T, capability string) *published {
	t.Helper()
	id := s.vacant(t)
	key := s.key(t, id)
	c, err := card.New(id, capability, []string{"echo"}, s.URL+"/v/"+id.String()+caller.SendPath)
	if err == nil {
		err = c.Sign(t.Context(), key)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &published{key: key, card: c}
}

// key is the key of a vacant of the stage, which the host exports to its
// operator.
func (s *deployed) key(t *testing.T, id identity.ID) *identity.Key {
	t.Helper()
	b, err := s.admin(t).Export(t.Context(), id.String())
	if err != nil {
		t.Fatal(err)
	}
	var brought struct {
		Seed string `json:"seed_hex"`
	}
	if err := json.Unmarshal(b, &brought); err != nil {
		t.Fatal(err)
	}
	seed, err := hex.DecodeString(brought.Seed)
	if err != nil {
		t.Fatal(err)
	}
	key, err := identity.KeyFromSeed(seed)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// halo is the next publication of the vacant, as the reference's SDK sends it.
func (p *published) halo(t *testing.T, v lifecycle.Visibility) registryclient.Publication {
	t.Helper()
	family := "echo"
	d := registryclient.Draft{Card: p.card, State: lifecycle.Active, Visibility: v, Family: &family, DeclaredCapabilities: []string{p.card.CapabilityText}}
	p.seq++
	h, err := d.Sign(t.Context(), p.key, p.seq, "register:"+word(t), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// invoked runs a function with an event. There is one instance of each function: its own
// trigger may have run before.
func (s *deployed) invoked(t *testing.T, function, file string, more ...string) (stdout, stderr []byte, exit int) {
	t.Helper()
	await.Until(t, "an instance of "+function+" is free", func() bool {
		stdout, stderr, exit = s.try(t, root(t), append([]string{"invoke", function, file}, more...)...)
		return exit != problem.ExitUnavailable
	})
	return stdout, stderr, exit
}

// invoke runs a function with a sample event.
func (s *deployed) invoke(t *testing.T, event string) {
	t.Helper()
	function, _, _ := strings.Cut(event, "-")
	out, errs, exit := s.invoked(t, function, root(t)+"/events/"+event+".json")
	if exit != 0 {
		t.Fatalf("invoke %s: exit %d\n%s%s", function, exit, out, errs)
	}
}

// looked makes the registry and everything behind it do all that they ever do.
func (s *deployed) looked(t *testing.T) {
	t.Helper()
	ctx, r, skill := t.Context(), s.registry(t, nil), word(t)
	p := s.draft(t, "speaks "+skill)
	id := p.card.VacantID
	if _, err := r.Publish(ctx, p.halo(t, lifecycle.Public)); err != nil {
		t.Fatal(err)
	}
	s.kill(t, "search") // so that the next one loads what is published
	soon(t, r, skill, id)
	_, shown := r.Card(ctx, id)
	_, log := r.EventLog(ctx, id, 0, 10)
	_, lineage := r.Lineage(ctx, id, "descendants", 2)
	_, revoked := r.Revocations(ctx)
	for _, err := range []error{shown, log, lineage, revoked} {
		if err != nil {
			t.Fatal(err)
		}
	}
	silent := &published{key: caller.New(t, id).Key}
	var err error
	if silent.card, err = card.New(silent.key.ID(), "is silent", nil, "https://nobody.invalid/"); err == nil {
		err = silent.card.Sign(ctx, silent.key)
	}
	if err != nil {
		t.Fatal(err)
	}
	if receipt, err := r.Publish(ctx, silent.halo(t, lifecycle.Public)); err != nil || !receipt.AwaitsProbe {
		t.Fatalf("publish elsewhere = %+v, %v; want it unreached", receipt, err)
	}
	for _, event := range []string{"checkpointer-schedule", "indexer-changed", "indexer-reindex", "prober-schedule", "admin-canary"} {
		s.invoke(t, event)
	}
	if out, errs, exit := s.try(t, root(t), "log", "verify", s.RegistryURL); exit != 0 {
		t.Fatalf("log verify: exit %d\n%s%s", exit, out, errs)
	}
}

// found are the ids that a search finds.
func found(t *testing.T, r *registryclient.Client, query string) (ids []identity.ID) {
	t.Helper()
	page, err := r.Search(t.Context(), registryclient.Query{Words: query})
	if err != nil {
		t.Fatalf("search %q: %v", query, err)
	}
	for _, m := range page.Matches {
		if _, err := m.VerifiedCard(); err != nil {
			t.Errorf("search %q shows %s: %v", query, m.ID.Short(), err)
		}
		ids = append(ids, m.ID)
	}
	return ids
}

// soon waits until a search finds exactly one, and logs how long that took.
func soon(t *testing.T, r *registryclient.Client, query string, want identity.ID) time.Duration {
	t.Helper()
	began := time.Now()
	await.Until(t, "a search finds "+query, func() bool { return slices.Equal(found(t, r, query), []identity.ID{want}) })
	return time.Since(began)
}

// manifest is the index manifest in the stage's bucket; the zero one if there
// is none.
func (s *deployed) manifest(t *testing.T) (m indexes.Manifest) {
	t.Helper()
	got, err := bucket(s).GetObject(t.Context(), &s3.GetObjectInput{Bucket: awssdk.String(s.outputs(t, "data")["Blobs"]), Key: awssdk.String(indexes.Prefix + "manifest.json")})
	if err != nil {
		return m
	}
	defer got.Body.Close()
	if err := json.NewDecoder(got.Body).Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

// The stream invokes the indexer, which publishes the changes; a search that
// starts then loads them.
func TestAnIndexIsPublishedAndLoadedByAFreshSearch(t *testing.T) {
	local(t)
	s := shared(t)
	r, skill := s.registry(t, nil), word(t)
	p := s.draft(t, "speaks "+skill)
	before := s.manifest(t)
	if _, err := r.Publish(t.Context(), p.halo(t, lifecycle.Public)); err != nil {
		t.Fatal(err)
	}
	m := before
	await.Until(t, "an index is published", func() bool {
		m = s.manifest(t)
		return m.Archive != before.Archive
	})
	t.Logf("the index has %d entries in %d bytes", m.Entries, m.Size)
	s.kill(t, "search")
	since := time.Now()
	soon(t, r, skill, p.card.VacantID)
	calls, err := s.aws.Calls(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var loaded []string
	for _, c := range calls {
		if c.Function == s.function("search") && c.Operation == "GetObject" && !c.Time.Before(since) {
			_, key, _ := strings.Cut(c.Actions[0].Resource, "/")
			loaded = append(loaded, key)
		}
	}
	if len(loaded) < 2 || loaded[0] != indexes.Prefix+"manifest.json" || !strings.HasSuffix(loaded[1], ".tar") {
		t.Errorf("a fresh search read %v of the bucket, want the manifest and its archive", loaded)
	}
	s.invoke(t, "indexer-reindex")
	if fresh := s.manifest(t); fresh.Archive == m.Archive || fresh.Entries < m.Entries {
		t.Errorf("the index made again is %+v, want another with as many entries as %+v", fresh, m)
	}
}

// A person publishes, searches, calls and withdraws by commands, on a host
// named only by the flag.
func TestTheCommandsOfTheRegistryWorkOnADeployedHost(t *testing.T) {
	s := shared(t)
	name, skill := "p"+word(t), word(t)
	type want struct {
		args string
		exit int
		says string
	}
	run := func(steps ...want) {
		t.Helper()
		for _, w := range steps {
			out, errs, exit := s.try(t, root(t), strings.Fields(w.args)...)
			if exit != w.exit || !strings.Contains(string(out)+string(errs), w.says) {
				t.Errorf("vacancy %s: exit %d, want %d and %q\n%s%s", w.args, exit, w.exit, w.says, out, errs)
			}
		}
	}
	run(
		want{"init " + name + "-caller", 0, ""},
		want{"create " + name + " --capability " + skill + " --host aws", 0, name},
		want{"publish " + name + " --tag " + skill + " --host aws", 0, ""},
	)
	v, err := admin.ShowVacant.Call(t.Context(), s.admin(t), admin.VacantRef{Vacant: name})
	if err != nil {
		t.Fatal(err)
	}
	soon(t, s.registry(t, nil), skill, v.ID)
	run(
		want{"search " + skill + " --host aws", 0, skill},
		want{"search " + skill + " --tag " + skill + " --host " + s.URL, 0, skill},
		want{"call --capability " + skill + " hello --host aws --as " + name + "-caller", 0, "hello"},
		want{"publish " + name + " --price 1 --host aws", 2, "price"},
		want{"unpublish " + name + " --host aws", 0, ""},
		want{"publish " + name + " --host aws", 0, ""},
		want{"revoke " + name + " --reason gone --yes --host aws", 0, ""},
		want{"publish " + name + " --host aws", 4, "SUNK"},
	)
	if ids := found(t, s.registry(t, nil), skill); cmp.Diff([]identity.ID(nil), ids) != "" {
		t.Errorf("search finds %v after it was revoked, want nobody", ids)
	}
	s.whole(t)
}
