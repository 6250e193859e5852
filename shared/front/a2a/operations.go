package a2a

import (
	"net/http"
	"reflect"

	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/billing"
)

// OfVacant names a vacant, at whose address A2A is served.
type OfVacant struct {
	Vacant string `path:"vacant"`
}

// OfTask names a task of a vacant.
type OfTask struct {
	OfVacant
	ID string `path:"id"`
}

// OfConfig names a push configuration of a task.
type OfConfig struct {
	OfTask
	Config string `path:"config"`
}

// Operations lists the operations of the HTTP+JSON binding. Their bodies and answers are those of the
// A2A specification, version 1.0.
func Operations() []op.Spec {
	senders := op.Access{Anybody: true, Vacant: true, Key: billing.Demand{Scope: billing.ScopeCall}}
	var all []op.Spec
	add := func(method, path, doc string, in reflect.Type) {
		all = append(all, op.Spec{Method: method, Path: "/{vacant}/" + path, Status: http.StatusOK, Access: senders, Doc: doc + " (A2A 1.0)", In: in})
	}
	vacant, task, config := reflect.TypeFor[OfVacant](), reflect.TypeFor[OfTask](), reflect.TypeFor[OfConfig]()
	add("POST", "message:send", "sends a message to a vacant", vacant)
	add("POST", "message:stream", "sends a message, and streams what follows", vacant)
	add("GET", "extendedAgentCard", "shows the card of a vacant to keys", vacant)
	add("GET", "tasks", "lists tasks of the sender", vacant)
	add("GET", "tasks/{id}", "shows a task", task)
	add("POST", "tasks/{id}:cancel", "cancels a task", task)
	add("GET", "tasks/{id}:subscribe", "streams what follows of a task", task)
	add("POST", "tasks/{id}:subscribe", "streams what follows of a task", task)
	add("GET", "tasks/{id}/pushNotificationConfigs", "lists the push configurations of a task", task)
	add("POST", "tasks/{id}/pushNotificationConfigs", "stores a push configuration of a task", task)
	add("GET", "tasks/{id}/pushNotificationConfigs/{config}", "shows a push configuration", config)
	add("DELETE", "tasks/{id}/pushNotificationConfigs/{config}", "deletes a push configuration", config)
	return all
}
