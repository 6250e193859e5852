package faults

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/mock"
	"github.com/vacancy-host/vacancy/shared/host/team"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/blob"
	"github.com/vacancy-host/vacancy/shared/store/blob/files"
	"github.com/vacancy-host/vacancy/tests/awshost"
	"github.com/vacancy-host/vacancy/tests/estimates"
	"github.com/vacancy-host/vacancy/tests/roundtrips"
)

// countedBlobs counts requests.
type countedBlobs struct {
	blob.Blobs
	puts, others int
}

func (c *countedBlobs) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, cond blob.Condition) (string, error) {
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
		CheckWritable: func(context.Context, string) error { return nil },
	})
	ref := workspace.Ref{Owner: "acme", Name: workspace.MainName}
	lock := store.Key{Partition: "lock", Sort: "1"}
	must(t, s.Commit(ctx, store.Put{Key: lock, WriteID: store.WriteID{1}, Number: 7}))
	_, err = w.Write(ctx, ref, workspace.Change{Path: "docs/first.md"})
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
		q := workspace.Change{Path: tt.path, Data: make([]byte, 4000), Task: "0123456789abcdef0123456789abcdef"}
		if tt.locked {
			q.AddWrites = func(_ context.Context, tx *store.Tx) error {
				tx.AddWrites(store.Add{Key: lock, Min: 7, Max: 7})
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

// A task takes its lock in the commit of its dispatch, and gives it back without a write. A short turn writes its log
// once, and its trace once.
func TestALockAndALogConsumeFewWriteUnits(t *testing.T) {
	h := newFixture(t)
	h.answered("the first of the day")
	ctx, counter, queue, now := t.Context(), &roundtrips.Counter{}, &messages{}, time.Now()
	dir, err := files.Open(t.TempDir(), now)
	must(t, err)
	// The clock stands still, so no turn takes a second.
	server, err := serve.Config{
		Store: h.Store(h.Endpoint, counter.Option), Blobs: func() (blob.Blobs, error) { return dir, nil }, Vault: h.Vault, Substrates: mock.Kinds(), URL: awshost.URL,
		Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }, Rand: rand.Reader, AllowRemote: true, HasAccounts: true,
	}.Open()
	must(t, err)
	agents := server.OpenQueuedA2A(serve.Queues{Tasks: queue, Notices: &messages{}, MaxTurns: 64})
	// The names are as long as each other, because the documents contain them.
	for name, a := range map[string]definition.Agent{
		"plain": {System: "text: done"}, "locks": {System: "text: done", LockPaths: []string{"docs/"}},
		"calls": {System: strings.Repeat("call: LS {}\n", 20) + "---\ntext: done"},
	} {
		a.Provider, a.System = substrate.KindMock, "```mock\n"+a.System+"\n```"
		_, err := server.Vacants.Create(ctx, vacants.CreateSpec{Name: name, Capability: "works", Agent: &a})
		must(t, err)
	}
	// measure returns the write units of a dispatch and of its turn.
	measure := func(agent string) (dispatch, turn float64) {
		t.Helper()
		counter.Reset()
		started, err := agents.Team.Dispatch(ctx, team.Caller{}, team.Request{Agent: agent, Text: "hi"})
		must(t, err)
		dispatch = counter.WriteUnits()
		counter.Reset()
		must(t, agents.Tasks.RunQueued(ctx, (*queue)[len(*queue)-1]))
		turn = counter.WriteUnits()
		t.Logf("%s: %v write units of the dispatch, %v of the turn, %v", agent, dispatch, turn, counter.Operations())
		got, err := agents.Team.Status(ctx, team.Caller{}, started.TaskID, 0)
		must(t, err)
		if got.Status != "completed" || got.Lock != nil {
			t.Errorf("%s: the task is %s with the lock %v, want it completed without one", agent, got.Status, got.Lock)
		}
		return dispatch, turn
	}
	measure("plain") // makes the secrets of the day
	plain, plainTurn := measure("plain")
	locked, lockedTurn := measure("locks")
	_, busyTurn := measure("calls")
	if took := locked - plain; took <= 0 || took > 4 { // the locks of the workspace, and their number
		t.Errorf("a lock is taken by %v write units, want at most 4", took)
	}
	if gave := lockedTurn - plainTurn; gave != 0 {
		t.Errorf("a lock is given back by %v write units, want none", gave)
	}
	if logged := busyTurn - plainTurn; logged <= 0 || logged > 10 {
		t.Errorf("the log and the trace of 20 calls of tools are %v write units, want at most 10", logged)
	}
}
