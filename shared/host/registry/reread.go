package registry

import (
	"bytes"
	"context"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// CachedRegistration is shared by callers, which must not change it.
type CachedRegistration struct {
	Registration Registration
	Registered   bool
	data         []byte
}

// Reread works like Get, but returns last without decoding if the stored document is unchanged.
// last may be nil.
func (r *Registry) Reread(ctx context.Context, id identity.ID, last *CachedRegistration) (*CachedRegistration, error) {
	d, err := r.Store.Doc(ctx, RegistrationKey(id))
	if err != nil {
		return nil, WrapStoreError(err)
	}
	if d.Version == 0 {
		return &CachedRegistration{Registration: Registration{ID: id, Status: StatusActive}}, nil
	}
	if last != nil && last.Registration.ID == id && last.Registration.DocVersion == d.Version && bytes.Equal(last.data, d.Data) {
		return last, nil
	}
	reg, err := RegistrationDocs.Parse(d)
	if err != nil {
		return nil, WrapStoreError(err)
	}
	return &CachedRegistration{Registration: reg, Registered: reg.FirstSeq > 0, data: d.Data}, nil
}
