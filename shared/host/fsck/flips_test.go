package fsck_test

import (
	"context"
	"testing"

	"pgregory.net/rapid"

	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/fsck"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

// TestEveryByteThatMattersIsChecked flips a bit in each byte of one row per kind. The list contains
// the bytes that may change undetected: they are not repeated in other data of the host (until it
// has accounts), and no signature depends on them.
func TestEveryByteThatMattersIsChecked(t *testing.T) {
	a := actorHistory(t, memory.New())
	req, rsp, log := a.Pair().Requests(), a.Pair().Responses(), store.StreamOf(store.KindLogbook, a.Demo.ID)
	// These are the due time, the price and the shard: when others may void, and the price.
	free := func(at int) bool { return at > atSeen && at < atDay }
	for _, tc := range []struct {
		what     string
		in       store.Stream
		position uint64
		free     func(int) bool
	}{
		{"call", req, 8, func(at int) bool { return free(at) || at == atSeen }}, // a smaller seen is possible
		{"reset", req, 12, func(int) bool { return false }},
		{"answer", rsp, 6, func(at int) bool { return at == atReplyBox-5 }}, // took
		{"void", rsp, 8, func(int) bool { return false }},
		{"logbook entry", log, 2, func(int) bool { return false }},
		{"event in the chain of all", registry.EventStream(), 5, func(int) bool { return false }},
		{"event of an actor", registry.ActorStream(a.Demo.ID), 1, func(int) bool { return false }},
		{"revocation of an actor", registry.ActorStream(a.stranger.ID()), 2, func(int) bool { return false }},
	} {
		rows, err := a.Store.Rows(a.Ctx, tc.in, tc.position, 1, store.Ascending)
		a.Must(err)
		step := 1
		if testing.Short() {
			step = 7
		}
		for at := 0; at < len(rows[0].Data); at += step {
			if tc.free(at) {
				continue
			}
			bit := byte(1) << (at % 8)
			_, found := a.checkWith(&altered{Store: a.Store, rows: map[store.Stream]func([]store.Row) []store.Row{
				tc.in: edit(tc.position, func(b []byte) []byte { b[at] ^= bit; return b }),
			}}, fsck.Run)
			if len(found) == 0 {
				t.Errorf("%s: bit %#x of byte %d is flipped and nothing found", tc.what, bit, at)
			}
		}
	}
}

// hit is one damage to the rows of a stream.
type hit struct {
	row, byte int
	to        byte
	what      int
}

func (h hit) damage(rows []store.Row) []store.Row {
	row := &rows[h.row%len(rows)]
	switch h.what {
	case 0:
		rows = append(rows[:h.row%len(rows)], rows[h.row%len(rows)+1:]...)
	case 1:
		row.Data = row.Data[:min(h.byte, len(row.Data))]
	case 2:
		row.Data = append(row.Data[:min(1, len(row.Data))], row.Data...)
	case 3:
		row.Position += uint64(h.to) << (h.to % 60)
	default:
		if len(row.Data) > 0 {
			row.Data[h.byte%len(row.Data)] = h.to
		}
	}
	return rows
}

// damagedBy applies damage of some kinds to the streams of a host.
func (c *caller) damagedBy(t *rapid.T, kinds []int, more ...store.Stream) *altered {
	damaged := &altered{Store: c.Store, rows: map[store.Stream]func([]store.Row) []store.Row{}}
	for _, s := range append(more, c.Pair().Requests(), c.Pair().Responses(), store.StreamOf(store.KindLogbook, c.Demo.ID)) {
		var hits []hit
		for range rapid.IntRange(0, 4).Draw(t, "hits") {
			hits = append(hits, hit{rapid.IntRange(0, 99).Draw(t, "row"), rapid.IntRange(0, 250).Draw(t, "byte"), rapid.Byte().Draw(t, "to"), rapid.SampledFrom(kinds).Draw(t, "what")})
		}
		damaged.rows[s] = func(rows []store.Row) []store.Row {
			for _, h := range hits {
				if len(rows) > 0 {
					rows = h.damage(rows)
				}
			}
			return rows
		}
	}
	return damaged
}

// Rows out of order are excepted, because hosts do not list them and pages with them are refused.
func TestDamageIsFoundOverPagesToo(t *testing.T) {
	a := actorHistory(t, memory.New())
	rapid.Check(t, func(t *rapid.T) {
		a.check(a.damagedBy(t, []int{0, 1, 2, 4, 5, 6}, registry.EventStream(), registry.ActorStream(a.Demo.ID), registry.ActorStream(a.stranger.ID())))
	})
}

func TestDamagedRowsNeverEndACheck(t *testing.T) {
	a := actorHistory(t, memory.New())
	rapid.Check(t, func(t *rapid.T) {
		damaged := a.damagedBy(t, []int{0, 1, 2, 3, 4, 5, 6}, registry.EventStream(), registry.ActorStream(a.Demo.ID), registry.ActorStream(a.stranger.ID()))
		for _, run := range []func(context.Context, fsck.Config) (fsck.Result, error){fsck.Run, narrow} {
			_, err := run(a.Ctx, fsck.Config{
				Source: damaged, Vault: a.Vault, Now: a.Now, Retention: hosttest.Retention,
				ReportFinding: func(f fsck.Finding) error { _ = f.String(); return nil },
			})
			if err != nil {
				t.Fatalf("Run() = %v", err)
			}
		}
	})
}

// FuzzRows checks a host with rows from the fuzzer.
func FuzzRows(f *testing.F) {
	a := actorHistory(f, memory.New())
	for _, s := range []store.Stream{a.Pair().Requests(), a.Pair().Responses(), store.StreamOf(store.KindLogbook, a.Demo.ID),
		registry.EventStream(), registry.ActorStream(a.Demo.ID)} {
		rows, err := a.Store.Rows(a.Ctx, s, 1, store.MaxPage, store.Ascending)
		a.Must(err)
		for _, row := range rows {
			f.Add(row.Data, row.Data, row.Data)
		}
	}
	f.Fuzz(func(t *testing.T, request, response, entry []byte) {
		st := memory.New()
		for s, data := range map[store.Stream][]byte{
			a.Pair().Requests(): request, a.Pair().Responses(): response,
			store.StreamOf(store.KindLogbook, a.Demo.ID): entry, "odd#name": entry,
			registry.EventStream(): request, registry.ActorStream(a.Demo.ID): response, graduation.Stream(a.Demo.ID): entry,
		} {
			for p := uint64(1); p < 4; p++ {
				if err := st.Commit(a.Ctx, store.Append{Stream: s, Position: p, WriteID: store.WriteID{1}, Data: data}); err != nil {
					return // larger than any store accepts
				}
			}
		}
		_, err := fsck.Run(a.Ctx, fsck.Config{
			Source: st, Vault: a.Vault, Now: a.Now, Retention: hosttest.Retention,
			ReportFinding: func(f fsck.Finding) error { _ = f.String(); return nil },
		})
		if err != nil {
			t.Errorf("Run() = %v", err)
		}
	})
}
