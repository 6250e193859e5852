package callcmd

import (
	"crypto/rand"
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/review"
)

func TestAStoredReviewIsReadAsItWasSigned(t *testing.T) {
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	target, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, blinded := range []bool{false, true} {
		rec := review.Record{Target: target.ID(), Ratings: review.Ratings{"factual": 1, "logical": 0.25, "relevance": 0}, Substrate: "default", Call: identity.Hash{7}, Claim: "é <&>\u2028", IssuedAt: time.Now()}
		signed := any(&rec)
		if blinded {
			reveal, err := rec.Blind(t.Context(), key, rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			signed = blindedReview{&rec, &reveal}
		} else if err := rec.Sign(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(signed)
		if err != nil {
			t.Fatal(err)
		}
		got, isBlinded, err := parseKept(b)
		if err != nil || isBlinded != blinded || !got.Verify(key.ID()) || !maps.Equal(got.Ratings, rec.Ratings) || got.Claim != rec.Claim || got.Hash() != rec.Hash() {
			t.Errorf("parseKept() of a blinded review: %t = %+v, %t, %v", blinded, got, isBlinded, err)
		}
	}
	for _, bad := range []string{"", "{}", "[]", `{"record":7}`, `{"record":{}}`} {
		if _, _, err := parseKept([]byte(bad)); err == nil {
			t.Errorf("parseKept(%s) = nil, want an error", bad)
		}
	}
}
