package call

import (
	"testing"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func pairOf(n int) Pair {
	return Pair{Caller: identity.ID{byte(n), byte(n >> 8), byte(n >> 16)}, Vacant: identity.ID{1}}
}

func TestAMemoryKeepsTheNewerOfWhatItLearns(t *testing.T) {
	var v tipCache
	p := pairOf(1)
	v.put(p, tips{req: RequestRow{Position: 5}, rsp: ResponseRow{Position: 2}})
	v.put(p, tips{req: RequestRow{Position: 4}, rsp: ResponseRow{Position: 3}}) // another call ended later
	v.put(p, tips{rsp: ResponseRow{Position: 1}})
	got, ok := v.shards[p.Caller[0]%32].m[p]
	if !ok || got.req.Position != 5 || got.rsp.Position != 3 {
		t.Errorf("get() = %d, %d, %v, want 5, 3", got.req.Position, got.rsp.Position, ok)
	}
	v.forget(p)
	if _, ok := v.shards[p.Caller[0]%32].m[p]; ok {
		t.Error("a forgotten pair is remembered")
	}
}

func TestHalfAViewIsNotRemembered(t *testing.T) {
	var v tipCache
	v.put(pairOf(1), tips{rsp: ResponseRow{Position: 3}})
	if p := pairOf(1); len(v.shards[p.Caller[0]%32].m) > 0 {
		t.Error("a response tip alone claims that there is no request")
	}
}

func TestAMemoryIsBoundedAndHoldsNoTexts(t *testing.T) {
	var v tipCache
	for n := range 32*cachedPairsPerShard + 5000 {
		r := RequestRow{Position: 1, Signature: make([]byte, 64)}
		r.Text.Box = make([]byte, 10)
		v.put(pairOf(n), tips{req: r, rsp: ResponseRow{Position: 1, Signature: make([]byte, 64)}})
	}
	n := 0
	for i := range v.shards {
		n += len(v.shards[i].m)
		for _, x := range v.shards[i].m {
			if x.req.Text.Box != nil || x.req.Signature != nil || x.rsp.Text.Box != nil || x.rsp.Signature != nil {
				t.Fatal("a remembered tip holds the bytes of its row")
			}
		}
	}
	if n > 32*cachedPairsPerShard {
		t.Errorf("%d pairs are remembered, want at most %d", n, 32*cachedPairsPerShard)
	}
}
