package call_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/echo"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

func newKey(tb testing.TB) *identity.Key {
	tb.Helper()
	k, err := identity.NewKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

// benchText makes the signed bytes about 500 bytes long.
const benchText = "How would you explain the difference between a chain and a stream to somebody who has seen neither of them before?"

// bodies signs n consecutive calls of one chain.
func bodies(b *testing.B, from *identity.Key, to identity.ID, n int) [][]byte {
	b.Helper()
	out := make([][]byte, n)
	var prev identity.Hash
	for i := range out {
		e := envelope.Envelope{From: from.ID(), To: to, Seq: int64(i + 1), Time: time.Now().UTC().Truncate(time.Microsecond), Prev: prev,
			Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{benchText}}, IdempotencyKey: "idem-1"}
		h, err := e.Sign(b.Context(), from)
		if err != nil {
			b.Fatal(err)
		}
		prev, out[i] = h, envelope.AppendRequest(nil, nil, &e)
	}
	return out
}

// cpu returns the processor time of the process, which other programs on the
// machine affect less than the wall clock.
func cpu(b *testing.B) (stop func()) {
	used := func() int64 {
		var r syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
			b.Fatal(err)
		}
		return r.Utime.Nano() + r.Stime.Nano()
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op") }
}

// The budget is BenchmarkCall/pipeline over BenchmarkCall/bare: at most 1.3.
// Bare is one verify, one sign and two hashes of the same bytes.
func BenchmarkCall(b *testing.B) {
	vacant, caller := newKey(b), newKey(b)
	b.Run("bare", func(b *testing.B) {
		req, err := envelope.DecodeRequest(bodies(b, caller, vacant.ID(), 1)[0])
		if err != nil {
			b.Fatal(err)
		}
		msg, sig, id := req.Envelope.AppendSignedBytes(nil), req.Envelope.Signature, caller.ID()
		b.ReportAllocs()
		stop := cpu(b)
		for b.Loop() {
			if !ed25519.Verify(id[:], msg, sig) {
				b.Fatal("does not verify")
			}
			identity.Sum(msg)
			identity.Sum(msg)
			if _, err := vacant.Sign(b.Context(), msg); err != nil {
				b.Fatal(err)
			}
		}
		stop()
	})
	b.Run("pipeline", func(b *testing.B) {
		vault, err := local.Open(filepath.Join(b.TempDir(), "seal.key"), rand.Reader)
		if err != nil {
			b.Fatal(err)
		}
		s := memory.New()
		host := call.New(call.Config{
			Store: s, Texts: textkeys.New(s, vault, time.Now, rand.Reader, 24*time.Hour), Now: time.Now, Rand: rand.Reader,
			Directory: call.SingleVacant{ID: vacant.ID(), State: lifecycle.Active, Behaviour: substrate.Behaviour(echo.Substrate), Signer: vacant},
		})
		in := bodies(b, caller, vacant.ID(), b.N)
		b.ReportAllocs()
		b.ResetTimer()
		stop := cpu(b)
		var out []byte
		for _, body := range in {
			req, err := envelope.DecodeRequest(body)
			if err != nil {
				b.Fatal(err)
			}
			o := host.Send(b.Context(), identity.ID{}, &req.Envelope)
			if o.Problem != nil {
				b.Fatal(o.Problem)
			}
			out = envelope.AppendResponse(out[:0], req.ID, o.Reply)
		}
		stop()
	})
}
