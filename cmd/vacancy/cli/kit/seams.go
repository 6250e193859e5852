package kit

import (
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/blob"
)

// Seams contains the parts of the command line that programs and tests can replace. A nil field has
// no effect, unless its comment says otherwise.
type Seams struct {
	// Program is os.Args[0]. If Program is "", commands in hints begin with "vacancy".
	Program string

	// OpenCloud opens an AWS account. If OpenCloud is nil, commands that need an account run in the
	// program vacancy-aws.
	OpenCloud cloud.OpenFunc

	StoreWrapper func(store.Store) store.Store
	BlobsWrapper func(blob.Blobs) blob.Blobs
	// EndpointWrapper wraps each handler of dev: the public one, then the admin socket.
	EndpointWrapper func(serve.Endpoint) serve.Endpoint
	Now             func() time.Time
	DiskSpace       func(dir string) (free, size int64)
	// ACMEClient sends the requests of serve to its ACME authority.
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
