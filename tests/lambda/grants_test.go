//go:build unix

package lambda

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/registry/registrytest"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/dynamo"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/awshost"
)

// storeOf opens the tables in this process, with the role of a function.
func storeOf(t *testing.T, function string, host *awshost.Host) *dynamo.Store {
	t.Helper()
	_, endpoint, _ := strings.Cut(judge(t, function, host, []string{"AWS_ENDPOINT_URL=" + host.Endpoint})[0], "=")
	return host.Store(endpoint)
}

// An instance that has not read the row below an append reads it first.
func TestEachRoleThatAppendsMayReadTheRowBelow(t *testing.T) {
	host := awshost.New(t)
	for i, function := range []string{"agent", "commit", "gateway", "message", "sweeper", "worker"} {
		stream := store.StreamOf(store.KindRequest, identity.ID{1}, identity.ID{byte(i)})
		row := func(position uint64) store.Append {
			return store.Append{Stream: stream, Position: position, WriteID: store.WriteID{byte(position)}, Data: []byte("row")}
		}
		must(t, host.Store(host.Endpoint).Commit(t.Context(), row(1)))
		if err := storeOf(t, function, host).Commit(t.Context(), row(2)); err != nil {
			t.Errorf("%s: Commit() = %v", function, err)
		}
	}
}

// No endpoint on this machine may be listed, so the prober's job runs in this process, with a probe that succeeds. Its
// requests are judged by the role of the function.
func TestTheProberListsAVacantWhoseEndpointAnswers(t *testing.T) {
	host := awshost.NewInKMS(t)
	r := host.Open(t, host.Store(host.Endpoint), time.Now, nil).Registry
	p := registrytest.NewPublication(t, registrytest.Key(1), registrytest.Draft{Endpoint: "https://elsewhere.example/", SignedAt: time.Now()})
	if receipt, err := r.Publish(t.Context(), p); err != nil || !receipt.AwaitsProbe {
		t.Fatalf("Publish() = %+v, %v; want it unreached", receipt, err)
	}
	prober := host.Open(t, storeOf(t, "prober", host), time.Now, nil).Registry
	if got, err := prober.ProbeEndpoints(t.Context(), func(context.Context, string) error { return nil }); err != nil || got.Listed != 1 {
		t.Errorf("ProbeEndpoints() = %+v, %v; want the vacant listed", got, err)
	}
	if n, err := r.ListedCount(t.Context()); err != nil || n != 1 {
		t.Errorf("VenueCount() = %d, %v, want 1", n, err)
	}
}

// An archive that no manifest names is removed after an hour.
func TestTheIndexerRemovesOldArchives(t *testing.T) {
	host := registered(t)
	store, blobs := bucket(t)
	publish(t, run(t, "registry", host), sampleHalo(time.Now()), 200, "")
	const old, recent = "search/old.tar", "search/recent.tar"
	store.kept[old], store.kept[recent] = object3{at: time.Now().Add(-2 * time.Hour)}, object3{at: time.Now()}
	indexer := run(t, "indexer", host, blobs...)
	invoke(t, indexer, "indexer-changed.json")
	if keys := store.keys(); slices.Contains(keys, old) || !slices.Contains(keys, recent) || len(keys) != 3 {
		t.Errorf("the bucket holds %v, want %s, a manifest and its archive", keys, recent)
	}
}
