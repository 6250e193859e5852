package opensearch_test

import (
	"crypto/rand"
	"encoding/hex"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/opensearch"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/searchtest"
	node "github.com/vacancy-host/vacancy/tests/opensearch"
)

// fresh returns a unique name.
func fresh() string {
	var random [8]byte
	rand.Read(random[:])
	return "t-" + hex.EncodeToString(random[:])
}

// open creates an index for one test in the real node.
func open(t testing.TB) *opensearch.Index {
	t.Helper()
	x, err := opensearch.Open(t.Context(), opensearch.Config{URL: node.Start(t), Name: fresh()})
	if err != nil {
		t.Fatalf("Open() = %v", err)
	}
	return x
}

func TestARealNodeKeepsTheContract(t *testing.T) {
	searchtest.Run(t, func(t *testing.T) search.Index { return open(t) })
}
