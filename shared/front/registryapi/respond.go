package registryapi

import (
	"net/http"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/readproof"
)

// sendToReader allows caching only if the reader is anonymous, because all anonymous readers get
// the same answer.
func sendToReader(w http.ResponseWriter, r *http.Request, reader *identity.ID, v any) error {
	w.Header().Set("Vary", readproof.Header)
	if reader != nil {
		return httpapi.SendJSON(w, http.StatusOK, v)
	}
	return sendPublic(w, r, v)
}

// sendPublic sends an answer that is the same for every client. Caches must revalidate it each
// time, so that the revocation of a vacant takes effect with the next request.
func sendPublic(w http.ResponseWriter, r *http.Request, v any) error {
	b, err := httpapi.Encode(v)
	if err != nil {
		return err
	}
	sendWithETag(w, r, b)
	return nil
}

func sendWithETag(w http.ResponseWriter, r *http.Request, b []byte) {
	etag := `"` + identity.Sum(b).String()[:32] + `"`
	w.Header().Set("ETag", etag)
	w.Header().Set("Cache-Control", "public, no-cache")
	// Lambda splits a header at its commas into several values.
	if matchesETag(strings.Join(r.Header.Values("If-None-Match"), ","), etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	httpapi.Send(w, http.StatusOK, b)
}

func matchesETag(header, etag string) bool {
	for tag := range strings.SplitSeq(header, ",") {
		if tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/"); tag == etag || tag == "*" {
			return true
		}
	}
	return false
}

func quoteTruncated(s string) string { return httpapi.QuoteTruncated(s) }
