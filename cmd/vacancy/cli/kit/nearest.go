package kit

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/nearest"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Call implements op.Client. The error of a vacant that the host does not have suggests one
// that the person may have meant.
func (c *AdminAPI) Call(ctx context.Context, method, path string, header http.Header, body []byte, into any) error {
	err := c.Client.Call(ctx, method, path, header, body, into)
	return c.Unknown(ctx, vacantOf(path, body), err)
}

// vacantOf returns the vacant that a request names in its path or body, or "".
func vacantOf(path string, body []byte) string {
	if rest, ok := strings.CutPrefix(path, "/v1/admin/vacants/"); ok {
		word, _, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "?")
		word, _, _ = strings.Cut(word, "/")
		word, _ = url.PathUnescape(word)
		return word
	}
	var named struct{ Vacant string }
	_ = json.Unmarshal(body, &named) // other bodies name no vacant
	return named.Vacant
}

// Unknown adds a hint to an error of kind NotFound about a vacant.
func (c *AdminAPI) Unknown(ctx context.Context, vacant string, err error) error {
	if vacant == "" || !problem.Is(err, problem.NotFound) {
		return err
	}
	return c.app.unknownVacant(ctx, c.Client, vacant, err, c.where)
}

// unknownVacant adds the command with the name that is near vacant to err, or the list of
// vacants. It asks the same host with the same key, so that a tenant's key suggests only
// the tenant's vacants. The error of another thing of an existing vacant stays as it is.
func (a *App) unknownVacant(ctx context.Context, c op.Client, vacant string, err error, w Where) error {
	page, listErr := admin.ListVacants.Call(ctx, c, admin.VacantList{})
	if listErr != nil {
		return err
	}
	names := make([]string, len(page.Vacants))
	for i := range page.Vacants {
		v := &page.Vacants[i]
		if names[i] = v.Name; v.Name == vacant || strings.HasPrefix(v.ID.String(), strings.ToLower(vacant)) {
			return err
		}
	}
	if near := nearest.Name(vacant, names); near != "" {
		return WithHint(err, "%s", a.corrected(vacant, near))
	}
	return WithHint(err, "vacancy list%s", w.Args())
}

// longestHint bounds the bytes of a command line that is repeated in a hint.
const longestHint = 200

// corrected is the command line with the word wrong replaced, or only the right word if the
// command line is long or does not have the wrong one.
func (a *App) corrected(wrong, right string) string {
	line, replaced := programName, 0
	for _, arg := range a.args {
		if arg == wrong {
			arg = right
			replaced++
		}
		line += " " + ShellWord(arg)
	}
	if replaced != 1 || len(line) > longestHint {
		return right
	}
	return line
}

// Show is admin.ShowVacant.
func (c *AdminAPI) Show(ctx context.Context, vacant string) (admin.Vacant, error) {
	return admin.ShowVacant.Call(ctx, c, admin.One{Vacant: vacant})
}
