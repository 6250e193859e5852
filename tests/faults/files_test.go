package faults

import (
	"context"
	"crypto/rand"
	"io"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/blob"
	"github.com/vacancy-host/vacancy/shared/store/blob/files"
	"github.com/vacancy-host/vacancy/tests/estimates"
	"github.com/vacancy-host/vacancy/tests/roundtrips"
)

// countedBlobs counts requests.
type countedBlobs struct {
	blob.Blobs
	puts, others int
}

func (c *countedBlobs) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, cond blob.If) (string, error) {
	c.puts++
	return c.Blobs.Put(ctx, key, body, size, cond)
}

func (c *countedBlobs) Get(ctx context.Context, key string) (blob.Object, error) {
	c.others++
	return c.Blobs.Get(ctx, key)
}

func (c *countedBlobs) Delete(ctx context.Context, key string) error {
	c.others++
	return c.Blobs.Delete(ctx, key)
}

// A write of a file is one PUT and at most six write units, with the condition of a lock.
func TestAFileWriteConsumesFewWriteUnits(t *testing.T) {
	h := newFixture(t)
	ctx := t.Context()
	dir, err := files.Open(t.TempDir(), time.Now())
	must(t, err)
	blobs, counter := &countedBlobs{Blobs: dir}, &roundtrips.Counter{}
	s := h.Store(h.Endpoint, counter.Option)
	w := workspace.New(workspace.Config{
		Store: store.Updater{Store: s, Rand: rand.Reader}, Blobs: func() (blob.Blobs, error) { return blobs, nil }, Vault: h.Vault, Now: time.Now,
		MayWrite: func(context.Context, string) error { return nil },
	})
	ref := workspace.Ref{Owner: "acme", Name: workspace.Main}
	lock := store.Key{Partition: "lock", Sort: "1"}
	must(t, s.Commit(ctx, store.Put{Key: lock, WriteID: store.WriteID{1}, Number: 7}))
	_, err = w.Write(ctx, ref, workspace.Write{Path: "docs/first.md"})
	must(t, err)
	model := estimates.File
	for _, tt := range []struct {
		what, path string
		locked     bool
		units      float64
	}{
		{"new", "docs/report.md", false, model.WriteUnits}, {"replaced", "docs/report.md", false, model.WriteUnits}, {"under a lock", "docs/report.md", true, 6},
	} {
		counter.Reset()
		blobs.puts, blobs.others = 0, 0
		q := workspace.Write{Path: tt.path, Data: make([]byte, 4000), Task: "0123456789abcdef0123456789abcdef"}
		if tt.locked {
			q.Also = func(_ context.Context, tx *store.Tx) error {
				tx.Add(store.Add{Key: lock, Min: 7, Max: 7})
				return nil
			}
		}
		_, err := w.Write(ctx, ref, q)
		must(t, err)
		t.Logf("%s: %v write units, %v read units, %v", tt.what, counter.WriteUnits(), counter.ReadUnits(), counter.Operations())
		if counter.WriteUnits() > tt.units || counter.ReadUnits() > model.ReadUnits || blobs.puts != 1 || blobs.others != 0 {
			t.Errorf("%s: a write consumed %v write and %v read units, %d PUTs and %d other requests; want at most %v, %v, one and none",
				tt.what, counter.WriteUnits(), counter.ReadUnits(), blobs.puts, blobs.others, tt.units, model.ReadUnits)
		}
	}
}
