package translog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func TestTheFirstSealSignsTheEmptyLog(t *testing.T) {
	w := newWorld(t)
	l := w.log(w.Store, 0)
	got := w.seal(l)
	want := translog.SealResult{Checkpoint: translog.Checkpoint{Host: w.Key.ID(), Root: w.root(0)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Seal() (-want +got):\n%s", diff)
	}
	w.latest(l)
	if _, err := l.Epoch(t.Context(), 0); !problem.Is(err, problem.NotFound) || problem.AsError(err).Text() != "no sealed epoch yet" {
		t.Errorf("Epoch(0) = %v, want the reference's text", err)
	}
}

func TestASealWithNothingNewWritesNothing(t *testing.T) {
	w, l := sealedAt(t, 300)
	before := w.documents()
	if got := w.seal(l); got.AddedLeaves != 0 || got.EpochCount != 1 {
		t.Errorf("Seal() = %d added, %d epochs, want 0 and 1", got.AddedLeaves, got.EpochCount)
	}
	if diff := cmp.Diff(before, w.documents()); diff != "" {
		t.Errorf("documents (-before +after):\n%s", diff)
	}
}

func TestABacklogIsSealedInSteps(t *testing.T) {
	w := newWorld(t)
	l := w.log(w.Store, 256)
	w.events(1000)
	if got := w.seal(l); got.AddedLeaves != 1000 || got.EpochCount != 4 {
		t.Errorf("Seal() = %d added, %d epochs, want 1000 and 4", got.AddedLeaves, got.EpochCount)
	}
	for n, want := range []translog.Epoch{
		{ID: 1, FirstSeq: 1, LastSeq: 256, TreeSize: 256},
		{ID: 2, FirstSeq: 257, LastSeq: 512, TreeSize: 256},
		{ID: 3, FirstSeq: 513, LastSeq: 768, TreeSize: 256},
		{ID: 4, FirstSeq: 769, LastSeq: 1000, TreeSize: 232},
	} {
		w.wantEpoch(l, uint64(n+1), want)
	}
	w.wantEpoch(l, 0, translog.Epoch{ID: 4, FirstSeq: 769, LastSeq: 1000, TreeSize: 232})
	for _, size := range []uint64{256, 512, 768, 1000} {
		if p, err := l.LoadCheckpoint(t.Context(), size); err != nil || p.Root != w.root(size) {
			t.Errorf("LoadCheckpoint(%d) = %x, %v, want its root", size, p.Root, err)
		}
	}
}

// wantEpoch checks range, root and signature of an epoch against the events.
func (w *fixture) wantEpoch(l *translog.Log, number uint64, want translog.Epoch) {
	w.Helper()
	got, err := l.Epoch(w.Context(), number)
	if err != nil {
		w.Fatalf("Epoch(%d) = %v", number, err)
	}
	var tree translog.EpochTree
	rows, err := w.Store.Rows(w.Context(), stream, want.FirstSeq, int(want.TreeSize), store.Ascending)
	must(w, err)
	for _, row := range rows {
		tree.Add(identity.Hash(row.Data[:identity.Size]))
	}
	want.Root, want.SealedAt, want.Host, want.Signature = tree.Root(), w.Now.UnixMilli(), w.Key.ID(), got.Signature
	want.Checkpoint = translog.Checkpoint{Host: want.Host, Size: want.LastSeq, Root: w.root(want.LastSeq)}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("Epoch(%d) (-want +got):\n%s", number, diff)
	}
	if !identity.Verify(got.Host, translog.EpochBytes(got.Root), got.Signature) {
		w.Errorf("Epoch(%d) is not signed by its host", number)
	}
}

// documents returns all documents of the log except the lease.
func (w *fixture) documents() map[string]string {
	w.Helper()
	all := map[string]string{}
	for cursor := ""; ; {
		docs, next, err := w.Store.Docs(w.Context(), store.Range{Partition: translog.HeadDocs.Partition}, store.MaxPage, cursor)
		must(w, err)
		for _, d := range docs {
			if d.Key.Sort != "lease" {
				all[d.Key.Sort] = string(d.Data)
			}
		}
		if cursor = next; next == "" {
			return all
		}
	}
}

// Every store call of a Seal fails in every way, once and from then on.
func TestASealThatIsBrokenOffAnywhereIsFinishedByTheNext(t *testing.T) {
	n := 0
	for _, fate := range storetest.FaultsOf("Commit") {
		for _, forGood := range []bool{false, true} {
			for broken := 1; ; broken++ {
				if n++; !storetest.InSample(n) {
					continue
				}
				reached := false
				t.Run(fmt.Sprintf("call %d %v, for good %v", broken, fate, forGood), func(t *testing.T) {
					w := newWorld(t)
					w.events(100)
					w.seal(w.log(w.Store, 0))
					w.events(700)
					call := 0
					lossy := &storetest.Lossy{Store: w.Store, ChooseFault: func(string, []store.Write) storetest.Fault {
						call++
						if call == broken || forGood && call > broken {
							reached = true
							return fate
						}
						return storetest.NoFault
					}}
					l := w.log(lossy, 300)
					_, err := l.Seal(t.Context())
					if err != nil && !problem.Is(err, problem.Unavailable) && !problem.Is(err, problem.Conflict) {
						t.Errorf("Seal() = %v, want nil, unavailable or conflict", err)
					}
					// A process that dies does not release its lease. Another process waits for its
					// end.
					w.Now = w.Now.Add(2 * time.Minute)
					w.sealedAtMostNow(w.log(w.Store, 0))
					w.seal(w.log(w.Store, 0))
					w.events(1)
					lossy.ApplyPending(t.Context())
					w.Now = w.Now.Add(2 * time.Minute) // a late lease may have been stored with it
					w.whole(t)
				})
				if !reached {
					break
				}
			}
		}
	}
}

// whole seals the rest and compares all stored data with the events: checkpoints, contiguous
// epochs, and the tiles through proofs.
func (w *fixture) whole(t *testing.T) {
	t.Helper()
	l := w.log(w.Store, 0)
	w.seal(l)
	w.latest(l)
	for key := range w.documents() {
		var size uint64
		if n, _ := fmt.Sscanf(key, "cp#%x", &size); n == 1 {
			if p, err := l.LoadCheckpoint(t.Context(), size); err != nil || p.Root != w.root(size) {
				t.Errorf("checkpoint of %d = %x, %v, want root %x", size, p.Root, err, w.root(size))
			}
		}
	}
	next := uint64(1)
	for number := uint64(1); next <= w.n; number++ {
		e, err := l.Epoch(t.Context(), number)
		if err != nil || e.FirstSeq != next || e.Checkpoint.Root != w.root(e.LastSeq) {
			t.Fatalf("Epoch(%d) = %+v, %v, want one from %d", number, e, err, next)
		}
		next = e.LastSeq + 1
	}
	for seq := uint64(1); seq <= w.n; seq += 97 {
		p, err := l.Inclusion(t.Context(), seq, 0)
		if err == nil {
			err = translog.CheckInclusion(translog.Checkpoint{Size: w.n, Root: w.root(w.n)}, seq, p.Leaf, p.Proof)
		}
		if err != nil {
			t.Errorf("Inclusion(%d) = %v", seq, err)
		}
	}
}

// sealedAtMostNow checks the published state after any interruption.
func (w *fixture) sealedAtMostNow(l *translog.Log) {
	w.Helper()
	if p := w.latest(l); p.Size < 100 {
		w.Errorf("the log has %d events, want the 100 that were sealed before at least", p.Size)
	}
}

// Publishers append continuously, and checkpointers take held leases from each other. Each event is
// sealed exactly once, and sealed state is never withdrawn.
func TestManyCheckpointersAtOnceSealOneLog(t *testing.T) {
	w := newWorld(t)
	var checkpointers sync.WaitGroup
	ended := make(chan struct{})
	for range 6 {
		checkpointers.Go(func() {
			c := w.config(w.Store)
			far := time.Duration(0)
			c.Now = func() time.Time { far += time.Hour; return time.Unix(1_800_000_000, 0).Add(far) } // every lease is over
			l, err := translog.New(c)
			if err != nil {
				t.Error(err)
				return
			}
			l.SetBatch(100)
			most := uint64(0)
			for {
				s, err := l.Seal(t.Context())
				if err != nil && !problem.Is(err, problem.Conflict) {
					t.Errorf("Seal() = %v, want nil or conflict", err)
					return
				}
				if err == nil && s.Size < most {
					t.Errorf("Seal() = %d events, after %d", s.Size, most)
				}
				if err == nil {
					most = s.Size
				}
				select {
				case <-ended:
					return
				default:
				}
			}
		})
	}
	for range 40 {
		w.events(23)
	}
	close(ended)
	checkpointers.Wait()
	w.Now = w.Now.Add(1_000_000 * time.Hour)
	w.whole(t)
}

// A checkpointer pauses between reading and committing until another has sealed more.
func TestACheckpointerThatIsLateShrinksNothing(t *testing.T) {
	w := newWorld(t)
	w.events(300)
	slow := w.log(w.Store, 0)
	overtaken := false
	slow.Config.Identity = func(context.Context) (identity.Signer, error) {
		return signer{w.Key, func() {
			if overtaken {
				return
			}
			overtaken = true
			w.events(500)
			w.Now = w.Now.Add(2 * time.Minute) // its lease is over
			w.seal(w.log(w.Store, 0))
		}}, nil
	}
	if _, err := slow.Seal(t.Context()); !problem.Is(err, problem.Conflict) {
		t.Errorf("Seal() = %v, want conflict", err)
	}
	if p := w.latest(slow); p.Size != 800 {
		t.Errorf("the log has %d events, want 800", p.Size)
	}
	w.whole(t)
}

// signer calls a function before each signature.
type signer struct {
	identity.Signer
	before func()
}

func (s signer) Sign(ctx context.Context, msg []byte) ([]byte, error) {
	s.before()
	return s.Signer.Sign(ctx, msg)
}

func TestOneLeaseIsHeldAtATime(t *testing.T) {
	w := newWorld(t)
	w.events(3)
	held := w.log(w.Store, 0)
	held.Config.Identity = func(context.Context) (identity.Signer, error) {
		if _, err := w.log(w.Store, 0).Seal(t.Context()); !problem.Is(err, problem.Conflict) {
			t.Errorf("Seal() beside another = %v, want conflict", err)
		}
		return w.Key, nil
	}
	must(t, errorOf(held.Seal(t.Context())))
	w.events(1)
	w.seal(w.log(w.Store, 0)) // the lease was returned
}

func TestAlteredLogIsNotSigned(t *testing.T) {
	fails := errors.New("the key service is away")
	tests := []struct {
		name  string
		spoil func(*fixture, *translog.Log)
		want  string
	}{
		{"a row of the stream is another", func(w *fixture, _ *translog.Log) {
			w.Store = changed{w.Store, 600, func(r *store.Row) { r.Data[0]++ }}
		}, "event 600 differs from the event that the log has sealed"},
		{"the stream lost what was sealed", func(w *fixture, _ *translog.Log) {
			w.Store = changed{w.Store, 600, nil}
		}, "the log has sealed 600 events, but the last of them is missing"},
		{"an event does not follow the one before", func(w *fixture, _ *translog.Log) {
			w.Store = changed{w.Store, 605, func(r *store.Row) { r.Data[40]++ }}
		}, "event 605 does not follow event 604"},
		{"an event cannot be read", func(w *fixture, _ *translog.Log) {
			w.Store = changed{w.Store, 605, func(r *store.Row) { r.Data = r.Data[:5] }}
		}, "row 605 has 5 bytes"},
		{"the head has another tail", func(w *fixture, _ *translog.Log) {
			w.rewrite("head", func(s string) string { return strings.Replace(s, `"size":600`, `"size":601`, 1) })
		}, "the log's head has"},
		{"the head has another root", func(w *fixture, _ *translog.Log) {
			w.rewrite("head", func(s string) string { return strings.Replace(s, `"root":"`, `"root":"00`, 1) })
		}, "the head of the log at tlog/head is not readable"},
		{"the head is of a later format", func(w *fixture, _ *translog.Log) {
			w.rewrite("head", func(s string) string { return strings.Replace(s, `"format":1`, `"format":2`, 1) })
		}, "it has format 2"},
		{"another tile lies where one is to be written", func(w *fixture, _ *translog.Log) {
			w.put(store.Key{Partition: translog.HeadDocs.Partition, Sort: "tile#00#00000000000002"}, strings.Repeat("x", 8192))
		}, "tile 2 of level 0 does not match its events"},
		{"the host has another key", func(w *fixture, l *translog.Log) {
			other := newWorld(w.T)
			l.Config.Identity = func(context.Context) (identity.Signer, error) { return other.Key, nil }
		}, "only one host can seal a log"},
		{"the key cannot be used", func(_ *fixture, l *translog.Log) {
			l.Config.Identity = func(context.Context) (identity.Signer, error) { return nil, fails }
		}, fails.Error()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, l := sealedAt(t, 600)
			before := w.latest(l)
			w.events(300)
			tt.spoil(w, l)
			l.Config.Store = w.Store
			_, err := l.Seal(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("Seal() = %v, want %q", err, tt.want)
			}
			if strings.Contains(tt.name, "the head") {
				return // there is nothing left to read
			}
			if after := w.latest(l); after.Size != before.Size {
				t.Errorf("the log has %d events, want %d", after.Size, before.Size)
			}
		})
	}
}

// changed is a store that changes one row or ends before it.
type changed struct {
	store.Store
	position uint64
	change   func(*store.Row)
}

func (c changed) Rows(ctx context.Context, s store.Stream, from uint64, n int, d store.Direction) ([]store.Row, error) {
	rows, err := c.Store.Rows(ctx, s, from, n, d)
	for i := range rows {
		if rows[i].Position != c.position {
			continue
		}
		if c.change == nil {
			return rows[:i], err
		}
		c.change(&rows[i])
	}
	return rows, err
}

func (w *fixture) put(k store.Key, data string) {
	w.Helper()
	d, err := w.Store.Doc(w.Context(), k)
	must(w, err)
	must(w, w.Store.Commit(w.Context(), store.Put{Key: k, IfVersion: d.Version, WriteID: store.WriteID{9}, Data: []byte(data)}))
}

func (w *fixture) rewrite(sort string, change func(string) string) {
	w.Helper()
	k := store.Key{Partition: translog.HeadDocs.Partition, Sort: sort}
	d, err := w.Store.Doc(w.Context(), k)
	must(w, err)
	data := change(string(d.Data))
	if data == string(d.Data) {
		w.Fatalf("%s is not changed by it: %s", sort, data)
	}
	w.put(k, data)
}

func TestASealedTimeNeverGoesBack(t *testing.T) {
	w, l := sealedAt(t, 3)
	w.Now = w.Now.Add(-time.Hour)
	w.events(1)
	w.seal(l)
	one, err := l.Epoch(t.Context(), 1)
	must(t, err)
	two, err := l.Epoch(t.Context(), 2)
	if err != nil || two.SealedAt < one.SealedAt {
		t.Errorf("Epoch(2) was sealed at %d, %v, want %d or later", two.SealedAt, err, one.SealedAt)
	}
}
