package translog_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// faults returns the findings of Check, one per line.
func (w *fixture) faults() []string {
	w.Helper()
	var all []string
	_, err := translog.Check(w.Context(), w.Store, stream, leaf, func(f translog.Mismatch) {
		all = append(all, f.Key.Sort+": want "+f.Want+", got "+f.Got)
	})
	must(w, err)
	return all
}

func TestAWholeLogHasNoFaults(t *testing.T) {
	for name, sizes := range map[string][]int{"never sealed": nil, "empty": {0}, "from the first event": {3}, "grown": {0, 1, 255, 256, 257, 1100}} {
		w, _ := sealedAt(t, sizes...)
		w.events(5) // not sealed yet
		if got := w.faults(); got != nil {
			t.Errorf("%s: Check() finds %q, want nothing", name, got)
		}
	}
	w := newWorld(t)
	w.events(1000)
	w.seal(w.log(w.Store, 256))
	l := w.log(w.Store, 0)
	must(t, errorOf(l.AddCosignatures(t.Context(), w.cosigned(w.latest(l).Checkpoint, w.witness()))))
	if got := w.faults(); got != nil {
		t.Errorf("sealed in steps: Check() finds %q, want nothing", got)
	}
}

func TestEveryDamageToALogIsFoundOnce(t *testing.T) {
	swap := func(old, new string) func(string) string {
		return func(s string) string { return strings.Replace(s, old, new, 1) }
	}
	none := func(string) string { return "" }
	const tile, epoch, cp = "tile#00#00000000000001", "epoch#00000002", "cp#0000000000000258"
	for _, tt := range []struct {
		name   string
		sort   string
		change func(string) string
		want   string
	}{
		{"a tile", tile, func(s string) string { return "x" + s[1:] }, tile + ": want the hashes of its events, got 8192 other bytes"},
		{"a tile cut short", tile, func(s string) string { return s[:100] }, "got 100 other bytes"},
		{"an upper tile's lower one", "tile#00#00000000000000", none, "got 0 other bytes"},
		{"a checkpoint", cp, none, cp + ": want a checkpoint, got an unreadable document"},
		{"a checkpoint's size", cp, swap(`\n600\n`, `\n601\n`), "does not verify"},
		{"another checkpoint", cp, func(string) string { return "@cp#0000000000000064" }, "want vacancy/"},
		{"the first checkpoint", "cp#0000000000000000", none, "want a checkpoint"},
		{"an epoch", epoch, none, epoch + ": want epoch 2 from event 101"},
		{"an epoch's first event", epoch, swap(`"first":101`, `"first":102`), "got epoch 2 of events 102 to 600"},
		{"an epoch's last event", epoch, swap(`"last":600`, `"last":900`), "epoch 3 of events 601 to 900"},
		{"an epoch's root", epoch, swap(`"root":"`, `"root":"0000`), "is not readable"},
		{"another epoch's root", epoch, func(s string) string { return "@root" }, "want its root"},
		{"an epoch's signature", epoch, swap(`"signature":"`, `"signature":"AAAA`), "want a signature by host"},
		{"the head", translog.HeadKey().Sort, none, "head: want a head"},
		{"the head's last event", translog.HeadKey().Sort, swap(`"last":"`, `"last":"0000`), "head: want a head"},
		{"the head's epochs", translog.HeadKey().Sort, swap(`"epochs":3`, `"epochs":2`), "want 2 epochs up to event 900, got 2 up to 600"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, l := sealedAt(t, 0, 100, 600, 900)
			w.rewrite(tt.sort, func(s string) string {
				switch to := tt.change(s); {
				case to == "@root":
					e, err := l.Epoch(t.Context(), 2)
					one, err1 := l.Epoch(t.Context(), 1)
					if err != nil || err1 != nil {
						t.Fatal(err, err1)
					}
					return strings.Replace(s, e.Root.String(), one.Root.String(), 1)
				case strings.HasPrefix(to, "@"):
					d, err := w.Store.Doc(t.Context(), store.Key{Partition: translog.HeadDocs.Partition, Sort: to[1:]})
					must(t, err)
					return string(d.Data)
				default:
					return to
				}
			})
			got := w.faults()
			if len(got) == 0 || !strings.Contains(strings.Join(got, "\n"), tt.want) {
				t.Errorf("Check() finds %q, want %q", got, tt.want)
			}
			if len(got) > 1 && tt.name != "an epoch's last event" { // which is where the next one begins
				t.Errorf("Check() finds %d faults for one damage:\n%s", len(got), strings.Join(got, "\n"))
			}
		})
	}
}

func TestADamagedCosignatureIsFound(t *testing.T) {
	for name, change := range map[string]func(string) string{
		"what is no document": func(string) string { return "{" },
		"a line of another":   func(s string) string { return strings.Replace(s, "— vacant/", "— vacant/0", 1) + " " },
		"one that does not verify": func(s string) string {
			at := strings.LastIndex(s, `\n"`) - 20 // within the signature
			return s[:at] + string("AB"[s[at]&1]) + s[at+1:]
		},
		"a document of a later format": func(s string) string { return strings.Replace(s, `"format":1`, `"format":2`, 1) },
	} {
		w, l := sealedAt(t, 10)
		p, err := l.AddCosignatures(t.Context(), w.cosigned(w.latest(l).Checkpoint, w.witness()))
		must(t, err)
		k := store.Key{Partition: translog.CosignatureDocs.Partition, Sort: "000000000000000a"}
		d, err := w.Store.Doc(t.Context(), k)
		if err != nil || d.Version == 0 || p.CosignatureCount != 1 {
			t.Fatalf("Doc() = %+v, %v, want the cosignature", d, err)
		}
		w.put(k, change(string(d.Data)))
		if got := w.faults(); len(got) != 1 || !strings.Contains(got[0], "want cosignatures of the checkpoint") {
			t.Errorf("%s: Check() finds %q, want one fault", name, got)
		}
	}
}

func TestAStreamThatIsNotWhatWasSealedIsAFault(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*store.Row)
		want   string
	}{
		"an event is another":      {func(r *store.Row) { r.Data[0]++ }, "tile#00#00000000000000: want the hashes of its events"},
		"an event is gone":         {nil, "want 600 events, which are sealed, got none at 200"},
		"an event cannot be read":  {func(r *store.Row) { r.Data = nil }, "want event 200, which is sealed"},
		"an event of another size": {func(r *store.Row) { r.Position = 900 }, "want 600 events, which are sealed, got none at"},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := sealedAt(t, 600)
			position := uint64(200)
			if name == "an event of another size" {
				position = 1
			}
			w.Store = changed{w.Store, position, tt.change}
			if got := strings.Join(w.faults(), "\n"); !strings.Contains(got, tt.want) {
				t.Errorf("Check() finds %q, want %q", got, tt.want)
			}
		})
	}
}

// torn is a store with one damaged document or page of rows.
type torn struct {
	store.Store
	sort string
}

func (s torn) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	if k.Sort == s.sort {
		return store.Doc{}, problem.New(problem.Damaged, "torn")
	}
	return s.Store.Doc(ctx, k)
}

func (s torn) Rows(ctx context.Context, name store.Stream, from uint64, n int, d store.Direction) ([]store.Row, error) {
	rows, err := s.Store.Rows(ctx, name, from, n, d)
	if s.sort == "rows" && err == nil {
		return rows[:min(len(rows), 300)], problem.New(problem.Damaged, "torn")
	}
	return rows, err
}

func TestCheckContinuesAfterDamageFoundByTheStore(t *testing.T) {
	for _, sort := range []string{"head", "tile#00#00000000000001", "cp#0000000000000258", "cp#0000000000000000", "epoch#00000001"} {
		w, _ := sealedAt(t, 0, 600)
		w.Store = torn{w.Store, sort}
		if got := strings.Join(w.faults(), "\n"); !strings.Contains(got, sort+": want a document, got torn") {
			t.Errorf("Check() finds %q, want %s torn", got, sort)
		}
	}
	w, _ := sealedAt(t, 0, 200)
	w.Store = torn{w.Store, "rows"}
	if got := w.faults(); got != nil {
		t.Errorf("Check() finds %q, want nothing: all rows came", got)
	}
}

func TestACheckThatCannotReadSaysSo(t *testing.T) {
	w, _ := sealedAt(t, 600)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := translog.Check(ctx, w.Store, stream, leaf, func(f translog.Mismatch) { t.Errorf("Check() finds %v, want no more than an error", f) })
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Check() = %v, want unavailable", err)
	}
}
