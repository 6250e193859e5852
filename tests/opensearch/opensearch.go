// Package opensearch runs one node of OpenSearch for tests, on a free port of
// 127.0.0.1: the real adapter against the real engine, no account and no fake.
// The node has no security and no plugins.
//
// It may import cmd/vacancy/cache and tests/javaserver. The invariant: a node
// never outlives the process that started it, and its files go with it.
package opensearch

import (
	"context"
	_ "embed"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cache"
	"github.com/vacancy-host/vacancy/tests/javaserver"
)

//go:embed pom.xml
var pom []byte

//go:embed LoopbackOpenSearch.java
var launcher []byte

func recipe() javaserver.Recipe {
	return javaserver.Recipe{
		Name: "OpenSearch", Folder: "opensearch",
		POM: pom, Class: "LoopbackOpenSearch", Launcher: launcher,
	}
}

// Fetch makes sure that cacheDir holds an install of OpenSearch (about 53 MB of
// jars, once) and returns its directory.
func Fetch(ctx context.Context, cacheDir string) (string, error) {
	return recipe().Fetch(ctx, cacheDir)
}

// StartProcess starts a node from the install in cacheDir, which it makes if
// absent, with a heap of so much ("256m"). ctx bounds the start, not the node's life:
// that ends with Stop, or with this process.
func StartProcess(ctx context.Context, cacheDir, heap string) (*javaserver.Server, error) {
	// Made here for its fresh name; the launcher removes it.
	data, err := os.MkdirTemp("", "opensearch-")
	if err != nil {
		return nil, err
	}
	return recipe().Start(ctx, cacheDir, javaserver.Options{
		JVM: func(string) []string {
			return []string{"-Xms" + heap, "-Xmx" + heap, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"}
		},
		Args: []string{data},
	})
}

// server is the one node of a test binary. Every test makes indexes of its own,
// so there is nothing to reset between them, and a start costs five seconds.
var server = sync.OnceValues(func() (*javaserver.Server, error) {
	dir, err := cache.Dir(os.Getenv)
	if err != nil {
		return nil, err
	}
	// The download of a first run is in here.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	return StartProcess(ctx, dir, "512m")
})

// Start returns the endpoint of the test binary's own node, which ends with the
// binary. What is missing to run it fails the test; it is never skipped.
func Start(t testing.TB) string {
	t.Helper()
	s, err := server()
	if err != nil {
		t.Fatalf("opensearch.Start() = %v", err)
	}
	return s.Endpoint
}
