package admin

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Root is the vacant at the host's own address. In a change it may be a name; nil: no
// vacant is there.
type Root struct {
	Vacant *string `json:"vacant" canon:"required,null"`
}

func (d *api) root(w http.ResponseWriter, r *http.Request) error {
	id, ok, err := d.Vacants.Root(r.Context())
	if err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusOK, rootOf(id, ok))
}

func rootOf(id identity.ID, ok bool) (r Root) {
	if ok {
		text := id.String()
		r.Vacant = &text
	}
	return r
}

func (d *api) setRoot(w http.ResponseWriter, r *http.Request) error {
	b, err := read[Root](w, r)
	if err != nil {
		return err
	}
	what := ""
	if b.Vacant != nil {
		what = *b.Vacant
	}
	if what == "" {
		if err := d.Vacants.SetRoot(r.Context(), nil); err != nil {
			return err
		}
		return httpapi.Answer(w, http.StatusOK, Root{})
	}
	rec, err := d.find(r.Context(), what)
	if err == nil {
		err = d.Vacants.SetRoot(r.Context(), &rec.ID)
	}
	if err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusOK, rootOf(rec.ID, true))
}

// SetRoot makes a vacant the one at the host's own address; "": no vacant is there.
func (c *Client) SetRoot(ctx context.Context, vacant string) (r Root, err error) {
	if vacant != "" {
		r.Vacant = &vacant
	}
	body, err := json.Marshal(r)
	if err != nil {
		return r, problem.Wrap(problem.Usage, err, "the vacant is no text")
	}
	return r, c.do(ctx, http.MethodPut, "/v1/admin/root", body, &r)
}
