package envelope_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// message500 returns a signed envelope with a text of 500 bytes.
func message500(tb testing.TB) envelope.Envelope {
	tb.Helper()
	key := keyOf(tb, strings.Repeat("00", 31)+"01")
	peer := keyOf(tb, strings.Repeat("00", 31)+"02")
	e := envelope.Envelope{From: key.ID(), To: peer.ID(), Seq: 7, Time: time.Date(2026, 5, 6, 12, 34, 56, 789_000, time.UTC),
		Prev: identity.Sum(nil), IdempotencyKey: "0b9a7d3c-4f0e-4f0e-8f0e-0b9a7d3c4f0e",
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{strings.Repeat("A signed call, end to end. ", 18) + "And a line.\n(x)"}}}
	if _, err := e.Sign(tb.Context(), key); err != nil {
		tb.Fatal(err)
	}
	return e
}

func BenchmarkDecodeRequest(b *testing.B) {
	e := message500(b)
	body := envelope.AppendRequest(nil, nil, &e)
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := envelope.DecodeRequest(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendSigning(b *testing.B) {
	e := message500(b)
	b.ReportAllocs()
	for b.Loop() {
		e.AppendSignedBytes(nil)
	}
}

func BenchmarkAppendResponse(b *testing.B) {
	e := message500(b)
	b.ReportAllocs()
	for b.Loop() {
		envelope.AppendResponse(nil, []byte(`"k-1"`), &e)
	}
}

// BenchmarkCodec measures a call without cryptography: decoding the body, encoding the signed
// bytes, and encoding the response.
func BenchmarkCodec(b *testing.B) {
	e := message500(b)
	body := envelope.AppendRequest(nil, nil, &e)
	b.ReportAllocs()
	for b.Loop() {
		req, err := envelope.DecodeRequest(body)
		if err != nil {
			b.Fatal(err)
		}
		signing := req.Envelope.AppendSignedBytes(nil)
		if len(signing) == 0 || envelope.AppendResponse(nil, req.ID, &req.Envelope) == nil {
			b.Fatal("no response")
		}
	}
}

// BenchmarkHostileBodies measures the bodies that cost a strict decoder the most time for their
// size.
func BenchmarkHostileBodies(b *testing.B) {
	keys := func(n int) string {
		var s strings.Builder
		s.WriteByte('{')
		for i := range n {
			if i > 0 {
				s.WriteByte(',')
			}
			s.WriteString(`"` + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676)) + `":0`)
		}
		return s.String() + "}"
	}
	full := 256 << 10
	bodies := map[string][]byte{
		"objects of 1024 keys": []byte(`{"a":[` + strings.Repeat(keys(1024)+",", full/8200-1) + `0]}`),
		"17000 keys":           []byte(keys(17000)),
		"depth 10000":          bytes.Repeat([]byte(`{"a":`), 10000),
		"escapes":              []byte(`{"a":"` + strings.Repeat(`\u00e9`, full/6-10) + `"}`),
		"long floats":          []byte(`{"a":[` + strings.Repeat("1.7976931348623157e308,", full/23-10) + `0]}`),
		"wrong parts":          []byte(with(b, partsOne, `"parts":[`+strings.Repeat("0,", 130_000)+`0]`)),
		"objects of 17 keys":   []byte(`{"a":[` + strings.Repeat(keys(17)+",", full/140) + `0]}`),
		"256 KiB + 1":          bytes.Repeat([]byte(" "), full+1),
	}
	for name, body := range bodies {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if _, err := envelope.DecodeRequest(body); err == nil {
					b.Fatal("accepted")
				}
			}
		})
	}
}
