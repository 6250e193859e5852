package translog_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// The epochs have no leaves, a power of two of leaves, or padding.
func TestEpochsHaveTheReferencesRootAndSignature(t *testing.T) {
	b, err := os.ReadFile("testdata/registry_events.json")
	must(t, err)
	var file struct {
		Cases []struct {
			Name  string
			Input struct {
				Leaves       []identity.Hash
				OperatorSeed string `json:"operator_seed"`
			}
			Expect struct {
				Root      identity.Hash
				Signature string `json:"epoch_signature"`
			}
		}
	}
	must(t, json.Unmarshal(b, &file))
	seen := 0
	for _, c := range file.Cases {
		if !strings.HasPrefix(c.Name, "merkle") {
			continue
		}
		seen++
		t.Run(c.Name, func(t *testing.T) {
			var tree translog.EpochTree
			for _, leaf := range c.Input.Leaves {
				tree.Add(leaf)
			}
			if got := tree.Root(); got != c.Expect.Root {
				t.Errorf("Root() = %v, want %v", got, c.Expect.Root)
			}
			seed, err := hex.DecodeString(c.Input.OperatorSeed)
			must(t, err)
			key, err := identity.KeyFromSeed(seed)
			must(t, err)
			sig, err := key.Sign(context.Background(), translog.EpochBytes(tree.Root()))
			if err != nil || hex.EncodeToString(sig) != c.Expect.Signature {
				t.Errorf("signature = %x, %v, want %s", sig, err, c.Expect.Signature)
			}
		})
	}
	if seen < 10 {
		t.Errorf("found %d trees in the vectors, want at least 10", seen)
	}
}

// The incremental root is compared with the definition for every size up to 70.
func TestAnEpochsRootIsThatOfThePaddedTree(t *testing.T) {
	var tree translog.EpochTree
	var leaves []identity.Hash
	for n := range 70 {
		leaf := identity.Sum([]byte{byte(n)})
		tree.Add(leaf)
		leaves = append(leaves, leaf)
		if got, want := tree.Root(), padded(leaves); got != want {
			t.Errorf("Root() of %d leaves = %v, want %v", n+1, got, want)
		}
	}
}

func padded(leaves []identity.Hash) identity.Hash {
	var level []identity.Hash
	for _, l := range leaves {
		level = append(level, identity.Sum(append([]byte{0}, l[:]...)))
	}
	for len(level)&(len(level)-1) != 0 {
		level = append(level, level[len(level)-1])
	}
	for len(level) > 1 {
		var up []identity.Hash
		for i := 0; i < len(level); i += 2 {
			up = append(up, identity.Sum(append(append([]byte{1}, level[i][:]...), level[i+1][:]...)))
		}
		level = up
	}
	return level[0]
}

func TestAWitnessStatementBindsEveryFieldOfAnEpoch(t *testing.T) {
	e := translog.Epoch{ID: 1, FirstSeq: 2, LastSeq: 3, TreeSize: 2, Root: identity.Hash{4}, SealedAt: 5}
	seen := map[identity.Hash]string{e.WitnessStatement(): "itself"}
	for name, change := range map[string]func(*translog.Epoch){
		"id":    func(e *translog.Epoch) { e.ID++ },
		"first": func(e *translog.Epoch) { e.FirstSeq++ },
		"last":  func(e *translog.Epoch) { e.LastSeq++ },
		"size":  func(e *translog.Epoch) { e.TreeSize++ },
		"root":  func(e *translog.Epoch) { e.Root[31]++ },
		"time":  func(e *translog.Epoch) { e.SealedAt++ },
	} {
		other := e
		change(&other)
		if with, ok := seen[other.WitnessStatement()]; ok {
			t.Errorf("WitnessStatement() with another %s = that with another %s", name, with)
		}
		seen[other.WitnessStatement()] = name
	}
}
