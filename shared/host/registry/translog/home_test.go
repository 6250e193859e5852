package translog_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/merkle/testonly"

	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

var stream = store.StreamOf("evt", identity.ID{})

// fixture is a store with events, and the expected tree.
type fixture struct {
	*testing.T
	Store store.Store
	Key   *identity.Key
	Now   time.Time
	May   map[identity.ID]bool // who may witness

	mu   sync.Mutex
	last identity.Hash
	n    uint64
	tree *testonly.Tree
}

func newWorld(t *testing.T) *fixture {
	t.Helper()
	key, err := identity.NewKey(rand.Reader)
	must(t, err)
	return &fixture{T: t, Store: memory.New(), Key: key, Now: time.Unix(1_800_000_000, 0), May: map[identity.ID]bool{},
		tree: testonly.New(rfc6962.DefaultHasher)}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// errorOf returns the error of a call that returns a value, too.
func errorOf[T any](_ T, err error) error { return err }

// leaf decodes a row: its event's hash and the previous hash.
func leaf(row store.Row) (event, prev identity.Hash, err error) {
	if len(row.Data) != 2*identity.Size {
		return event, prev, problem.New(problem.Damaged, "row %d has %d bytes", row.Position, len(row.Data))
	}
	return identity.Hash(row.Data[:identity.Size]), identity.Hash(row.Data[identity.Size:]), nil
}

func (w *fixture) config(s store.Store) translog.Config {
	return translog.Config{
		Store: s, Stream: stream, DecodeLeaf: leaf,
		Identity:  func(context.Context) (identity.Signer, error) { return w.Key, nil },
		IsWitness: func(_ context.Context, id identity.ID) (bool, error) { return w.May[id], nil },
		Now:       func() time.Time { return w.Now }, Rand: rand.Reader,
		Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	}
}

func (w *fixture) log(s store.Store, batch uint64) *translog.Log {
	w.Helper()
	l, err := translog.New(w.config(s))
	must(w, err)
	if batch > 0 {
		l.SetBatch(batch)
	}
	return l
}

// events appends n events.
func (w *fixture) events(n int) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for range n {
		event := identity.Sum(fmt.Appendf(nil, "%x %d", w.last, w.n))
		data := append(bytes.Clone(event[:]), w.last[:]...)
		row := store.Append{Stream: stream, Position: w.n + 1, WriteID: store.WriteID{1, byte(w.n)}, Data: data}
		must(w, w.Store.Commit(context.Background(), row))
		w.n, w.last = w.n+1, event
		w.tree.AppendData(event[:])
	}
}

// root returns the RFC 6962 root of the first n events.
func (w *fixture) root(size uint64) [32]byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return [32]byte(w.tree.HashAt(size))
}

// seal calls Seal and compares the result with the expected tree.
func (w *fixture) seal(l *translog.Log) translog.SealResult {
	w.Helper()
	s, err := l.Seal(w.Context())
	if err != nil {
		w.Fatalf("Seal() = %v, want nil", err)
	}
	if s.Size != w.n || s.Root != w.root(w.n) {
		w.Fatalf("Seal() = %d events under %x, want %d under %x", s.Size, s.Root, w.n, w.root(w.n))
	}
	return s
}

// latest returns the newest checkpoint, verified as an outsider would.
func (w *fixture) latest(l *translog.Log) translog.PublishedCheckpoint {
	w.Helper()
	p, err := l.LoadLatestCheckpoint(w.Context())
	must(w, err)
	c, _, err := translog.VerifyCheckpoint(p.Note)
	if err != nil || c != p.Checkpoint || c.Host != w.Key.ID() || c.Root != w.root(c.Size) {
		w.Fatalf("the newest checkpoint = %+v, %v", c, err)
	}
	return p
}
