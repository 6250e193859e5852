//go:build unix

package lambda

import (
	"slices"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/tests/awshost"
)

// No caller's request loads the search engine: the two functions with it are
// apart, and larger. The other handlers are a little larger than the handler of
// calls: they have clients of AWS that calls do without, or the log.
func TestZipsAreSmall(t *testing.T) {
	for _, name := range functions.Names() {
		most := 5 << 20
		switch name {
		case "search", "indexer":
			most = 8 << 20
		case "message": // the client of think
			most = 6 << 20
		case "agent", "worker": // and the queues' client
			most = 7 << 20
		case "think": // libraries of providers and of MCP
			most = 16 << 20
		case "gateway":
			most = 9 << 20
		case "registry", "export", "graduate", "meter", "sweeper":
			most += 512 << 10
		case "admin": // all that an operator sets, too, the upgrade of documents, and the operator's tasks and files
			most = 7 << 20
		}
		b, err := Zip(bootstrap(t, name))
		must(t, err)
		t.Logf("functions/%s as a zip: %d bytes", name, len(b))
		if len(b) > most {
			t.Errorf("the zip of %s has %d bytes, want at most %d", name, len(b), most)
		}
	}
}

// BenchmarkColdStart measures from process start to the first poll for work,
// which a caller waits for besides the call itself. An iteration is 25 starts;
// their median is reported.
func BenchmarkColdStart(b *testing.B) {
	host := awshost.New(b)
	stream := host.Stream(b)
	// A start reads both tables. DynamoDB Local is slow at its first hundred
	// answers, DynamoDB is not.
	for range 100 {
		must(b, host.Store(host.Endpoint).Warm(b.Context(), store.Key{Partition: "warm", Sort: "warm"}))
	}
	_, blobs := bucket(b)
	for _, name := range functions.Names() {
		program, env := bootstrap(b, name), host.Env(host.Endpoint)
		if slices.Contains([]string{"search", "indexer", "meter", "sweeper"}, name) {
			env = append(env, blobs...) // which most other functions do not take
		}
		env = append(env, "VACANCY_ROWS_STREAM="+stream, "VACANCY_SEARCH="+searchARN)
		for _, read := range []string{"AGENT", "MESSAGE", "REGISTRY", "SEARCH"} { // a start does not read them
			env = append(env, "VACANCY_"+read+"_URL=http://127.0.0.1:1")
		}
		b.Run(name, func(b *testing.B) {
			var times []time.Duration
			for b.Loop() {
				for range 25 {
					f := Start(b, program, Options{Env: env})
					d, err := f.Ready(b.Context())
					must(b, err)
					times = append(times, d)
					f.Kill()
				}
			}
			slices.Sort(times)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "ms/start")
			b.ReportMetric(float64(times[len(times)-1].Microseconds())/1000, "ms/slowest")
		})
	}
}
