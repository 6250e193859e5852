package vacants

import (
	"context"
	"net/url"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func URLKey() store.Key { return URLDocs.Key() }

type hostURL struct {
	URL string `json:"url"`
}

func normalizeURL(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return "", &problem.Error{Kind: problem.Usage, Field: "host URL", Want: "http://HOST or https://HOST, with an optional path", Got: quoteTruncated(s), Err: err}
	}
	return strings.TrimRight(s, "/"), nil
}

func cardEndpoint(base string, id identity.ID) string {
	return base + "/v/" + id.String() + "/a2a/message/send"
}

func (v *Directory) requireBaseURL(ctx context.Context) (string, error) {
	u, err := v.BaseURL(ctx)
	if err == nil && u == "" {
		err = problem.New(problem.Conflict, "this host does not know its public URL yet; `vacancy deploy` sets it (PUT /v1/admin/host)")
	}
	return u, err
}

// SetURL stores the base URL and replaces all cards that contain a different URL. It returns the
// number of new cards. If the configuration sets the URL, every other URL is rejected.
func (v *Directory) SetURL(ctx context.Context, base string) (signedCount int, err error) {
	base, err = normalizeURL(base)
	if err != nil {
		return 0, err
	}
	if v.URL != "" && v.URL != base {
		return 0, problem.New(problem.Conflict, "the configuration of this host sets its URL to %s", v.URL)
	}
	if v.URL == "" {
		err := v.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
			stored, d, err := URLDocs.Get(ctx, tx, URLKey())
			if err != nil || stored.URL == base {
				return err
			}
			URLDocs.Put(tx, store.Doc{Key: d.Key}, hostURL{base})
			return nil
		})
		if err != nil {
			return 0, store.AsProblem(err)
		}
	}
	return v.UpdateCardURLs(ctx)
}
