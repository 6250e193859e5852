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
// test wraps the store to kill the process at a chosen call. A nil field has no effect, unless the
// comment of the field says otherwise.
type Seams struct {
	// Program is os.Args[0]. Commands in hints and notes begin with the words that start this program
	// again. If Program is "", they begin with "vacancy".
	Program string

	// OpenCloud opens an AWS account. If OpenCloud is nil, commands that need an account run in the
	// program vacancy-aws.
	OpenCloud cloud.OpenFunc

	StoreWrapper func(store.Store) store.Store // wraps the data file
	BlobsWrapper func(blob.Blobs) blob.Blobs   // wraps the files of workspaces
	// EndpointWrapper wraps each handler of dev: the public one, then the admin socket.
	EndpointWrapper func(serve.Endpoint) serve.Endpoint
	Now             func() time.Time
	// DiskSpace returns the free space and the size of a data directory's disk.
	DiskSpace func(dir string) (free, size int64)
	// ACMEClient sends the requests of serve to its ACME authority. The default is
	// the system's client.
	ACMEClient *http.Client
}

func (s Seams) WrapStore(inner store.Store) store.Store {
	if s.StoreWrapper == nil {
		return inner
	}
	return s.StoreWrapper(inner)
}

func (s Seams) WrapEndpoints(endpoints ...serve.Endpoint) []serve.Endpoint {
	if s.EndpointWrapper != nil {
		for i := range endpoints {
			endpoints[i] = s.EndpointWrapper(endpoints[i])
		}
	}
	return endpoints
}
