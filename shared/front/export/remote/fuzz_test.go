package remote_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/front/export/remote"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
)

// answers is a host that returns the fuzzer's bytes.
type answers struct{ body string }

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	body := a.body
	if r.URL.Path == "/v1/admin/export" {
		body = `{"format":2,"retention_seconds":86400}`
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func FuzzAnswersAreWhatWasAskedForOrRefused(f *testing.F) {
	f.Add(`{"page":{"rows":[{"position":5,"attempt":"AAAAAAAAAAAAAAAAAAAAAA==","data":"AA=="}]}}`)
	f.Add(`{"streams":["cmVxIw=="],"next":"AAAA"}`)
	f.Add(`{"doc":{"partition":"name","sort":"demo","version":1,"data":"AA=="}}`)
	f.Add(`{"docs":[{"partition":"name","sort":"demo","version":1}],"next":""}`)
	f.Fuzz(func(t *testing.T, body string) {
		h, err := remote.Connect(t.Context(), remote.Config{HTTP: &http.Client{Transport: answers{body}}, URL: "http://host.invalid"})
		if err != nil {
			t.Fatal(err)
		}
		_ = h.Walk(t.Context(), func(v store.View) error {
			rows, _ := v.Rows(t.Context(), "s", 5, 3, store.Ascending)
			for i, r := range rows {
				if len(rows) > 3 || r.Position < 5 || i > 0 && r.Position <= rows[i-1].Position {
					t.Errorf("Rows(from 5, 3) = %+v", rows)
				}
			}
			if rows, _ = v.Rows(t.Context(), "s", 5, 1, store.Descending); len(rows) > 1 || len(rows) == 1 && rows[0].Position > 5 {
				t.Errorf("Rows(down from 5, 1) = %+v", rows)
			}
			if names, _, _ := v.Streams(t.Context(), "req#", 2, ""); len(names) > 2 || len(names) > 0 && !strings.HasPrefix(string(names[0]), "req#") {
				t.Errorf("Streams(req#, 2) = %q", names)
			}
			k := store.Key{Partition: "name", Sort: "demo"}
			if d, err := v.Doc(t.Context(), k); err == nil && d.Key != k {
				t.Errorf("Doc(%v) = %v", k, d.Key)
			}
			return nil
		})
		docs, _, _ := h.Docs(t.Context(), vacants.NameDocs.Range(), 2, "")
		if len(docs) > 2 || len(docs) > 0 && docs[0].Key.Partition != vacants.NameDocs.Range().Partition {
			t.Errorf("Docs(2) = %v", docs)
		}
	})
}
