// Package estimates contains the estimated costs of features on AWS. Tests that count the units of
// a feature compare them with its estimate, and a test of this package writes the estimates into
// infra/README.md.
package estimates

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
)

// StandardStage returns a stage with the defaults, from infra's golden templates. top is the module's directory.
func StandardStage(t testing.TB, top string) cost.Shape {
	t.Helper()
	var templates [][]byte
	for _, stack := range stage.StackNames() {
		b, err := os.ReadFile(filepath.Join(top, "infra", "testdata", stack+".json"))
		if err != nil {
			t.Fatal(err)
		}
		templates = append(templates, b)
	}
	s, err := cost.ParseTemplates(templates...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Estimate is the AWS usage of a feature that is used once.
type Estimate struct {
	Feature string  // plural noun
	Uses    float64 // number of uses that the README prices

	WriteUnits, ReadUnits float64
	Requests, LogBytes    float64               // sum over all functions
	Milliseconds          map[string]float64    // billed, by function
	Others                map[cost.Item]float64 // other items of the price list
}

// Parts of SlowCall. A test counts the exported ones.
const (
	SlowWrites, SlowReads          = 37, 17 // call and turn
	slowResends                    = 15     // by the vacancy command in a minute
	ResendReads                    = 6
	slowLookReads, slowLeaseWrites = 60, 9 // worker looks at the task each second, and renews its lease each 20 seconds
)

const (
	gib = 1 << 30
	// lineBytes is a log line with what CloudWatch Logs adds.
	lineBytes = 500 + 26
	// queueRequests send, receive and delete a message.
	queueRequests = 3
)

// The estimates.
var (
	Task = Estimate{
		Feature: "tasks of A2A by Function URL", Uses: 1e6, WriteUnits: 9, ReadUnits: 3, Requests: 1, LogBytes: 480 + 26,
		Milliseconds: map[string]float64{functions.Agent.Name: 20},
	}
	BackgroundTask = Estimate{
		Feature: "tasks of A2A in the background", Uses: 1e6, WriteUnits: 35, ReadUnits: 12, Requests: 2, LogBytes: 2 * (480 + 26),
		Milliseconds: map[string]float64{functions.Agent.Name: 20, functions.Worker.Name: 20}, Others: map[cost.Item]float64{cost.QueueRequests: queueRequests},
	}
	SlowCall = Estimate{
		Feature: "signed calls of a vacant that takes a minute", Uses: 1000,
		WriteUnits: SlowWrites + slowLeaseWrites, ReadUnits: SlowReads + slowLookReads + slowResends*ResendReads,
		Requests: 1 + slowResends + 2, LogBytes: (1 + slowResends + 2) * lineBytes, // worker starts twice
		Milliseconds: map[string]float64{functions.Message.Name: (1 + slowResends) * 15, functions.Worker.Name: 60_000},
		Others:       map[cost.Item]float64{cost.QueueRequests: queueRequests},
	}
	// PricedCall has a flat price and an account whose balance suffices in one shard.
	PricedCall = Estimate{
		Feature: "calls with a flat price by Function URL", Uses: 1e6, WriteUnits: 8, ReadUnits: 7, Requests: 1, LogBytes: lineBytes,
		Milliseconds: map[string]float64{functions.Message.Name: 20},
		Others:       map[cost.Item]float64{cost.WriteUnits: 2 * 0.1}, // usage: a thousand rows of ten accounts in one commit
	}
	// Booking has no idempotency key and no slot. Its vacant is on this host and answers at once.
	Booking = Estimate{
		Feature: "bookings by AGP", Uses: 1000, WriteUnits: 57, ReadUnits: 40, Requests: 2, LogBytes: 2 * lineBytes,
		Milliseconds: map[string]float64{functions.Gateway.Name: 400, functions.Worker.Name: 400}, Others: map[cost.Item]float64{cost.QueueRequests: queueRequests},
	}
	// File is a file that a client of the API or an agent writes, without the task.
	File = Estimate{
		Feature: "files written", Uses: 1000, WriteUnits: 4, ReadUnits: 7, Requests: 1, LogBytes: 300 + 26,
		Milliseconds: map[string]float64{functions.Agent.Name: 60}, Others: map[cost.Item]float64{cost.BlobWrites: 1},
	}
	// Page is the page of a vacant without kin, whose agent card an instance keeps signed.
	Page = Estimate{
		Feature: "views of a page that CloudFront has not cached", Uses: 1e6, ReadUnits: 5, Requests: 1 + PageReads,
		Milliseconds: map[string]float64{functions.Web.Name: PageReads*8 + 10, functions.Registry.Name: PageReads * 8}, // web waits for the others
		Others:       map[cost.Item]float64{cost.EdgeRequests: 1, cost.EdgeTransferOut: PageBytes / float64(gib)},
	}
	// Turn is a turn of a model that takes three seconds, without the units of a call that an echo answers.
	Turn = Estimate{
		Feature: "turns of a model for three seconds, without their calls and the provider's price", Uses: 1000, WriteUnits: 9, ReadUnits: 12, Requests: 1, LogBytes: 450 + 26,
		Milliseconds: map[string]float64{functions.Message.Name: 3000, functions.Think.Name: 3000}, // both wait
	}
	// WorkerPoll finds no turn. It reads a key, its account and the waiting turns; each sixth records that a worker is
	// connected.
	WorkerPoll = Estimate{
		Feature: "requests of idle workers, of which each sends 8,640 a day", Uses: 1e6, ReadUnits: 3, Requests: 1,
		Milliseconds: map[string]float64{functions.Agent.Name: 10}, Others: map[cost.Item]float64{cost.WriteUnits: 1. / 6, cost.ReadUnits: 1. / 6},
	}
	// Graduation is an accepted attempt. It has room for a page of answers of each compared vacant. Most
	// steps are cold starts, because graduations are rare.
	Graduation = Estimate{
		Feature: "graduations", Uses: 1000, WriteUnits: 60, ReadUnits: 120, Requests: 1 + graduationPolls + graduationSteps, LogBytes: 30 * 500,
		Milliseconds: map[string]float64{functions.Graduate.Name: (1 + graduationPolls) * 50, functions.Consent.Name: graduationSteps * 400},
		Others:       map[cost.Item]float64{cost.Transitions: graduationSteps + 2, cost.KMSRequests: 3},
	}
)

// Usage of a view of a page.
const (
	PageReads = 5    // requests to other functions, one after another
	PageBytes = 4300 // compressed, with headers
)

// Usage of a graduation.
const (
	graduationPolls = 5
	graduationSteps = 4 // invocations of functions with the memory size of consent
)

// All lists the estimates in the order of the README.
func All() []Estimate {
	return []Estimate{Task, BackgroundTask, SlowCall, PricedCall, Booking, File, Page, Turn, WorkerPoll, Graduation}
}

// USD returns the cost of all uses on a stage. Only the cost of a page includes transfer out.
func (e Estimate) USD(s cost.Shape, l cost.PriceList) (float64, error) {
	price := func(item cost.Item, units float64) float64 { return units / l.Prices[item].Per * l.Prices[item].USD }
	usd := price(cost.WriteUnits, e.WriteUnits) + price(cost.ReadUnits, e.ReadUnits) + price(cost.LambdaRequests, e.Requests) + price(cost.LogBytes, e.LogBytes/gib)
	for name, ms := range e.Milliseconds {
		f, ok := s.Function(name)
		if !ok {
			return 0, fmt.Errorf("the stage has no function %s", name)
		}
		compute := cost.LambdaX86
		if f.Arm {
			compute = cost.LambdaArm
		}
		usd += price(compute, ms/1000*float64(f.MemoryMB)/1024)
	}
	for item, units := range e.Others {
		usd += price(item, units)
	}
	return usd * e.Uses, nil
}
