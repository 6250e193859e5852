package vacants_test

import (
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

// BenchmarkAnAgent measures the time that a call of an agent, with a scripted model,
// takes longer than a call of an echo: the loop, its usage and the entry in the
// logbook.
func BenchmarkAnAgent(b *testing.B) {
	echo, agent := hosttest.New(b, memory.New()).Caller(), hosttest.New(b, memory.New()).Caller()
	_, err := agent.Vacants.Update(agent.Ctx, agent.Demo.ID, vacants.Changes{Agent: &definition.Agent{Provider: substrate.KindMock}})
	agent.Must(err)
	timed := func(c *hosttest.Caller) time.Duration {
		began := time.Now()
		c.Call("a message of some length, as people write them to one another")
		return time.Since(began)
	}
	timed(echo)
	timed(agent)
	var plain, thinks time.Duration
	for b.Loop() {
		plain += timed(echo)
		thinks += timed(agent)
	}
	b.ReportMetric(float64(thinks)/float64(plain), "x-echo")
}
