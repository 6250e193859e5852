package agp_test

import (
	"flag"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/agp"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
)

var venues = flag.Int("venues", 100, "venues of the larger host of BenchmarkPing")

// Ping and status take as long whatever the number of venues: they read it.
func BenchmarkPing(b *testing.B) {
	hosts := map[int]*network{}
	for _, count := range []int{10, *venues} {
		n := open(b, false)
		for i := range count {
			n.venue(fmt.Sprintf("venue-%d", i), substrate.KindMock, nil)
		}
		hosts[count] = n
	}
	for what, ask := range map[string]func(*network) answer{
		"ping": func(n *network) answer { return n.send(n.ent, "network.ping", "") },
		"status": func(n *network) answer {
			n.Clock.Advance(6 * time.Second) // its text is cached
			return n.do("GET", agp.StatusPath, "", "")
		},
	} {
		for count, n := range hosts {
			b.Run(fmt.Sprintf("%s/%d", what, count), func(b *testing.B) {
				for b.Loop() {
					if a := ask(n); a.status != http.StatusOK {
						b.Fatalf("%d %s", a.status, a.body)
					}
				}
			})
		}
	}
}
