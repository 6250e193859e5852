//go:build unix

package lambda

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/tests/awshost"
)

// registered is a host with the samples' vacant, whose key the samples have.
func registered(t *testing.T) *awshost.Host {
	t.Helper()
	return registeredAt(t, time.Now)
}

func registeredAt(t *testing.T, now func() time.Time) *awshost.Host {
	t.Helper()
	host := operated(t)
	spec := vacants.CreateSpec{Name: "sample", Capability: "echoes", Substrate: "echo", Key: sampleVacant}
	must(t, errorOf(host.Open(t, host.Store(host.Endpoint), now, nil).Vacants.Create(t.Context(), spec)))
	return host
}

// publish sends a publication of the samples' vacant, and requires a status.
func publish(t *testing.T, registry *Function, halo registryclient.Publication, status int, says string) {
	t.Helper()
	body, err := json.Marshal(halo)
	must(t, err)
	r, err := registry.Post(t.Context(), "/v1/halo", body)
	if err != nil || r.Status != status || !strings.Contains(r.Body, says) {
		t.Fatalf("publishing = %d %s, %v; want %d with %q\n%s", r.Status, r.Body, err, status, says, registry.Log())
	}
}

// From a stranger's POST to its signed proof, through the deployed functions.
func TestPublishedVacantIsSearchableAndSealed(t *testing.T) {
	host := registered(t)
	store, blobs := bucket(t)
	id := sampleVacant.ID().String()
	registry := run(t, "registry", host)
	replay(t, registry, []step{
		{"registry-revocations.json", 200, `[]`},
		{"registry-card.json", 404, `"code":"not_found"`},
		{"registry-checkpoint.json", 404, `"code":"not_found"`},
		{"registry-halo.json", 400, `"code":"clock"`},
		{"registry-forged.json", 401, `"code":"bad_signature"`},
	})
	halo := sampleHalo(time.Now())
	publish(t, registry, halo, 200, `"event_seq":1`)
	publish(t, registry, halo, 200, `"replayed":true`)
	replay(t, registry, []step{
		{"registry-card.json", 200, id},
		{"registry-events.json", 200, `"event_type":"register"`},
		{"registry-admin.json", 404, `"code":"not_found"`},
	})

	search := run(t, "search", host, blobs...)
	replay(t, search, []step{
		{"search-words.json", 200, id}, {"search-reference.json", 200, id}, {"search-query.json", 200, id},
		{"search-long.json", 400, `"code":"malformed"`},
	})

	checkpointer := run(t, "checkpointer", host)
	for range 2 {
		invoke(t, checkpointer, "checkpointer-schedule.json")
	}
	if diff := cmp.Diff([][]any{{"ok", 1., 1.}, {"ok", 1., 0.}}, pick(lines(t, checkpointer), "done", "verdict", "size", "added")); diff != "" {
		t.Errorf("what the checkpointer sealed (-want +got):\n%s", diff)
	}
	replay(t, registry, []step{{"registry-checkpoint.json", 200, "vacancy/"}, {"registry-inclusion.json", 200, `"tree_size":1`}})

	indexer := run(t, "indexer", host, blobs...)
	for _, name := range []string{"indexer-changed.json", "indexer-changed.json", "indexer-reindex.json"} {
		invoke(t, indexer, name)
	}
	want := [][]any{{"ok", true, 1.}, {"ok", false, nil}, {"ok", true, 1.}}
	if diff := cmp.Diff(want, pick(lines(t, indexer), "done", "verdict", "published", "entries")); diff != "" {
		t.Errorf("what the indexer published (-want +got):\n%s\n%s", diff, indexer.Log())
	}
	store.asked()
	fresh := run(t, "search", host, blobs...)
	replay(t, fresh, []step{{"search-words.json", 200, id}})
	loaded := store.asked()
	if !slices.ContainsFunc(loaded, func(r string) bool { return strings.HasSuffix(r, ".tar") }) || loaded[0] != "GET search/manifest.json" {
		t.Errorf("a fresh search asked the bucket for %v, want the manifest and the archive that it names", loaded)
	}
}

// A stranger's publications and reads are one line each, without search words
// or keys.
func TestALineOfTheRegistryAndOfSearchTellsNoSecret(t *testing.T) {
	host := registered(t)
	_, blobs := bucket(t)
	registry, search := run(t, "registry", host), run(t, "search", host, blobs...)
	publish(t, registry, sampleHalo(time.Now()), 200, "")
	replay(t, registry, []step{{"registry-card.json", 200, ""}})
	replay(t, search, []step{{"search-words.json", 200, ""}})
	for f, n := range map[*Function]int{registry: 2, search: 1} {
		all := lines(t, f)
		if len(all) != n {
			t.Errorf("%d lines for %d requests:\n%s", len(all), n, f.Log())
		}
		for _, m := range all {
			if m["_aws"] == nil || m["verdict"] != "ok" || m["ms"] == nil {
				t.Errorf("a line without metrics: %v", m)
			}
		}
		for _, word := range []string{"echo", "event_signature"} {
			if strings.Contains(f.Log(), word) {
				t.Errorf("%q is in the log:\n%s", word, f.Log())
			}
		}
	}
}

// A bucket that does not answer, or has a broken index, delays no search: it
// uses the feed.
func TestASearchIsAnsweredWithoutAnIndexInTheBucket(t *testing.T) {
	host := registered(t)
	store, blobs := bucket(t)
	publish(t, run(t, "registry", host), sampleHalo(time.Now()), 200, "")
	id := sampleVacant.ID().String()
	store.kept["search/manifest.json"] = object3{body: []byte("{}"), at: time.Now()}
	broken := run(t, "search", host, blobs...)
	replay(t, broken, []step{{"search-words.json", 200, id}})

	indexer := run(t, "indexer", host, blobs...)
	invoke(t, indexer, "indexer-changed.json")
	if keys := store.keys(); len(keys) != 2 {
		t.Errorf("the bucket holds %v, want a manifest and an archive", keys)
	}
	away := run(t, "search", host, "AWS_ENDPOINT_URL_S3=http://127.0.0.1:1", "VACANCY_BLOBS="+sampleBucket)
	r, err := away.Send(t.Context(), sample(t, "search-words.json"))
	if err != nil || r.Status != 503 || !json.Valid([]byte(r.Body)) {
		t.Errorf("search without a bucket = %d %s, %v; want 503 until it answers", r.Status, r.Body, err)
	}
}

// Strangers' lookups and searches together read at most an instance's limit,
// and later ones are refused before any read.
func TestRegistryAndSearchRefuseWhenTooMuchWasRead(t *testing.T) {
	host := registered(t)
	_, blobs := bucket(t)
	publish(t, run(t, "registry", host), sampleHalo(time.Now()), 200, "")
	const reads = "VACANCY_READS=0.01:1"
	registry, search := run(t, "registry", host, reads), run(t, "search", host, append(blobs, reads)...)
	replay(t, registry, []step{
		{"registry-card.json", 200, ""},
		{"registry-events.json", 200, ""},
		{"registry-events.json", 429, `"code":"too_many"`},
		{"registry-halo.json", 429, `"code":"too_many"`},
	})
	replay(t, search, []step{{"search-words.json", 200, ""}, {"search-words.json", 429, `"code":"too_many"`}})
	for f, name := range map[*Function]string{registry: "registry-card.json", search: "search-words.json"} {
		r, err := f.Send(t.Context(), sample(t, name))
		if seconds, _ := strconv.Atoi(r.Headers["Retry-After"]); err != nil || r.Status != 429 || seconds < 1 {
			t.Errorf("%s = %d, Retry-After %q, %v; want 429 and Retry-After", name, r.Status, r.Headers["Retry-After"], err)
		}
		var refused int
		for _, m := range lines(t, f) {
			if m["status"] != 429. {
				continue
			}
			refused++
			if m["verdict"] != "refused" || m["trips"] != nil || m["rcu"] != nil {
				t.Errorf("the line of a refusal = %v, want no read in it", m)
			}
		}
		if refused < 2 {
			t.Errorf("%d lines of refusals, want each\n%s", refused, f.Log())
		}
	}
}
