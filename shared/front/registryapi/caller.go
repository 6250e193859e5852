package registryapi

import (
	"net/http"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/readproof"
)

// show sends an answer to a reader. Anonymous answers are the same for
// everybody, so they are cacheable.
func show(w http.ResponseWriter, r *http.Request, who *identity.ID, v any) error {
	w.Header().Set("Vary", readproof.Header)
	if who != nil {
		return answer(w, v)
	}
	return public(w, r, v)
}
