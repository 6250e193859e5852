package message

import (
	"net/http"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
)

// TextPath is the path below a vacant that answers a text with a text.
const TextPath = "/text"

// Split splits the path of a request into the vacant that it names and the path below the
// vacant. The slashes between the two are read as one, because clients append a path to a base
// URL that ends with a slash. below is false for a path that names no vacant.
func Split(path string) (name, rest string, below bool) {
	if name, below = strings.CutPrefix(path, "/v/"); !below {
		return "", path, false
	}
	name, rest, _ = strings.Cut(name, "/")
	return name, "/" + strings.TrimLeft(rest, "/"), true
}

// Refuse answers with an error in the form of the request's address: a line of text at
// TextPath, else JSON. The form does not depend on whether the vacant exists.
func Refuse(w http.ResponseWriter, r *http.Request, err error) {
	if _, rest, _ := Split(r.URL.Path); strings.TrimSuffix(rest, "/") == TextPath {
		httpapi.FailLine(w, err)
		return
	}
	httpapi.Fail(w, err)
}
