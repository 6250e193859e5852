package a2a

import (
	"fmt"
	"math"
	"net/http"
	"reflect"

	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/plain"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/billing"
)

// The requests of the HTTP+JSON binding. The only supported value of Version is 1.0, which is also
// the default.
type (
	// OfVacant names the vacant at whose address A2A is served.
	OfVacant struct {
		Vacant  string `path:"vacant"`
		Version string `header:"A2A-Version"`
	}
	Sending struct {
		OfVacant
		Body op.Raw[Send] `body:"json"`
	}
	// TaskList requests a page of tasks.
	TaskList struct {
		OfVacant
		Context   string `query:"contextId"`
		Status    string `query:"status"`
		Since     string `query:"statusTimestampAfter"`
		Artifacts bool   `query:"includeArtifacts"`
		History   uint64 `query:"historyLength"`
		Size      uint64 `query:"pageSize"`
		Token     string `query:"pageToken"`
	}
	OfTask struct {
		OfVacant
		ID string `path:"id"`
	}
	// ShownTask names a task and the length of the history to show.
	ShownTask struct {
		OfTask
		History uint64 `query:"historyLength"`
	}
	// Following names a task whose events to stream, and the last event that the client knows.
	Following struct {
		OfTask
		Last string `header:"Last-Event-ID"`
	}
	NewConfig struct {
		OfTask
		Body op.Raw[PushConfig] `body:"json"`
	}
	OfConfig struct {
		OfTask
		Config string `path:"config"`
	}
)

var historyRange = op.Range{Min: 0, Max: math.MaxInt64}

func (TaskList) Ranges() map[string]op.Range {
	return map[string]op.Range{
		"status": {Words: a2awire.StateNames()}, "historyLength": historyRange,
		"pageSize": {Min: 1, Max: a2awire.MaxPage, Default: a2awire.DefaultPage},
	}
}

func (ShownTask) Ranges() map[string]op.Range {
	return map[string]op.Range{"historyLength": historyRange}
}

// Operations lists the operations of the A2A 1.0 HTTP+JSON binding, the card and the key set.
func Operations() []op.Spec {
	media := []string{mediaA2A, mediaJSON}
	var specs []op.Spec
	add := func(method, path, doc string, in, out reflect.Type) *op.Spec {
		specs = append(specs, op.Spec{
			Method: method, Path: "/v/{vacant}/" + path, Status: http.StatusOK, Doc: doc + " (A2A 1.0)", In: in, Out: out,
			Access: op.Access{Anybody: true, Vacant: true, Key: billing.CallDemand()},
			Errors: reflect.TypeFor[Failure](), Takes: media, Gives: media, Open: true,
		})
		return &specs[len(specs)-1]
	}
	stream := func(method, path, doc string, in reflect.Type) {
		s := add(method, path, doc, in, reflect.TypeFor[Streamed]())
		s.Gives, s.Answer = []string{plain.MediaEvents}, fmt.Sprintf("Server-sent events. A comment each %v says that the task is still at work.", plain.KeepAlive)
	}
	vacant, task, config := reflect.TypeFor[OfVacant](), reflect.TypeFor[OfTask](), reflect.TypeFor[OfConfig]()
	sending, following := reflect.TypeFor[Sending](), reflect.TypeFor[Following]()
	add("POST", "message:send", "sends a message to a vacant", sending, reflect.TypeFor[Sent]())
	stream("POST", "message:stream", "streams the answer to a message", sending)
	add("GET", "extendedAgentCard", "shows the extended card of a vacant to keys of accounts", vacant, reflect.TypeFor[Card]())
	add("GET", "tasks", "lists tasks of the sender", reflect.TypeFor[TaskList](), reflect.TypeFor[Tasks]())
	add("GET", "tasks/{id}", "shows a task", reflect.TypeFor[ShownTask](), reflect.TypeFor[Task]())
	add("POST", "tasks/{id}:cancel", "cancels a task", task, reflect.TypeFor[Task]())
	stream("GET", "tasks/{id}:subscribe", "streams the events of a task from now on", following)
	stream("POST", "tasks/{id}:subscribe", "subscribes to a task, and streams its events from now on", following)
	add("GET", "tasks/{id}/pushNotificationConfigs", "lists the push configurations of a task", task, reflect.TypeFor[PushConfigs]())
	add("POST", "tasks/{id}/pushNotificationConfigs", "stores a push configuration of a task", reflect.TypeFor[NewConfig](), reflect.TypeFor[PushConfig]())
	add("GET", "tasks/{id}/pushNotificationConfigs/{config}", "shows a push configuration", config, reflect.TypeFor[PushConfig]())
	add("DELETE", "tasks/{id}/pushNotificationConfigs/{config}", "deletes a push configuration", config, reflect.TypeFor[struct{}]())
	open := op.Access{Anybody: true}
	return append(specs,
		op.Spec{Method: "GET", Path: "/v/{vacant}" + cardPath, Status: http.StatusOK, Access: open, Doc: "shows the card of a vacant, signed, for A2A 1.0 and 0.3", In: vacant, Out: reflect.TypeFor[Card]()},
		op.Spec{Method: "GET", Path: "/v/{vacant}" + keySetPath, Status: http.StatusOK, Access: open, Doc: "shows the key that signs the card of a vacant", In: vacant, Out: reflect.TypeFor[KeySet]()},
	)
}
