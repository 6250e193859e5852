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

// The requests of the HTTP+JSON binding. Version must be 1.0, which is the default.
type (
	VacantRef struct {
		Vacant  string `path:"vacant"`
		Version string `header:"A2A-Version"`
	}
	SendMessageRequest struct {
		VacantRef
		Body op.Raw[Send] `body:"json"`
	}
	ListTasksRequest struct {
		VacantRef
		Context          string `query:"contextId"`
		Status           string `query:"status"`
		UpdatedAfter     string `query:"statusTimestampAfter"`
		IncludeArtifacts bool   `query:"includeArtifacts"`
		History          uint64 `query:"historyLength"`
		PageSize         uint64 `query:"pageSize"`
		PageToken        string `query:"pageToken"`
	}
	TaskRef struct {
		VacantRef
		ID string `path:"id"`
	}
	GetTaskRequest struct {
		TaskRef
		History uint64 `query:"historyLength"`
	}
	SubscribeRequest struct {
		TaskRef
		Last string `header:"Last-Event-ID"`
	}
	CreatePushConfigRequest struct {
		TaskRef
		Body op.Raw[PushConfig] `body:"json"`
	}
	PushConfigRef struct {
		TaskRef
		Config string `path:"config"`
	}
)

var historyRange = op.Range{Min: 0, Max: math.MaxInt64}

func (ListTasksRequest) Ranges() map[string]op.Range {
	return map[string]op.Range{
		"status": {Words: a2awire.StateNames()}, "historyLength": historyRange,
		"pageSize": {Min: 1, Max: a2awire.MaxPage, Default: a2awire.DefaultPage},
	}
}

func (GetTaskRequest) Ranges() map[string]op.Range {
	return map[string]op.Range{"historyLength": historyRange}
}

// Operations lists the operations of the A2A 1.0 HTTP+JSON binding, the card and the key set.
func Operations() []op.Spec {
	media := []string{mediaA2A, mediaJSON}
	var specs []op.Spec
	addSpec := func(method, path, doc string, in, out reflect.Type) *op.Spec {
		specs = append(specs, op.Spec{
			Method: method, Path: "/v/{vacant}/" + path, Status: http.StatusOK, Doc: doc + " (A2A 1.0)", In: in, Out: out,
			Access:    op.Access{Anybody: true, Vacant: true, Key: billing.CallRequirement()},
			ErrorType: reflect.TypeFor[Failure](), RequestMedia: media, AnswerMedia: media, IgnoresUnknown: true,
		})
		return &specs[len(specs)-1]
	}
	addStream := func(method, path, doc string, in reflect.Type) {
		s := addSpec(method, path, doc, in, reflect.TypeFor[Streamed]())
		s.AnswerMedia, s.AnswerDoc = []string{plain.MediaEvents}, fmt.Sprintf("Server-sent events. A comment is sent every %v while the task is running.", plain.KeepAliveInterval)
	}
	vacantRequest, taskRequest, configRequest := reflect.TypeFor[VacantRef](), reflect.TypeFor[TaskRef](), reflect.TypeFor[PushConfigRef]()
	sendRequest, subscribeRequest := reflect.TypeFor[SendMessageRequest](), reflect.TypeFor[SubscribeRequest]()
	addSpec("POST", "message:send", "sends a message to a vacant", sendRequest, reflect.TypeFor[Sent]())
	addStream("POST", "message:stream", "streams the answer to a message", sendRequest)
	addSpec("GET", "extendedAgentCard", "shows the extended card of a vacant to keys of accounts", vacantRequest, reflect.TypeFor[Card]())
	addSpec("GET", "tasks", "lists tasks of the sender", reflect.TypeFor[ListTasksRequest](), reflect.TypeFor[Tasks]())
	addSpec("GET", "tasks/{id}", "shows a task", reflect.TypeFor[GetTaskRequest](), reflect.TypeFor[Task]())
	addSpec("POST", "tasks/{id}:cancel", "cancels a task", taskRequest, reflect.TypeFor[Task]())
	addStream("GET", "tasks/{id}:subscribe", "streams the events of a task from now on", subscribeRequest)
	addStream("POST", "tasks/{id}:subscribe", "subscribes to a task, and streams its events from now on", subscribeRequest)
	addSpec("GET", "tasks/{id}/pushNotificationConfigs", "lists the push configurations of a task", taskRequest, reflect.TypeFor[PushConfigs]())
	addSpec("POST", "tasks/{id}/pushNotificationConfigs", "stores a push configuration of a task", reflect.TypeFor[CreatePushConfigRequest](), reflect.TypeFor[PushConfig]())
	addSpec("GET", "tasks/{id}/pushNotificationConfigs/{config}", "shows a push configuration", configRequest, reflect.TypeFor[PushConfig]())
	addSpec("DELETE", "tasks/{id}/pushNotificationConfigs/{config}", "deletes a push configuration", configRequest, reflect.TypeFor[struct{}]())
	publicAccess := op.Access{Anybody: true}
	return append(specs,
		op.Spec{Method: "GET", Path: "/v/{vacant}" + cardPath, Status: http.StatusOK, Access: publicAccess, Doc: "shows the card of a vacant, signed, for A2A 1.0 and 0.3", In: vacantRequest, Out: reflect.TypeFor[Card]()},
		op.Spec{Method: "GET", Path: "/v/{vacant}" + keySetPath, Status: http.StatusOK, Access: publicAccess, Doc: "shows the key that signs the card of a vacant", In: vacantRequest, Out: reflect.TypeFor[KeySet]()},
	)
}
