package chain_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/chain"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"pgregory.net/rapid"
)

var (
	noon  = time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)
	hash1 = identity.Sum([]byte("1"))
	hash2 = identity.Sum([]byte("2"))
)

func TestFit(t *testing.T) {
	const floor = "replay/out-of-order envelope: timestamp "
	tests := []struct {
		name string
		tip  chain.Tip
		seq  int64
		prev identity.Hash
		at   time.Time
		kind problem.Kind // 0 if the envelope fits
		text string
	}{
		{"first of a pair", chain.Tip{}, 1, identity.Hash{}, noon, 0, ""},
		{"first, however old", chain.Tip{}, 1, identity.Hash{}, time.Time{}, 0, ""},
		{"first with prev", chain.Tip{}, 1, hash1, noon, problem.Fork, "prev_envelope_hash mismatch: expected " + identity.Hash{}.String() + ", got " + hash1.String()},
		{"first is seq 2", chain.Tip{}, 2, identity.Hash{}, noon, problem.Gap, "non-monotonic sequence_no: expected 1, got 2"},
		{"seq 0", chain.Tip{}, 0, identity.Hash{}, noon, problem.Replay, "replay/out-of-order envelope: seq 0 <= last_seen 0"},
		{"negative seq", chain.Tip{}, -5, identity.Hash{}, noon, problem.Replay, "replay/out-of-order envelope: seq -5 <= last_seen 0"},
		{"next", chain.Tip{Seq: 7, Hash: hash1, Floor: noon}, 8, hash1, noon, 0, ""},
		{"next, signed earlier than the last", chain.Tip{Seq: 7, Hash: hash1, Floor: noon}, 8, hash1, noon.Add(-time.Hour), 0, ""},
		{"same again", chain.Tip{Seq: 7, Hash: hash1}, 7, identity.Hash{}, noon, problem.Replay, "replay/out-of-order envelope: seq 7 <= last_seen 7"},
		{"older with a wrong prev is a replay", chain.Tip{Seq: 7, Hash: hash1}, 3, hash2, noon, problem.Replay, "replay/out-of-order envelope: seq 3 <= last_seen 7"},
		{"gap with a wrong prev is a gap", chain.Tip{Seq: 7, Hash: hash1}, 9, hash2, noon, problem.Gap, "non-monotonic sequence_no: expected 8, got 9"},
		{"fork", chain.Tip{Seq: 7, Hash: hash1}, 8, hash2, noon, problem.Fork, "prev_envelope_hash mismatch: expected " + hash1.String() + ", got " + hash2.String()},
		{"largest seq", chain.Tip{Seq: envelope.MaxSeq - 1, Hash: hash1}, envelope.MaxSeq, hash1, noon, 0, ""},
		{"first after a reset, later than the floor", chain.Tip{Epoch: 1, Floor: noon}, 1, identity.Hash{}, noon.Add(time.Microsecond), 0, ""},
		{"first after a reset, at the floor", chain.Tip{Epoch: 1, Floor: noon}, 1, identity.Hash{}, noon, problem.BelowFloor, floor + "2026-05-06T12:00:00+00:00 <= floor 2026-05-06T12:00:00+00:00"},
		{"first after a reset, before the floor", chain.Tip{Epoch: 1, Floor: noon}, 1, identity.Hash{}, noon.Add(-time.Microsecond), problem.BelowFloor, floor + "2026-05-06T11:59:59.999999+00:00 <= floor 2026-05-06T12:00:00+00:00"},
		{"seq before prev before floor", chain.Tip{Epoch: 1, Floor: noon}, 2, hash1, time.Time{}, problem.Gap, "non-monotonic sequence_no: expected 1, got 2"},
		{"prev before floor", chain.Tip{Epoch: 1, Floor: noon}, 1, hash1, time.Time{}, problem.Fork, "prev_envelope_hash mismatch: expected " + identity.Hash{}.String() + ", got " + hash1.String()},
		{"second after a reset, before the floor", chain.Tip{Seq: 1, Hash: hash1, Epoch: 1, Floor: noon}, 2, hash1, noon.Add(-time.Hour), 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.tip.CheckNext(&envelope.Envelope{Seq: tt.seq, Prev: tt.prev, Time: tt.at})
			if tt.kind == 0 {
				if err != nil {
					t.Errorf("Fit() = %v, want nil", err)
				}
				return
			}
			if !problem.Is(err, tt.kind) || err.Error() != tt.text {
				t.Errorf("Fit() = %v (%s), want %s (%s)", err, problem.AsError(err).Kind, tt.text, tt.kind)
			}
			if got := problem.AsError(err).Kind.Forms().HTTPStatus; got != 409 {
				t.Errorf("status = %d, want 409", got)
			}
		})
	}
}

func TestAResetIsSignedLaterThanAllThatCame(t *testing.T) {
	tip := chain.Tip{Seq: 3, Hash: hash1, Floor: noon}
	for at, fits := range map[time.Time]bool{noon.Add(-time.Second): false, noon: false, noon.Add(time.Microsecond): true} {
		if err := tip.CheckReset(&envelope.Envelope{Time: at}); (err == nil) != fits || err != nil && !problem.Is(err, problem.BelowFloor) {
			t.Errorf("CheckReset(%s) = %v, want fits = %t", at, err, fits)
		}
	}
	want := chain.Tip{Epoch: 1, Floor: noon.Add(time.Second)}
	if diff := cmp.Diff(want, tip.WithReset(&envelope.Envelope{Time: noon.Add(time.Second)})); diff != "" {
		t.Errorf("Reset() mismatch (-want +got):\n%s", diff)
	}
}

func TestNextKeepsTheLargestTime(t *testing.T) {
	tip := chain.Tip{Seq: 3, Hash: hash1, Epoch: 2, Floor: noon}
	for at, floor := range map[time.Time]time.Time{noon.Add(-time.Hour): noon, noon: noon, noon.Add(time.Hour): noon.Add(time.Hour)} {
		want := chain.Tip{Seq: 4, Hash: hash2, Epoch: 2, Floor: floor}
		if diff := cmp.Diff(want, tip.WithEnvelope(&envelope.Envelope{Seq: 4, Time: at}, hash2)); diff != "" {
			t.Errorf("Next(%s) mismatch (-want +got):\n%s", at, diff)
		}
	}
}

// The test feeds the chain all that an attacker can make from the envelopes ever signed for it: the
// right next envelope, old envelopes, gaps, forks, resets and old resets. The accepted envelopes
// must have no gap and no fork, and no envelope may be accepted twice in any epoch.
func TestNoSequenceHasAGapOrAFork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := model{tip: chain.Tip{}, taken: map[identity.Hash]bool{}}
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			e := m.draw(t, i)
			if rapid.IntRange(0, 7).Draw(t, "reset") == 0 {
				m.reset(t, e)
			} else {
				m.call(t, e)
			}
		}
	})
}

// model is a chain that checks its invariants.
type model struct {
	tip    chain.Tip
	rows   int                    // accepted envelopes
	epoch  []envelope.Envelope    // accepted since the last reset
	signed []envelope.Envelope    // all signed envelopes
	taken  map[identity.Hash]bool // envelopes accepted in any epoch
	floor  time.Time              // latest accepted time
}

// draw returns a newly signed envelope or one of those signed earlier.
func (m *model) draw(t *rapid.T, i int) *envelope.Envelope {
	if len(m.signed) > 0 && rapid.IntRange(0, 2).Draw(t, "again") == 0 {
		e := rapid.SampledFrom(m.signed).Draw(t, "old")
		return &e
	}
	e := envelope.Envelope{Seq: m.tip.Seq + 1, Prev: m.tip.Hash, IdempotencyKey: fmt.Sprint(i),
		Time: noon.Add(time.Duration(rapid.IntRange(-3, 20).Draw(t, "seconds")) * time.Second)}
	switch rapid.IntRange(0, 5).Draw(t, "damage") {
	case 0:
		e.Seq += rapid.Int64Range(-3, 3).Draw(t, "by")
	case 1:
		if len(m.signed) > 0 {
			e.Prev = rapid.SampledFrom(m.signed).Draw(t, "prev").Prev
		}
	case 2:
		e.Seq, e.Prev = 1, identity.Hash{}
	}
	m.signed = append(m.signed, e)
	return &e
}

func (m *model) call(t *rapid.T, e *envelope.Envelope) {
	if m.tip.CheckNext(e) != nil {
		return
	}
	h := e.Hash()
	if m.taken[h] {
		t.Fatalf("Fit() took %s again in epoch %d", h, m.tip.Epoch)
	}
	if want := int64(len(m.epoch)) + 1; e.Seq != want {
		t.Fatalf("Fit() took seq %d, want %d", e.Seq, want)
	}
	prev := identity.Hash{}
	if n := len(m.epoch); n > 0 {
		prev = m.epoch[n-1].Hash()
	}
	if e.Prev != prev {
		t.Fatalf("Fit() took prev %s, want %s", e.Prev, prev)
	}
	m.tip = m.tip.WithEnvelope(e, h)
	m.epoch = append(m.epoch, *e)
	m.accepted(t, e, h)
}

func (m *model) reset(t *rapid.T, e *envelope.Envelope) {
	// An empty stream accepts any reset, so the pipeline calls CheckReset only for other streams.
	if m.rows > 0 && m.tip.CheckReset(e) != nil {
		return
	}
	h := e.Hash()
	if m.taken[h] {
		t.Fatalf("CheckReset() took %s again in epoch %d", h, m.tip.Epoch)
	}
	m.tip = m.tip.WithReset(e)
	m.epoch = nil
	m.accepted(t, e, h)
}

func (m *model) accepted(t *rapid.T, e *envelope.Envelope, h identity.Hash) {
	m.rows++
	m.taken[h] = true
	if e.Time.After(m.floor) {
		m.floor = e.Time
	}
	if !m.tip.Floor.Equal(m.floor) {
		t.Fatalf("Floor = %s, want the largest time %s", m.tip.Floor, m.floor)
	}
}

type tip struct {
	Seq  int64         `json:"last_sequence_no"`
	Hash identity.Hash `json:"chain_tip"`
}

// After the reference's sequences of calls, both chains of each caller must have the reference's
// state, and errors must have the reference's messages.
func TestChainsOfTheReference(t *testing.T) {
	raw, err := os.ReadFile("testdata/chain.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Name   string
			Expect struct {
				Steps []struct {
					Kind          string
					Request, Body json.RawMessage
					Status        int
					Tips          struct{ Request, Response tip }
				}
			}
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil || len(file.Cases) == 0 {
		t.Fatalf("testdata/chain.json: %d cases, %v", len(file.Cases), err)
	}
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			requests, responses := map[identity.ID]chain.Tip{}, map[identity.ID]chain.Tip{}
			for i, s := range c.Expect.Steps {
				req, err := envelope.DecodeRequest(s.Request)
				if err != nil {
					t.Fatalf("step %d: DecodeRequest() = %v", i, err)
				}
				e, caller := &req.Envelope, req.Envelope.From
				hash, verified := e.Verify()
				switch {
				case s.Status == 401:
					if verified {
						t.Errorf("step %d (%s): Verify() = true, want false", i, s.Kind)
					}
				case s.Status == 200:
					if err := requests[caller].CheckNext(e); err != nil || !verified {
						t.Fatalf("step %d (%s): Fit() = %v, verified %t", i, s.Kind, err, verified)
					}
					requests[caller] = requests[caller].WithEnvelope(e, hash)
					answer, err := envelope.DecodeResponse(s.Body)
					if err != nil {
						t.Fatalf("step %d: DecodeResponse() = %v", i, err)
					}
					hash, verified := answer.VerifyBy(e.To)
					if err := responses[caller].CheckNext(&answer); err != nil || !verified || answer.To != caller {
						t.Fatalf("step %d: Fit() of the answer = %v, verified %t", i, err, verified)
					}
					responses[caller] = responses[caller].WithEnvelope(&answer, hash)
				default:
					var body struct{ Detail string }
					if err := json.Unmarshal(s.Body, &body); err != nil {
						t.Fatal(err)
					}
					if err := requests[caller].CheckNext(e); err == nil || err.Error() != body.Detail {
						t.Errorf("step %d (%s): Fit() = %v, want %s", i, s.Kind, err, body.Detail)
					}
				}
				want := []tip{s.Tips.Request, s.Tips.Response}
				got := []tip{{requests[caller].Seq, requests[caller].Hash}, {responses[caller].Seq, responses[caller].Hash}}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("step %d (%s): chains mismatch (-want +got):\n%s", i, s.Kind, diff)
				}
			}
		})
	}
}
