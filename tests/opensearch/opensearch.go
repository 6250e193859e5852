// Package opensearch runs one node of OpenSearch for tests, on a free port of 127.0.0.1, so that
// the OpenSearch adapter can be tested without an account. The node has no security and no plugins.
//
// A node ends with the process that started it, and its files are then deleted.
package opensearch

import (
	"context"
	_ "embed"
	"os"
	"sync"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cache"
	"github.com/vacancy-host/vacancy/shared/await"
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

// Fetch installs OpenSearch in cacheDir if it is missing (about 53 MB of jars)
// and returns its directory.
func Fetch(ctx context.Context, cacheDir string) (string, error) {
	return recipe().Fetch(ctx, cacheDir)
}

// StartProcess starts a node from the install in cacheDir, and installs it if
// missing. heap is the heap size, such as "256m". ctx limits the start. The
// node runs until Stop or the end of this process.
func StartProcess(ctx context.Context, cacheDir, heap string) (*javaserver.Server, error) {
	// Created here for a unique name; the launcher deletes it.
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

// server is the one node of a test binary. Every test creates its own indexes,
// so nothing is reset between tests. A start takes five seconds.
var server = sync.OnceValues(func() (*javaserver.Server, error) {
	dir, err := cache.Dir(os.Getenv)
	if err != nil {
		return nil, err
	}
	// The limit includes the download of a first run.
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	defer cancel()
	return StartProcess(ctx, dir, "512m")
})

// Start returns the endpoint of the test binary's node, which ends with the
// binary. Missing requirements fail the test; they never skip it.
func Start(t testing.TB) string {
	t.Helper()
	s, err := server()
	if err != nil {
		t.Fatalf("opensearch.Start() = %v", err)
	}
	return s.Endpoint
}
