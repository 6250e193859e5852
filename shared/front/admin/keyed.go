package admin

import (
	"context"
	"net/http"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Checker checks the operator's key, in constant time: nil, a problem of kind
// Unauthorized, or Unavailable if it cannot tell.
type Checker interface {
	Check(ctx context.Context, key string) error
}

// RequireKey admits requests with the operator's key, as "Authorization: Bearer
// KEY" (RFC 6750). Others get 401 with WWW-Authenticate and no more
// information. If the key cannot be checked they get 503, so that a client does
// not take a fault for a wrong key.
func RequireKey(keys Checker, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, err := bearer(r)
		if err == nil {
			err = keys.Check(r.Context(), key)
		}
		if err == nil {
			next.ServeHTTP(w, r)
			return
		}
		if problem.Is(err, problem.Unauthorized) {
			challenge := `Bearer realm="vacancy"`
			if r.Header["Authorization"] != nil {
				challenge += `, error="invalid_token"`
			}
			w.Header().Set("WWW-Authenticate", challenge)
		}
		httpapi.Fail(w, err)
	})
}

// bearer is the request's key. Errors never quote it: a key with a blank too
// many is still most of a key.
func bearer(r *http.Request) (string, error) {
	given := r.Header["Authorization"]
	if len(given) == 0 {
		return "", problem.New(problem.Unauthorized, "the operator key is required: Authorization: Bearer KEY")
	}
	scheme, key, _ := strings.Cut(given[0], " ")
	key = strings.TrimLeft(key, " ")
	if len(given) > 1 || !strings.EqualFold(scheme, "Bearer") || key == "" {
		return "", problem.New(problem.Unauthorized, "Authorization: expected one Bearer KEY")
	}
	return key, nil
}
