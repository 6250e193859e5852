package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// BenchmarkPage compares a page of results with the registry's read from which the page is built.
func BenchmarkPage(b *testing.B) {
	h := newHost(b)
	for i := range 20 {
		h.create(fmt.Sprint("letters-", i), "Answers letters", true)
	}
	for name, path := range map[string]string{"read": "/v1/search?q=letters&limit=20", "page": "/web/search?q=letters"} {
		b.Run(name, func(b *testing.B) {
			bytes := 0
			for b.Loop() {
				r, err := http.Get(h.url + path)
				if err != nil {
					b.Fatal(err)
				}
				w := httptest.NewRecorder()
				n, err := w.Body.ReadFrom(r.Body)
				r.Body.Close()
				if err != nil || r.StatusCode != http.StatusOK || n < 4000 {
					b.Fatalf("%d, %d bytes, %v", r.StatusCode, n, err)
				}
				bytes = int(n)
			}
			b.ReportMetric(float64(bytes), "bytes/op")
		})
	}
}
