package serve_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/export"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/openapi"
	"github.com/vacancy-host/vacancy/shared/front/operations"
)

// list is a list of the API. Its pages are objects with the items and what the next page begins with, or arrays whose
// next page a Link header names.
type list struct {
	path   string // with the largest page
	items  string // member of a page, or "" if the page is an array
	next   string // member of a page
	from   string // parameter of the next page
	limit  string // parameter, "limit" if empty
	header string
	least  int // items that the host has
	// last is the member of the last item that the next page follows. If it and next are empty, the next page begins at
	// the position after the last item.
	last string
}

const pro = "Authorization: Bearer {buyer-pro}"

// lists has a row for each operation with pages.
var lists = map[string]list{
	"GET /v1/admin/vacants":                      {path: "/v1/admin/vacants?all=true", items: "vacants", next: "next", from: "cursor", least: 3},
	"GET /v1/admin/vacants/{vacant}/logbook":     {path: "/v1/admin/vacants/demo/logbook", items: "entries", next: "next", from: "from", least: 3},
	"GET /v1/admin/vacants/{vacant}/children":    {path: "/v1/admin/vacants/demo/children", items: "children", next: "next", from: "cursor", least: 1},
	"GET /v1/admin/accounts":                     {path: "/v1/admin/accounts", items: "accounts", next: "next", from: "cursor", least: 2},
	"GET /v1/admin/accounts/{account}/changes":   {path: "/v1/admin/accounts/acme/changes", items: "changes", next: "next", from: "from", least: 5},
	"GET /v1/account/changes":                    {path: "/v1/account/changes", items: "changes", next: "next", from: "from", header: pro, least: 5},
	"GET /v1/admin/names":                        {path: "/v1/admin/names", items: "names", next: "next", from: "cursor"},
	"GET /v1/search":                             {path: "/v1/search?q=", items: "matches", next: "next", from: "cursor", least: 3},
	"GET /v1/event_log/{id}":                     {path: "/v1/event_log/{warung}", from: "from_seq", last: "seq", least: 2},
	"GET /v/{vacant}/tasks":                      {path: "/v/free/tasks", items: "tasks", next: "nextPageToken", from: "pageToken", limit: "pageSize", header: pro, least: 2},
	"GET /v1/tasks":                              {path: "/v1/tasks", items: "tasks", next: "next", from: "cursor", header: "Authorization: Bearer {acme-team}", least: 2},
	"GET /v1/admin/tasks":                        {path: "/v1/admin/tasks", items: "tasks", next: "next", from: "cursor", least: 2},
	"GET /v1/workspaces/{workspace}/files":       {path: "/v1/workspaces/main/files", items: "files", next: "next", from: "cursor", header: "Authorization: Bearer {acme-team}", least: 3},
	"GET /v1/admin/workspaces/{workspace}/files": {path: "/v1/admin/workspaces/main/files", items: "files", next: "next", from: "cursor", least: 3},
	"GET /v1/log/leaves":                         {path: "/v1/log/leaves", items: "event_hashes_hex", from: "from", least: 3},
	"GET /v1/reputation_history/{id}":            {path: "/v1/reputation_history/{free}", items: "reviews", next: "next", from: "cursor", least: 2},
	"GET /v1/revocation_list":                    {path: "/v1/revocation_list", from: "cursor", least: 1},
	"GET /v1/admin/export/streams":               {path: "/v1/admin/export/streams", items: "streams", next: "next", from: "cursor", least: 3},
	"GET /v1/admin/export/docs":                  {path: "/v1/admin/export/docs?partition=name", items: "docs", next: "next", from: "cursor", least: 3},
}

// withoutPages are operations with a limit that have no further page, or whose pages have tests elsewhere.
var withoutPages = map[string]string{
	"POST /v1/query_capability": "the best matches, without more",
	"GET /v1/admin/export/rows": "a stream is named by bytes; package remote reads it by pages",
	"GET /v1/search_capability": "the best matches, without more",
}

// A walk by pages of one, and of two, finds what the largest page has, each item once and in its order.
func TestListsAreTheSameByPagesOfAnySize(t *testing.T) {
	h := drive(t)
	h.ask(t)
	for _, name := range []string{"b.md", "z.md"} { // besides one, and at an account a deleted one between them
		h.do(t, h.public, "PUT", "/v1/workspaces/main/files/"+name, "text", "", "Authorization: Bearer {acme-team}")
		h.do(t, h.admin, "PUT", "/v1/admin/workspaces/main/files/"+name, "text", "")
	}
	for _, s := range operations.All() {
		key := openapi.OperationKey(&s)
		if _, walked := lists[key]; !walked && withoutPages[key] == "" && s.In != nil && slices.ContainsFunc(s.Fields(), func(f op.Field) bool { return f.Name == "limit" || f.Name == "pageSize" }) {
			t.Errorf("%s has pages, and no row in lists", key)
		}
	}
	exported := site{admin.SocketHost, export.PagesHandler(export.Config{Source: h.store, Vault: h.vault, Now: h.clock.now})}
	for key, l := range lists {
		to := h.public
		switch {
		case strings.Contains(key, "/admin/export"):
			to = exported
		case strings.Contains(key, "/admin/"):
			to = h.admin
		}
		get := func(query url.Values) (items []string, next string) {
			t.Helper()
			path, base, _ := strings.Cut(h.fill(l.path), "?")
			if base != "" {
				base += "&"
			}
			r := httptest.NewRequest("GET", "http://"+to.host+path+"?"+base+query.Encode(), nil)
			if name, value, ok := strings.Cut(h.fill(l.header), ": "); ok {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			to.ServeHTTP(w, r)
			page := map[string]json.RawMessage{"": w.Body.Bytes()}
			if l.items != "" {
				page = nil
			}
			var all []json.RawMessage
			err := error(nil)
			if page == nil {
				err = json.Unmarshal(w.Body.Bytes(), &page)
			}
			if err == nil {
				err = json.Unmarshal(page[l.items], &all)
			}
			if err != nil || w.Code != 200 {
				t.Fatalf("%s: %d %s, %v", key, w.Code, w.Body, err)
			}
			for _, item := range all {
				items = append(items, string(item))
			}
			next = strings.Trim(string(page[l.next]), `"`)
			if l.items == "" {
				next = ""
				if link := w.Header().Get("Link"); link != "" {
					at, err := url.Parse(link[1:strings.IndexByte(link, '>')])
					must(t, err)
					next = at.Query().Get(l.from)
				}
			}
			return items, next
		}
		walk := func(query url.Values) (walked []string) {
			t.Helper()
			for range 500 {
				items, next := get(query)
				walked = append(walked, items...)
				switch {
				case len(items) == 0 || l.next != "" || l.items == "" && l.last == "":
				case l.last == "":
					next = fmt.Sprint(len(walked) + 1)
				default:
					var item map[string]json.RawMessage
					must(t, json.Unmarshal([]byte(items[len(items)-1]), &item))
					next = string(item[l.last])
				}
				if next == "" || len(items) == 0 && strings.HasPrefix(l.from, "from") { // a position follows each page
					return walked
				}
				query.Set(l.from, next)
			}
			t.Errorf("%s has no end by %v", key, query)
			return walked
		}
		whole := walk(url.Values{})
		if len(whole) < l.least {
			t.Errorf("%s has %d items, want at least %d", key, len(whole), l.least)
		}
		for _, size := range []int{1, 2} {
			walked := walk(url.Values{cmp.Or(l.limit, "limit"): {fmt.Sprint(size)}})
			if !slices.Equal(walked, whole) {
				t.Errorf("%s by pages of %d:\n%s\nwant\n%s", key, size, strings.Join(walked, "\n"), strings.Join(whole, "\n"))
			}
		}
	}
}
