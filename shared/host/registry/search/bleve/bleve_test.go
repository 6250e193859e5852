package bleve_test

import (
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/bleve"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/searchtest"
)

func TestAnIndexInMemoryKeepsTheContract(t *testing.T) {
	searchtest.Run(t, func(t *testing.T) search.Index {
		x, err := bleve.OpenMemory()
		if err != nil {
			t.Fatalf("Memory() = %v", err)
		}
		return x
	})
}

func TestAnIndexInAFolderKeepsTheContract(t *testing.T) {
	searchtest.Run(t, func(t *testing.T) search.Index { return open(t, t.TempDir()) })
}

func open(t testing.TB, dir string) *bleve.Index {
	t.Helper()
	x, err := bleve.Open(dir)
	if err != nil {
		t.Fatalf("Open() = %v", err)
	}
	return x
}
