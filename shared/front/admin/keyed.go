package admin

import (
	"context"
	"net/http"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// KeyChecker checks the operator's key in constant time. The error is of kind Unauthorized if the
// key is wrong, or Unavailable if the key cannot be checked.
type KeyChecker interface {
	Check(ctx context.Context, key string) error
}

// RequireKey accepts only requests with the operator's key (RFC 6750). If the key cannot be
// checked, RequireKey answers 503 instead of 401, so that clients do not mistake a fault for a
// wrong key.
func RequireKey(checker KeyChecker, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, err := bearerKey(r)
		if err == nil {
			err = checker.Check(r.Context(), key)
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

// bearerKey returns the request's key. Its errors never quote the key, because a malformed key may
// contain most of a valid key.
func bearerKey(r *http.Request) (string, error) {
	headers := r.Header["Authorization"]
	if len(headers) == 0 {
		return "", problem.New(problem.Unauthorized, "the operator key is required: Authorization: Bearer KEY")
	}
	scheme, key, _ := strings.Cut(headers[0], " ")
	key = strings.TrimLeft(key, " ")
	if len(headers) > 1 || !strings.EqualFold(scheme, "Bearer") || key == "" {
		return "", problem.New(problem.Unauthorized, "Authorization: expected one Bearer KEY")
	}
	return key, nil
}
