package bolt

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

var anyKey = rapid.Custom(func(t *rapid.T) store.Key {
	text := rapid.StringOfN(rapid.RuneFrom([]rune{0, 1, 'a', 255, 0x4e16}), 1, 6, -1)
	return store.Key{Partition: text.Draw(t, "partition"), Sort: text.Draw(t, "sort")}
})

func TestListedKeysSortAsTheirSortsAndThenTheirDocuments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		partition := anyKey.Draw(t, "index").Partition
		a, b := anyKey.Draw(t, "a"), anyKey.Draw(t, "b")
		a.Partition, b.Partition = partition, partition
		x, y := anyKey.Draw(t, "document of a"), anyKey.Draw(t, "document of b")
		want := strings.Compare(a.Sort, b.Sort)
		if want == 0 {
			want = bytes.Compare(documentKey(x), documentKey(y))
		}
		if got := bytes.Compare(sparseIndexKey(a, x), sparseIndexKey(b, y)); got != want {
			t.Fatalf("listedKey(%q, %q) against listedKey(%q, %q) = %d, want %d", a, x, b, y, got, want)
		}
		if got, err := parseSparseIndexKey(sparseIndexKey(a, x), len(partitionPrefix(partition))); err != nil || got != x {
			t.Fatalf("parseListed() = %q, %v, want %q", got, err, x)
		}
		// A range that begins at a sort key begins at its first document.
		if bytes.Compare(sparseIndexStart(partition, a.Sort), sparseIndexKey(a, x)) >= 0 {
			t.Fatalf("listedSort(%q) is not below its own entries", a.Sort)
		}
		if a.Sort < b.Sort && bytes.Compare(sparseIndexKey(a, x), sparseIndexStart(partition, b.Sort)) >= 0 {
			t.Fatalf("an entry of %q is not below the range from %q", a.Sort, b.Sort)
		}
	})
}

func TestDocumentsAndRecordsComeBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := store.Doc{
			Key:     anyKey.Draw(t, "key"),
			Version: rapid.Uint64Min(1).Draw(t, "version"),
			WriteID: store.WriteID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "attempt")),
			Number:  rapid.Int64().Draw(t, "number"),
			Data:    rapid.SliceOf(rapid.Byte()).Draw(t, "data"),
		}
		if rapid.Bool().Draw(t, "indexed") {
			d.Index = anyKey.Draw(t, "index")
		}
		got, err := parseDocument(d.Key, encodeDocument(d))
		if diff := cmp.Diff(d, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Fatalf("parseDocument() = %v, (-want +got):\n%s", err, diff)
		}
		if k, err := parseDocumentKey(documentKey(d.Key)); err != nil || k != d.Key {
			t.Fatalf("parseDocumentKey() = %q, %v, want %q", k, err, d.Key)
		}
		a := store.Append{Position: d.Version, WriteID: d.WriteID, Data: d.Data}
		record := encodeRecord(a)
		setStreamNumber(record, 77)
		row, err := parseRecord(record, 77, d.Version)
		want := store.Row{Position: a.Position, WriteID: a.WriteID, Data: a.Data}
		if diff := cmp.Diff(want, row, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Fatalf("parseRecord() = %v, (-want +got):\n%s", err, diff)
		}
		if _, err := parseRecord(record, 78, d.Version); !problem.Is(err, problem.Damaged) {
			t.Fatalf("parseRecord(another stream) = %v, want Damaged", err)
		}
	})
}

func FuzzWhatAFileMayHold(f *testing.F) {
	f.Add([]byte{})
	f.Add(encodeDocument(store.Doc{Version: 1, Index: store.Key{Partition: "p", Sort: "s"}, Data: []byte("data")}))
	f.Add(encodeRecord(store.Append{Position: 1, Data: []byte("data")}))
	f.Add(sparseIndexKey(store.Key{Partition: "p", Sort: "a\x00b"}, store.Key{Partition: "q", Sort: "t"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		k := store.Key{Partition: "p", Sort: "s"}
		if d, err := parseDocument(k, b); err == nil && b != nil {
			if again, err := parseDocument(k, encodeDocument(d)); err != nil || !cmp.Equal(d, again, cmpopts.EquateEmpty()) {
				t.Errorf("a document read and written again = %+v, %v, want %+v", again, err, d)
			}
		}
		_, _ = parseRecord(b, 1, 1)
		_, _ = parseDocumentKey(b)
		_, _ = parseSparseIndexKey(b, min(2, len(b)))
	})
}
