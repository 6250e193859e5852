//go:build unix

package lambda

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/queue"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/sqslocal"
)

// crew is a host with an account of the tenant acme and agents that are models.
type crew struct {
	*shop
	cloud  *cloud
	worker *Function
	key    string // of the account, with the scopes agents and read
}

func newCrew(t *testing.T) *crew {
	t.Helper()
	host := operated(t)
	c := &crew{shop: &shop{Host: host, t: t}, cloud: newCloud(t, host, host.Endpoint, Options{})}
	c.admin, c.worker = c.run("admin"), c.run("worker")
	c.must(c.admin, "POST", "/v1/admin/accounts", sampleOperator, `{"tenant":"acme"}`)
	c.key = c.must(c.admin, "POST", "/v1/admin/accounts/acme/keys", sampleOperator, `{"scopes":["agents","read"]}`)["secret"].(string)
	return c
}

func (c *crew) run(function string) *Function {
	c.t.Helper()
	return run(c.t, function, c.Host, c.cloud.env()...)
}

// agent creates an agent with a script of the mock.
func (c *crew) agent(name, tenant, script string) identity.ID {
	c.t.Helper()
	body := fmt.Sprintf(`{"name":%q,"tenant":%q,"capability":"helps","agent":{"provider":"mock","ask":true,"system":%q}}`, name, tenant, "```mock\n"+script+"\n```")
	return identityOf(c.t, c.must(c.admin, "POST", "/v1/admin/vacants", sampleOperator, body)["vacant_id"])
}

// Each request is served by another instance. The operator's requests are served by admin.
func TestAnyInstanceAnswersAndCancelsADispatchedTask(t *testing.T) {
	c := newCrew(t)
	const script = `call: ask_user {"question":"which {input}?"}`
	c.agent("asker", "acme", script)
	c.agent("own", "", script)
	for _, side := range []struct {
		path, key, agent string
		instances        [2]*Function
	}{
		{"/v1", c.key, "asker", [2]*Function{c.run("agent"), c.run("agent")}},
		{"/v1/admin", sampleOperator, "own", [2]*Function{c.admin, c.run("admin")}},
	} {
		first, second := side.instances[0], side.instances[1]
		if all := c.must(second, "GET", side.path+"/agents", side.key, ""); !strings.Contains(fmt.Sprint(all), side.agent) {
			t.Errorf("%s/agents = %v, want %s", side.path, all, side.agent)
		}
		c.must(second, "GET", side.path+"/agents/"+side.agent, side.key, "")
		id := c.must(first, "POST", side.path+"/tasks", side.key, fmt.Sprintf(`{"agent":%q,"task":"one"}`, side.agent))["taskId"].(string)
		at := side.path + "/tasks/" + id
		want := func(f *Function, status, question string) {
			t.Helper()
			got := c.must(f, "GET", at, side.key, "")
			if question == "" && got["status"] == status || got["status"] == status && got["question"] == question {
				return
			}
			t.Errorf("GET %s = %v, want %s %q\n%s", at, got, status, question, c.worker.Log())
		}
		want(second, "pending", "")
		e := keyed("GET", at+"?wait=20", nil)
		e.Headers["authorization"] = "Bearer " + side.key
		if r, err := second.Send(t.Context(), e.Encode()); err != nil || r.Status != 200 || r.Headers["Retry-After"] != "2" {
			t.Errorf("GET %s?wait=20 = %d %v, %v; want an answer at once with Retry-After", at, r.Status, r.Headers, err)
		}
		left := deliver(t, c.worker, c.Host, "tasks", 1)
		want(second, "input_required", "which one?")
		c.must(second, "POST", at+"/answer", side.key, `{"text":"two"}`)
		left += deliver(t, c.worker, c.Host, "tasks", 1)
		want(first, "input_required", "which two?")
		if got := c.must(first, "POST", at+"/cancel", side.key, ""); got["status"] != "cancelled" || left != 0 {
			t.Errorf("cancel = %v, %d messages are left", got, left)
		}
		want(second, "cancelled", "")
		if all := c.must(second, "GET", side.path+"/tasks?state=cancelled", side.key, ""); !strings.Contains(fmt.Sprint(all), id) {
			t.Errorf("list = %v, want task %s", all, id)
		}
	}
	wantSound(t, c.Host)
}

func TestADispatchedTaskWaitsForRoom(t *testing.T) {
	c := newCrew(t)
	id := c.agent("scribe", "acme", "text: wrote {input}")
	agent, s := c.run("agent"), c.Store(c.Endpoint)
	room := task.RunningCountDocs.Key("vacant "+id.String(), time.Now().UTC().Format(time.DateOnly))
	must(t, s.Commit(t.Context(), store.Put{Key: room, WriteID: store.WriteID{1}, Number: 16})) // a quarter of VACANCY_TURNS
	at := "/v1/tasks/" + c.must(agent, "POST", "/v1/tasks", c.key, `{"agent":"scribe","task":"it"}`)["taskId"].(string)
	if left := deliver(t, c.worker, c.Host, "tasks", 1); left != 1 {
		t.Fatalf("%d messages are left, want that of the task\n%s", left, c.worker.Log())
	}
	c.Queues.Show("tasks")
	m := c.Queues.Receive("tasks", 1, 15*time.Minute)[0]
	m.Count = queue.MaxFullRetries
	event, err := json.Marshal(object{"Records": []any{sqslocal.Record("tasks", m)}})
	must(t, err)
	if reply, err := c.worker.Invoke(t.Context(), event); err != nil || string(reply) != `{"batchItemFailures":[]}` {
		t.Errorf("the message that has used up its receives: %s, %v, want it done with\n%s", reply, err, c.worker.Log())
	}
	c.Queues.Delete("tasks", m.ID)
	must(t, s.Commit(t.Context(), store.Delete{Key: room, IfVersion: 1}))
	c.Queues.Show("tasks")
	if left := deliver(t, c.worker, c.Host, "tasks", 3); left != 0 { // the message comes three times
		t.Errorf("%d messages are left", left)
	}
	if got := c.must(agent, "GET", at, c.key, ""); got["status"] != "completed" || !strings.Contains(fmt.Sprint(got["result"]), "wrote it") {
		t.Errorf("task = %v\n%s", got, c.worker.Log())
	}
	wantSound(t, c.Host)
}
