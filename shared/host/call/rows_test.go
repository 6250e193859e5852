package call

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func drawTime(t *rapid.T, label string, from int64) time.Time {
	return time.UnixMicro(rapid.Int64Range(from, lastMicro).Draw(t, label)).UTC()
}

func drawHash(t *rapid.T, label string) (h identity.Hash) {
	copy(h[:], rapid.SliceOfN(rapid.Byte(), identity.Size, identity.Size).Draw(t, label))
	return h
}

func drawText(t *rapid.T) textkeys.Sealed {
	return textkeys.Sealed{Day: rapid.Uint32().Draw(t, "day"), Box: rapid.SliceOf(rapid.Byte()).Draw(t, "box")}
}

func drawRequest(t *rapid.T) RequestRow {
	signed := drawTime(t, "time", firstMicro)
	r := RequestRow{
		Position: rapid.Uint64Range(1, 1<<40).Draw(t, "position"),
		WriteID:  store.WriteID{1, 2, 3},
		Kind:     rapid.SampledFrom([]RowKind{RowCall, RowReset}).Draw(t, "kind"),
		Hash:     drawHash(t, "hash"), Prev: drawHash(t, "prev"),
		Signature: rapid.SliceOfN(rapid.Byte(), identity.SignatureSize, identity.SignatureSize).Draw(t, "signature"),
		Time:      signed, Floor: drawTime(t, "floor", signed.UnixMicro()),
		Epoch: rapid.Uint64Range(0, 1<<30).Draw(t, "epoch"), Text: drawText(t),
	}
	r.EpochStart = rapid.Uint64Range(0, r.Position-1).Draw(t, "epoch start")
	r.PrevEpochStart = rapid.Uint64Range(0, r.EpochStart).Draw(t, "previous epoch start")
	if r.Kind == RowReset {
		r.EpochStart, r.Seq = r.Position, rapid.Int64Range(0, envelope.MaxSeq).Draw(t, "seq")
		return r
	}
	r.Seq = int64(r.Position - r.EpochStart)
	r.ResponseTip = rapid.Uint64Range(0, 1<<40).Draw(t, "seen")
	r.Due = drawTime(t, "due", firstMicro)
	r.Shard = rapid.Byte().Draw(t, "shard")
	if rapid.Bool().Draw(t, "paid") {
		r.PaidBy = rapid.SampledFrom([]PayerKind{PaidByFreeCall, PaidByAccount, PaidByVoucher}).Draw(t, "payer kind")
		r.Payer = [32]byte(drawHash(t, "payer"))
		r.PriceVersion = rapid.Uint64Range(0, math.MaxInt64).Draw(t, "price version")
		r.Price = rapid.Uint64Range(0, math.MaxInt64).Draw(t, "price")
		r.IsStreamed = rapid.Bool().Draw(t, "shown")
	}
	return r
}

func drawResponse(t *rapid.T) ResponseRow {
	r := ResponseRow{
		Position:        rapid.Uint64Range(1, 1<<40).Draw(t, "position"),
		WriteID:         store.WriteID{1, 2, 3},
		Kind:            rapid.SampledFrom([]RowKind{RowAnswer, RowVoid}).Draw(t, "kind"),
		RequestPosition: rapid.Uint64Range(1, 1<<40).Draw(t, "request"), RequestHash: drawHash(t, "request hash"),
		RequestEpoch: rapid.Uint64Range(0, 1<<30).Draw(t, "request epoch"),
		Seq:          rapid.Int64Range(0, envelope.MaxSeq).Draw(t, "seq"), Hash: drawHash(t, "hash"),
	}
	r.Epoch = r.RequestEpoch
	if rapid.Bool().Draw(t, "used") {
		r.Usage = &Usage{UsedFallback: rapid.Bool().Draw(t, "fallback")}
		for _, n := range r.Usage.counters() {
			*n = rapid.Uint64Range(0, math.MaxInt64).Draw(t, "number")
		}
	}
	if r.Kind == RowVoid {
		r.Epoch = rapid.Uint64Range(0, 1<<30).Draw(t, "epoch")
		if rapid.Bool().Draw(t, "has a cause") {
			r.Text = drawText(t)
		}
		return r
	}
	r.Prev, r.Time, r.Text = drawHash(t, "prev"), drawTime(t, "time", firstMicro), drawText(t)
	r.Signature = rapid.SliceOfN(rapid.Byte(), identity.SignatureSize, identity.SignatureSize).Draw(t, "signature")
	r.Duration = time.Duration(rapid.Int64Range(0, math.MaxInt32).Draw(t, "took")) * time.Millisecond
	if r.IsPriced = rapid.Bool().Draw(t, "charged"); r.IsPriced {
		r.Charge = rapid.Uint64Range(0, math.MaxInt64).Draw(t, "charge")
	}
	r.CutReason = rapid.SampledFrom(cutReasons).Draw(t, "cut")
	return r
}

func TestRowsReadAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawRequest(t)
		got, err := DecodeRequest(store.Row{Position: want.Position, WriteID: want.WriteID, Data: want.encode()})
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("DecodeRequest() = %v (-want +got):\n%s", err, diff)
		}
		answer := drawResponse(t)
		back, err := DecodeResponse(store.Row{Position: answer.Position, WriteID: answer.WriteID, Data: answer.encode()})
		if diff := cmp.Diff(answer, back, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("DecodeResponse() = %v (-want +got):\n%s", err, diff)
		}
	})
}

// The size limit of a row without its text.
func TestTheFixedPartOfARowIsSmall(t *testing.T) {
	const bound = 450 - 68 - 8 - 16 // without the stream's name, the position and the write id
	rapid.Check(t, func(t *rapid.T) {
		r, a := drawRequest(t), drawResponse(t)
		r.Text.Box, a.Text.Box = nil, nil
		if n := len(r.encode()); n > bound {
			t.Fatalf("a %v of %d bytes, want at most %d", r.Kind, n, bound)
		}
		if n := len(a.encode()); n > bound {
			t.Fatalf("a %v of %d bytes, want at most %d", a.Kind, n, bound)
		}
	})
}

// A row without usage has the same bytes as in the first version. A row with an unknown count of
// numbers, from a later version, is rejected.
func TestUsageIsBesideTheRow(t *testing.T) {
	a := ResponseRow{Position: 1, Kind: RowAnswer, Signature: make([]byte, identity.SignatureSize), Time: time.Unix(0, 0).UTC(), Text: textkeys.Sealed{Day: 7, Box: []byte("box")}}
	plain := a.encode()
	if plain[1] != byte(RowAnswer) || plain[len(plain)-7-1] != 0 {
		t.Errorf("a row without usage is %x", plain)
	}
	a.Usage = &Usage{InputTokens: 1, OutputTokens: 2, CachedTokens: 3, Turns: 4, ToolCalls: 5, AgentVersion: 6, UnreportedTurns: 7, UsedFallback: true}
	used := a.encode()
	want := append(bytes.Clone(plain[:len(plain)-7]), 7, 1, 2, 3, 4, 5, 6, 7, 1)
	want[1] = 0x83
	if diff := cmp.Diff(append(want, plain[len(plain)-7:]...), used); diff != "" {
		t.Errorf("a row with usage (-want +got):\n%s", diff)
	}
	for _, change := range []struct{ at, to int }{{len(plain) - 7, 8}, {len(plain) - 7, 6}, {len(used) - 8, 2}} {
		damaged := bytes.Clone(used)
		damaged[change.at] = byte(change.to)
		if got, err := DecodeResponse(store.Row{Position: 1, Data: damaged}); err == nil {
			t.Errorf("byte %d as %d reads as %+v", change.at, change.to, got.Usage)
		}
	}
	// A usage with a cost has two more numbers.
	a.Usage.Cost, a.Usage.PriceTableVersion = 8, 9
	want = append(bytes.Clone(plain[:len(plain)-7]), 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1)
	want[1] = 0x83
	if diff := cmp.Diff(append(want, plain[len(plain)-7:]...), a.encode()); diff != "" {
		t.Errorf("a row with a cost (-want +got):\n%s", diff)
	}
	if _, err := DecodeRequest(store.Row{Position: 1, Data: append([]byte{RowFormat, 0x81}, plain[2:]...)}); err == nil {
		t.Error("a request row with usage is read")
	}
}

// A paid request without a subject has the same bytes as in the first version. A subject follows
// the payer.
func TestASubjectIsBesideTheRow(t *testing.T) {
	r := RequestRow{Position: 1, Kind: RowCall, Signature: make([]byte, identity.SignatureSize), Time: time.Unix(0, 0).UTC(), Floor: time.Unix(0, 0).UTC(), Due: time.Unix(9, 0).UTC(),
		PaidBy: PaidByAccount, Payer: [32]byte{1, 2, 3}, PriceVersion: 1, Price: 5, Text: textkeys.Sealed{Day: 7, Box: []byte("box")}}
	plain := r.encode()
	r.Subject = strings.Repeat("ab", SubjectSize)
	with := r.encode()
	at := bytes.Index(plain, r.Payer[:]) + len(r.Payer)
	want := slices.Concat(plain[:at], bytes.Repeat([]byte{0xab}, SubjectSize), plain[at:])
	want[1] |= byte(subjectBit)
	if diff := cmp.Diff(want, with); diff != "" {
		t.Errorf("a row with a subject (-want +got):\n%s", diff)
	}
	got, err := DecodeRequest(store.Row{Position: 1, Data: with})
	if err != nil || got.Subject != r.Subject || got.Payer != r.Payer || got.Price != r.Price || string(got.Text.Box) != "box" {
		t.Errorf("it reads as %+v, %v", got, err)
	}
	for _, kind := range []RowKind{RowCall | subjectBit, RowReset | subjectBit, RowCall | streamedBit | subjectBit} {
		if _, err := DecodeRequest(store.Row{Position: 1, Data: append([]byte{RowFormat, byte(kind)}, with[2:]...)}); err == nil {
			t.Errorf("a row of kind %#x is read", byte(kind))
		}
	}
	// A string that is not a subject's id is not written.
	for _, odd := range []string{"ann", strings.Repeat("zz", SubjectSize), strings.Repeat("ab", SubjectSize+1)} {
		r.Subject = odd
		if !bytes.Equal(r.encode(), plain) {
			t.Errorf("the subject %q is written", odd)
		}
	}
}

// A complete answer has the same bytes as in the first version. A cut answer has its reason before
// its text. A reason of a later version is rejected.
func TestACutIsBesideTheRow(t *testing.T) {
	a := ResponseRow{Position: 1, Kind: RowAnswer, Signature: make([]byte, identity.SignatureSize), Time: time.Unix(0, 0).UTC(), Text: textkeys.Sealed{Day: 7, Box: []byte("box")}}
	plain := a.encode()
	a.CutReason = CutCanceled
	cut := a.encode()
	want := append(append(bytes.Clone(plain[:len(plain)-7]), 1), plain[len(plain)-7:]...)
	want[1] = 0x23
	if diff := cmp.Diff(want, cut); diff != "" {
		t.Errorf("a cut answer (-want +got):\n%s", diff)
	}
	for _, reason := range []byte{0, byte(len(cutReasons))} {
		cut[len(cut)-8] = reason
		if got, err := DecodeResponse(store.Row{Position: 1, Data: cut}); err == nil {
			t.Errorf("reason %d reads as %q", reason, got.CutReason)
		}
	}
	for _, kind := range []RowKind{RowVoid | cutBit, RowVoid | cutBit | usageBit} {
		if _, err := DecodeResponse(store.Row{Position: 1, Data: append([]byte{RowFormat, byte(kind)}, plain[2:]...)}); err == nil {
			t.Errorf("a row of kind %#x is read", byte(kind))
		}
	}
}

func TestTimesThatCannotBeStillLeaveAReadableRow(t *testing.T) {
	for _, took := range []time.Duration{-time.Hour, math.MaxInt64} {
		a := ResponseRow{Position: 1, Kind: RowAnswer, Signature: make([]byte, identity.SignatureSize), Time: time.Unix(0, 0).UTC(), Duration: took}
		if got, err := DecodeResponse(store.Row{Position: 1, Data: a.encode()}); err != nil || got.Duration < 0 {
			t.Errorf("DecodeResponse() = %v, %v for a call that took %v", got.Duration, err, took)
		}
	}
}

func TestARowHoldsTheYears1To9999(t *testing.T) {
	for _, c := range []struct {
		at   time.Time
		want bool
	}{
		{time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), true},
		{time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC), true},
		{time.Date(1, 1, 1, 0, 0, 0, -1000, time.UTC), false},
		{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), false},
	} {
		a := ResponseRow{Position: 1, Kind: RowAnswer, Signature: make([]byte, identity.SignatureSize), Time: c.at}
		got, err := DecodeResponse(store.Row{Position: 1, Data: a.encode()})
		if (err == nil) != c.want || c.want && !got.Time.Equal(c.at) {
			t.Errorf("DecodeResponse() = %v, %v of a row signed %v", got.Time, err, c.at)
		}
	}
}

func TestDamagedRowsAreRefused(t *testing.T) {
	call := RequestRow{Position: 1, Kind: RowCall, Signature: make([]byte, identity.SignatureSize), Time: time.Unix(0, 0), Floor: time.Unix(0, 0), Due: time.Unix(0, 0)}
	answer := ResponseRow{Position: 1, Kind: RowAnswer, Signature: make([]byte, identity.SignatureSize), Time: time.Unix(0, 0)}
	void := ResponseRow{Position: 1, Kind: RowVoid}
	request := func(b []byte) error { _, err := DecodeRequest(store.Row{Position: 1, Data: b}); return err }
	response := func(b []byte) error { _, err := DecodeResponse(store.Row{Position: 1, Data: b}); return err }
	for _, c := range []struct {
		name   string
		whole  []byte
		decode func([]byte) error
		other  func([]byte) error
	}{
		{"call", call.encode(), request, response},
		{"answer", answer.encode(), response, request},
		{"void", void.encode(), response, request},
	} {
		for n := range c.whole {
			if err := c.decode(c.whole[:n]); err == nil {
				t.Errorf("the first %d bytes of a %s decode", n, c.name)
			}
		}
		if err := c.other(c.whole); err == nil {
			t.Errorf("a %s decodes on the other stream", c.name)
		}
		newer := bytes.Clone(c.whole)
		newer[0]++
		if err := c.decode(newer); err == nil {
			t.Errorf("a %s of a newer format decodes", c.name)
		}
	}
	if err := response(append(void.encode(), 0)); err == nil {
		t.Error("a void with more behind it decodes")
	}
}

func FuzzRows(f *testing.F) {
	call := RequestRow{Position: 7, Kind: RowCall, EpochStart: 3, Signature: make([]byte, identity.SignatureSize), Time: time.Unix(9, 0), Floor: time.Unix(9, 0), Due: time.Unix(44, 0)}
	paid := call
	paid.PaidBy, paid.Payer, paid.PriceVersion, paid.Price = PaidByAccount, [32]byte{7}, 3, 10
	reset := RequestRow{Position: 7, Kind: RowReset, EpochStart: 7, PrevEpochStart: 3, Seq: 1, Signature: make([]byte, identity.SignatureSize), Time: time.Unix(9, 0), Floor: time.Unix(9, 0)}
	answer := ResponseRow{Position: 7, Kind: RowAnswer, RequestPosition: 7, Signature: make([]byte, identity.SignatureSize), Time: time.Unix(9, 0), Text: textkeys.Sealed{Day: 1, Box: []byte("box")}}
	charged := answer
	charged.IsPriced, charged.Charge = true, 9
	cut := charged
	cut.CutReason = CutCanceled
	void := ResponseRow{Position: 7, Kind: RowVoid, RequestPosition: 7, Epoch: 1, Seq: 4}
	for _, b := range [][]byte{call.encode(), paid.encode(), charged.encode(), cut.encode(), reset.encode(), answer.encode(), void.encode(), nil} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		// A decoded row encodes to bytes that decode to the same row.
		if r, err := DecodeRequest(store.Row{Position: 7, Data: b}); err == nil {
			if again, err := DecodeRequest(store.Row{Position: 7, Data: r.encode()}); err != nil || !cmp.Equal(r, again, cmpopts.EquateEmpty()) {
				t.Errorf("DecodeRequest() = %+v, again %+v, %v", r, again, err)
			}
		}
		if r, err := DecodeResponse(store.Row{Position: 7, Data: b}); err == nil {
			if again, err := DecodeResponse(store.Row{Position: 7, Data: r.encode()}); err != nil || !cmp.Equal(r, again, cmpopts.EquateEmpty()) {
				t.Errorf("DecodeResponse() = %+v, again %+v, %v", r, again, err)
			}
		}
	})
}

func drawString(t *rapid.T, label string) string { return rapid.String().Draw(t, label) }

func drawMessage(t *rapid.T) (m envelope.Message, key string) {
	m.Role = rapid.SampledFrom(roles[:]).Draw(t, "role")
	m.Parts = rapid.SliceOfN(rapid.String(), 0, 5).Draw(t, "parts")
	for _, id := range []**string{&m.ContextID, &m.MessageID} {
		if rapid.Bool().Draw(t, "has id") {
			s := drawString(t, "id")
			*id = &s
		}
	}
	if rapid.Bool().Draw(t, "has selfEval") {
		f := func() float64 { return rapid.Float64Range(0, 1).Draw(t, "dimension") }
		m.SelfEval = &envelope.SelfEval{Adoption: f(), Confidence: f(), Factual: f(), Honesty: f(), Logical: f(), Relevance: f()}
	}
	return m, drawString(t, "key")
}

func TestTextsReadAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, key := drawMessage(t)
		got, gotKey, err := parsePayload(encodePayload(&want, key))
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); err != nil || gotKey != key || diff != "" {
			t.Fatalf("parsePayload() = %q, %v, want %q (-want +got):\n%s", gotKey, err, key, diff)
		}
	})
}

func FuzzText(f *testing.F) {
	id := "id"
	f.Add(encodePayload(&envelope.Message{Role: envelope.RoleUser, Parts: []string{"a", "b"}, ContextID: &id, SelfEval: &envelope.SelfEval{}}, "key"))
	f.Add([]byte{0, 0, 0})
	f.Add([]byte{0xff, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, _, err := parsePayload(b); err == nil && len(m.Parts) > len(b) {
			t.Errorf("%d bytes hold %d parts", len(b), len(m.Parts))
		}
	})
}
