package operator_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/keys/operator"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
)

func keys(s store.Store) operator.Keys {
	return operator.Keys{Store: s, Rand: rand.Reader, Now: func() time.Time { return time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC) }}
}

func rotate(t *testing.T, k operator.Keys) string {
	t.Helper()
	key, err := k.Rotate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestTheLastKeyMintedIsTheOnlyOne(t *testing.T) {
	k := keys(memory.New())
	first := rotate(t, k)
	if len(first) != 47 || !strings.HasPrefix(first, "vop_") {
		t.Errorf("Rotate() = %q, want vop_ and 43 characters", first)
	}
	if err := k.Check(t.Context(), first); err != nil {
		t.Errorf("Check(the key) = %v", err)
	}
	second := rotate(t, k)
	if err := k.Check(t.Context(), first); !problem.Is(err, problem.Unauthorized) {
		t.Errorf("Check(the key before) = %v, want unauthorized", err)
	}
	if err := k.Check(t.Context(), second); err != nil {
		t.Errorf("Check(the new key) = %v", err)
	}
}

func TestWrongKeyIsUnauthorizedAndNotQuoted(t *testing.T) {
	k := keys(memory.New())
	if err := k.Check(t.Context(), "vop_"+strings.Repeat("A", 43)); !problem.Is(err, problem.Unauthorized) {
		t.Errorf("Check() before a key was minted = %v, want unauthorized", err)
	}
	key, foreign := rotate(t, k), rotate(t, keys(memory.New()))
	for _, wrong := range []string{
		"", "vop_", key[:46], key + "A", strings.ToUpper(key[:4]) + key[4:], "vxx_" + key[4:], key[4:], " " + key, key + "\n",
		"vop_" + strings.Repeat("=", 43), "vop_" + strings.Repeat("A", 43), foreign,
	} {
		err := k.Check(t.Context(), wrong)
		if !problem.Is(err, problem.Unauthorized) || wrong != "" && strings.Contains(err.Error(), wrong) {
			t.Errorf("Check(%q) = %v, want unauthorized without the key", wrong, err)
		}
	}
}

func TestTheKeyItselfIsNotStored(t *testing.T) {
	s := memory.New()
	key := rotate(t, keys(s))
	d, err := s.Doc(t.Context(), operator.DocKey())
	if err != nil || d.Version == 0 || bytes.Contains(d.Data, []byte(key)) || bytes.Contains(d.Data, []byte(key[4:])) {
		t.Errorf("document = %q, %v, want one without the key", d.Data, err)
	}
}

func TestAFaultOfTheStoreIsNoRefusal(t *testing.T) {
	s := memory.New()
	key := rotate(t, keys(s))
	away := &storetest.Lossy{Store: s, ChooseFault: func(string, []store.Write) storetest.Fault { return storetest.Lost }}
	if err := keys(away).Check(t.Context(), key); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Check() while the store is away = %v, want unavailable", err)
	}
	if got, err := keys(away).Rotate(t.Context()); !problem.Is(err, problem.Unavailable) || got != "" {
		t.Errorf("Rotate() while the store is away = %q, %v, want unavailable", got, err)
	}
	if err := keys(s).Check(t.Context(), key); err != nil {
		t.Errorf("Check() afterwards = %v", err)
	}
}

func TestADamagedDocumentIsNoRefusalEither(t *testing.T) {
	for _, data := range []string{``, `{`, `{"format":2,"sha256":"00"}`, `{"format":2,"sha256":"` + strings.Repeat("00", 32) + `"}`, `{"format":1,"sha256":"00"}`, `{"format":1,"sha256":"` + strings.Repeat("g", 64) + `"}`} {
		s := memory.New()
		if err := s.Commit(t.Context(), store.Put{Key: operator.DocKey(), WriteID: store.WriteID{1}, Data: []byte(data)}); err != nil {
			t.Fatal(err)
		}
		if err := keys(s).Check(t.Context(), "vop_"+strings.Repeat("A", 43)); !problem.Is(err, problem.Damaged) {
			t.Errorf("Check() over %q = %v, want damaged", data, err)
		}
		if err := keys(s).Check(t.Context(), rotate(t, keys(s))); err != nil {
			t.Errorf("Check() after a rotation over %q = %v", data, err)
		}
	}
}

// The commit of a rotation is lost, unacknowledged, late or repeated. Rotate returns either a valid
// key or an error.
func TestARotationBrokenOffGivesNoKeyThatDoesNotCount(t *testing.T) {
	for at := range 2 {
		for _, fate := range storetest.FaultsOf("Commit") {
			t.Run(fmt.Sprintf("call %d %s", at, fate), func(t *testing.T) {
				s := memory.New()
				n := -1
				lossy := &storetest.Lossy{Store: s, ChooseFault: func(string, []store.Write) storetest.Fault {
					if n++; n == at {
						return fate
					}
					return storetest.NoFault
				}}
				key, err := keys(lossy).Rotate(t.Context())
				lossy.ApplyPending(t.Context())
				if err != nil {
					if key != "" || !problem.Is(err, problem.Unavailable) {
						t.Errorf("Rotate() = %q, %v, want unavailable", key, err)
					}
					key = rotate(t, keys(s))
				}
				if err := keys(s).Check(t.Context(), key); err != nil {
					t.Errorf("Check() = %v", err)
				}
			})
		}
	}
}

func TestOfManyRotationsAtOnceOneKeyCounts(t *testing.T) {
	s := memory.New()
	var mu sync.Mutex
	var minted []string
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			key, err := keys(s).Rotate(context.Background())
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("Rotate() = %v", err)
			}
			minted = append(minted, key)
		})
	}
	wg.Wait()
	good := 0
	for _, key := range minted {
		if keys(s).Check(t.Context(), key) == nil {
			good++
		}
	}
	if good != 1 {
		t.Errorf("%d of %d keys count, want 1", good, len(minted))
	}
}

type dry struct{}

func (dry) Read([]byte) (int, error) { return 0, errors.New("dry") }

func TestWithoutRandomnessNoKeyIsMade(t *testing.T) {
	s := memory.New()
	k := keys(s)
	k.Rand = dry{}
	if key, err := k.Rotate(t.Context()); !problem.Is(err, problem.Unavailable) || key != "" {
		t.Errorf("Rotate() = %q, %v, want unavailable", key, err)
	}
	if d, _ := s.Doc(t.Context(), operator.DocKey()); d.Version != 0 {
		t.Error("a document was written")
	}
}

// For any document and any presented key, the error has one of three kinds, and only the created
// key is accepted.
func FuzzCheck(f *testing.F) {
	f.Add([]byte(`{"format":1,"sha256":"`+strings.Repeat("00", 32)+`"}`), "vop_"+strings.Repeat("A", 43))
	f.Add([]byte(`{}`), "")
	f.Fuzz(func(t *testing.T, data []byte, key string) {
		s := memory.New()
		if err := s.Commit(t.Context(), store.Put{Key: operator.DocKey(), WriteID: store.WriteID{1}, Data: data}); err != nil {
			t.Skip("no store keeps a document of that size")
		}
		err := keys(s).Check(t.Context(), key)
		if err == nil && !bytes.Contains(bytes.ToLower(data), []byte(fmt.Sprintf("%x", sha256.Sum256([]byte(key))))) {
			t.Errorf("Check(%q) over %q let it in", key, data)
		}
		if err != nil && !problem.Is(err, problem.Unauthorized) && !problem.Is(err, problem.Damaged) {
			t.Errorf("Check(%q) over %q = %v", key, data, err)
		}
	})
}
