package logbook

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"pgregory.net/rapid"
)

func TestARowHoldsNothingTwiceAndHashesInBinary(t *testing.T) {
	_, entries := book(t)
	for _, e := range entries {
		row, err := e.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if want := 1 + 8 + 32 + 1 + 64 + 1 + len(e.Kind) + len(e.Payload); len(row) != want {
			t.Errorf("row of %s has %d bytes, want %d", e.Kind, len(row), want)
		}
	}
}

func TestRowsThatNobodyWroteAreDamaged(t *testing.T) {
	_, entries := book(t)
	good, err := entries[0].MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	signature, kind := rowHeaderSize, rowHeaderSize+1+64
	payload := kind + 1 + len(KindGenesis)
	with := func(at int, b ...byte) []byte { return slices.Replace(bytes.Clone(good), at, at+len(b), b...) }
	tests := map[string]struct {
		row  []byte
		want string
	}{
		"nothing":                 {nil, "expected at least 41 bytes, got 0"},
		"cut in the fixed part":   {good[:rowHeaderSize-1], "expected at least 41 bytes, got 40"},
		"a later format":          {with(0, 2), "expected format 1, got 2"},
		"cut in the signature":    {good[:kind-1], "its signature is truncated"},
		"cut in the kind":         {good[:payload-1], "its kind is truncated"},
		"cut in the payload":      {good[:len(good)-1], "payload: "},
		"something after":         {append(bytes.Clone(good), '}'), "payload: "},
		"white space":             {append(bytes.Clone(good), ' '), "payload: expected canonical JSON, got another form"},
		"a signature of 2^64-1":   {slices.Concat(good[:signature], bytes.Repeat([]byte{0xff}, 9), []byte{1}, good[signature+1:]), "its signature is truncated"},
		"a length that overflows": {slices.Concat(good[:signature], bytes.Repeat([]byte{0xff}, 12), good[signature+1:]), "its signature is truncated"},
		"a length in long form":   {slices.Concat(good[:signature], []byte{0xc0, 0x00}, good[signature+1:]), "a length is not written in its shortest form"},
		"no kind":                 {slices.Concat(good[:kind], []byte{0}, good[payload:]), "kind: expected a name, got a blank string"},
		"a kind of other bytes":   {with(kind+1, 0xff), "kind: expected UTF-8, got other bytes"},
		"a payload that is text":  {slices.Concat(good[:payload], []byte(`"x"`)), "payload: expected an object, got a string"},
		"no payload":              {good[:payload], "payload: "},
		"a time in no year":       {with(1, bytes.Repeat([]byte{0x7f}, 8)...), "ts: expected a time in the years 1 to 9999, got another year"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var e Entry
			err := e.UnmarshalBinary(tt.row)
			if !problem.Is(err, problem.Damaged) || !strings.HasPrefix(err.Error(), "log row: "+tt.want) {
				t.Errorf("UnmarshalBinary() = %v, want log row: %s", err, tt.want)
			}
			if diff := cmp.Diff(Entry{}, e); diff != "" {
				t.Errorf("UnmarshalBinary() left an entry: %s", diff)
			}
		})
	}
}

func TestAnEntryThatHasNoRowIsRefused(t *testing.T) {
	for name, e := range map[string]Entry{
		"zero":                  {},
		"payload not canonical": {Kind: "K", Time: day, Payload: []byte(`{"b":1,"a":2}`)},
		"kind of other bytes":   {Kind: "\xff", Time: day, Payload: []byte(`{}`)},
	} {
		if row, err := e.MarshalBinary(); !problem.Is(err, problem.Malformed) || row != nil {
			t.Errorf("%s: MarshalBinary() = %x, %v, want malformed", name, row, err)
		}
	}
}

func TestSignedEntriesRoundTrip(t *testing.T) {
	key := keyOf(t, seedA)
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringOfN(rapid.Rune().Filter(func(r rune) bool { return r != '\ufffd' }), 0, 20, -1)
		kind := strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return -1
			}
			return r
		}, text.Draw(rt, "kind"))
		e := Entry{
			Kind:    "K" + kind,
			Time:    time.UnixMicro(rapid.Int64Range(-62135596800e6, 253402300799e6).Draw(rt, "time")),
			Payload: encodeObject(canon.Member{Key: text.Draw(rt, "key"), Value: canon.NewString(text.Draw(rt, "value"))}),
		}
		copy(e.Prev[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(rt, "prev"))
		if _, err := e.Sign(t.Context(), key); err != nil {
			rt.Fatalf("Sign(%+v) = %v", e, err)
		}
		row, err := e.MarshalBinary()
		var fromRow Entry
		if err != nil || fromRow.UnmarshalBinary(row) != nil || !cmp.Equal(fromRow, e) {
			rt.Fatalf("row of %+v reads back as %+v, %v", e, fromRow, err)
		}
		fromLine, err := ParseLine(e.AppendLine(nil))
		if err != nil || !cmp.Equal(fromLine, e) || !fromLine.Verify(key.ID()) {
			rt.Fatalf("line of %+v reads back as %+v, %v", e, fromLine, err)
		}
	})
}

// A parsed line must encode to a line that parses to the same entry, and to a row with the same
// signed bytes.
func FuzzParseLine(f *testing.F) {
	for _, c := range vectors(f) {
		for _, line := range c.Input.Lines {
			f.Add([]byte(line))
		}
		for _, e := range c.Expect.Entries {
			f.Add([]byte(e.Line))
		}
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := ParseLine(line)
		if err != nil {
			if problem.AsError(err).Kind == problem.Internal {
				t.Fatalf("ParseLine() = %v, an error of no kind", err)
			}
			return
		}
		written := e.AppendLine(nil)
		if len(written) > 200<<10 {
			return // escapes can make a line longer than its source
		}
		again, err := ParseLine(written)
		if err != nil || !cmp.Equal(e, again, cmpopts.EquateEmpty()) || !bytes.Equal(again.AppendLine(nil), written) {
			t.Fatalf("ParseLine(%s) = %+v, %v, want %+v", written, again, err, e)
		}
		row, err := e.MarshalBinary()
		var stored Entry
		if err != nil || stored.UnmarshalBinary(row) != nil || !bytes.Equal(stored.AppendSignedBytes(nil), e.AppendSignedBytes(nil)) {
			t.Fatalf("row of %s: %v, read back as %+v", written, err, stored)
		}
	})
}

// Each entry must have exactly one row form.
func FuzzUnmarshalBinary(f *testing.F) {
	for _, c := range vectors(f) {
		for _, x := range c.Expect.Entries {
			e, err := ParseLine([]byte(x.Line))
			if err != nil {
				f.Fatal(err)
			}
			row, err := e.MarshalBinary()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(row)
		}
	}
	f.Add(binary.AppendUvarint(make([]byte, rowHeaderSize), 1<<63))
	f.Fuzz(func(t *testing.T, row []byte) {
		var e Entry
		if err := e.UnmarshalBinary(row); err != nil {
			if !problem.Is(err, problem.Damaged) {
				t.Fatalf("UnmarshalBinary() = %v, want kind damaged", err)
			}
			return
		}
		if again, err := e.MarshalBinary(); err != nil || !bytes.Equal(again, row) {
			t.Fatalf("a row has two forms: %x and %x, %v", row, again, err)
		}
		if line, err := ParseLine(e.AppendLine(nil)); len(row) < 30<<10 && (err != nil || !cmp.Equal(e, line, cmpopts.EquateEmpty())) {
			t.Fatalf("its line reads back as %+v, %v, want %+v", line, err, e)
		}
	})
}

func BenchmarkVerifyRow(b *testing.B) {
	key, entries := book(b)
	row, err := entries[1].MarshalBinary()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		var e Entry
		if err := e.UnmarshalBinary(row); err != nil || !e.Verify(key.ID()) {
			b.Fatal(err)
		}
	}
}
