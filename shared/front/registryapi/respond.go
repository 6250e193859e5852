package registryapi

import (
	"net/http"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// answer sends what is not for keeping: the answer to a change, or what only
// its reader may see.
func answer(w http.ResponseWriter, v any) error { return httpapi.Answer(w, http.StatusOK, v) }

// public sends what everybody gets alike. Caches may keep it, and ask each time
// whether it still holds: a vacant that was unpublished or revoked must be
// gone, or shown as it is, from the next request on.
func public(w http.ResponseWriter, r *http.Request, v any) error {
	b, err := httpapi.Encode(v)
	if err != nil {
		return err
	}
	revalidated(w, r, b)
	return nil
}

// revalidated sends bytes that caches keep and ask about each time.
func revalidated(w http.ResponseWriter, r *http.Request, b []byte) {
	etag := `"` + identity.Sum(b).String()[:32] + `"`
	w.Header().Set("ETag", etag)
	w.Header().Set("Cache-Control", "public, no-cache")
	// In Lambda a list comes as several values.
	if matches(strings.Join(r.Header.Values("If-None-Match"), ","), etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	httpapi.Send(w, http.StatusOK, b)
}

func matches(header, etag string) bool {
	for tag := range strings.SplitSeq(header, ",") {
		if tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/"); tag == etag || tag == "*" {
			return true
		}
	}
	return false
}

// readBody reads a JSON body.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	return httpapi.Body(w, r, canon.DefaultLimits().Bytes)
}

func clip(s string) string { return httpapi.Clip(s) }
