package export

import (
	"math"
	"net/http"
	"reflect"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

const (
	ascending  = "asc"
	descending = "desc"
)

// Stream names are encoded in base64url.
type (
	StreamsRequest struct {
		Prefix string `query:"prefix"`
		Limit  uint64 `query:"limit"`
		Cursor string `query:"cursor"`
	}
	RowsRequest struct {
		Stream string `query:"stream"`
		From   uint64 `query:"from"`
		Limit  uint64 `query:"limit"`
		Order  string `query:"order"`
		Head   uint64 `query:"head"`
	}
	DocRequest struct {
		Partition string `query:"partition"`
		Sort      string `query:"sort"`
	}
	// DocsRequest requests documents, or the keys that Index lists.
	DocsRequest struct {
		Partition string `query:"partition"`
		First     string `query:"first"`
		Last      string `query:"last"`
		Index     string `query:"index"`
		Limit     uint64 `query:"limit"`
		Cursor    string `query:"cursor"`
	}
)

func limitRange(defaultValue int64) op.Range {
	return op.Range{Min: 1, Max: store.MaxPage, Default: defaultValue}
}

func (StreamsRequest) Ranges() map[string]op.Range {
	return map[string]op.Range{"limit": limitRange(store.MaxPage)}
}

func (RowsRequest) Ranges() map[string]op.Range {
	return map[string]op.Range{
		"from": {Min: 1, Max: math.MaxInt64, Default: int64(1)}, "limit": limitRange(defaultPageLimit), "order": {Words: []string{ascending, descending}, Default: ascending},
		"head": {Min: 1, Max: store.MaxPage},
	}
}

func (DocsRequest) Ranges() map[string]op.Range {
	return map[string]op.Range{"limit": limitRange(defaultPageLimit)}
}

// Operations lists the requests of PagesHandler.
func Operations() []op.Spec { return op.Specs((&pages{}).routes()) }

func (p *pages) routes() []op.Route {
	route := func(method, path, doc string, in, out reflect.Type, readPage func(*http.Request) (any, error)) op.Route {
		return op.NewHandlerRoute(op.Spec{Method: method, Path: "/v1/admin/export" + path, Status: http.StatusOK, Doc: doc, In: in, Out: out}, func(w http.ResponseWriter, r *http.Request) error {
			page, err := readPage(r)
			if err != nil {
				p := problem.AsError(asUnavailable(err))
				return &problem.Error{Kind: p.Kind, Field: p.Field, Detail: newRefusal(err).Detail, Err: err}
			}
			return httpapi.SendJSON(w, http.StatusOK, page)
		})
	}
	return []op.Route{
		route("GET", "", "shows the format of the export of a host in the cloud", reflect.TypeFor[op.None](), reflect.TypeFor[About](), p.about),
		route("GET", "/streams", "lists names of streams", reflect.TypeFor[StreamsRequest](), reflect.TypeFor[StreamsPage](), p.streams),
		route("GET", "/rows", "lists rows of a stream", reflect.TypeFor[RowsRequest](), reflect.TypeFor[RowsPage](), p.rows),
		route("GET", "/doc", "shows a stored document", reflect.TypeFor[DocRequest](), reflect.TypeFor[DocPage](), p.doc),
		route("GET", "/docs", "lists stored documents, or the keys that an index lists", reflect.TypeFor[DocsRequest](), reflect.TypeFor[DocsPage](), p.docs),
		route("POST", "/open", "decrypts the key of a day's texts", reflect.TypeFor[op.Body[Sealed]](), reflect.TypeFor[Secret](), p.openTextKey),
	}
}
