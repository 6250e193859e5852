package kit

import (
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/blob"
)

// Seams contains the parts of the command line that programs and tests can replace. For example, a
// test wraps the store to kill the process at a chosen call. Unless its comment says otherwise, a
// nil field has no effect.
type Seams struct {
	// Program is os.Args[0]. Commands in hints and notes begin with the words that start this program
	// again. If Program is "", they begin with "vacancy".
	Program string

	// OpenCloud opens an AWS account. If OpenCloud is nil, commands that need an account run in the
	// program vacancy-aws.
	OpenCloud cloud.Open

	Store func(store.Store) store.Store // wraps the data file
	Blobs func(blob.Blobs) blob.Blobs   // wraps the files of workspaces
	// Handler wraps each handler of dev: the public one, then the admin socket.
	Handler func(serve.Endpoint) serve.Endpoint
	Now     func() time.Time
	// Disk returns the free space and the size of a data directory's disk.
	Disk func(dir string) (free, size int64)
	// Authority sends the requests of serve to its ACME authority. The default is
	// the system's client.
	Authority *http.Client
}

func (s Seams) WrapStore(inner store.Store) store.Store {
	if s.Store == nil {
		return inner
	}
	return s.Store(inner)
}

func (s Seams) WrapEndpoints(endpoints ...serve.Endpoint) []serve.Endpoint {
	if s.Handler != nil {
		for i := range endpoints {
			endpoints[i] = s.Handler(endpoints[i])
		}
	}
	return endpoints
}
