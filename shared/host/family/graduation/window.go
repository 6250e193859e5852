package graduation

import (
	"context"
	"encoding/json"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// kindWindow is the partition prefix of a parent's window; only commit writes
// there.
const kindWindow = "gradwin"

// WindowKey is the key of the times of parent's successes.
func WindowKey(parent identity.ID) store.Key {
	return store.Key{Partition: kindWindow + "#" + parent.String(), Sort: "window"}
}

type storedWindow struct {
	Format int         `json:"format"`
	Taken  gate.Window `json:"taken"`
}

// DecodeWindow reads parent's window. The error is of kind Damaged if it is
// unreadable. An absent document is an empty window.
func DecodeWindow(parent identity.ID, d store.Doc) (gate.Window, error) {
	if d.Version == 0 {
		return nil, nil
	}
	var w storedWindow
	err := json.Unmarshal(d.Data, &w)
	if err == nil {
		err = checkFormat(w.Format)
	}
	if err != nil {
		return nil, problem.Wrap(problem.Damaged, err, "the window of %s is not readable: %s", parent.Short(), problem.Of(err).Text())
	}
	return w.Taken, nil
}

// window reads parent's window and the version of its document.
func (s *Service) window(ctx context.Context, parent identity.ID) (gate.Window, uint64, error) {
	d, err := s.Store.Doc(ctx, WindowKey(parent))
	if err != nil {
		return nil, 0, err
	}
	w, err := DecodeWindow(parent, d)
	return w, d.Version, err
}

// taken is the write of a window after a slot was taken.
func taken(parent identity.ID, w gate.Window, version uint64, writeID store.WriteID) (store.Put, error) {
	data, err := encode(storedWindow{format, w})
	return store.Put{Key: WindowKey(parent), If: version, WriteID: writeID, Data: data}, err
}
