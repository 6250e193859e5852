// Package a2awire is the JSON of A2A: version 1.0, version 0.3 over JSON-RPC, and 1.0
// in snake case, which one client speaks. It is pure: bytes to package task's values
// and back.
//
// The invariants: metadata and data stay the bytes that came, so that no number loses
// digits; readers of 1.0 take both spellings of a member, ignore unknown ones and
// treat null as absent, as ProtoJSON does; a member that is read and comes in both
// spellings, or twice, is refused; nothing that one version cannot say is read as something
// else. Answers of agents are read as package client/agents says.
package a2awire

import (
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// MaxBody bounds a request in bytes: 256 KiB of files in base64 and what belongs to them. A task
// is stored with its message, so the store's documents bound it (store.MaxData).
const MaxBody = 346 << 10

// Limits returns the bounds of a request.
func Limits() canon.Limits {
	l := canon.DefaultLimits()
	l.Bytes, l.Lenient = MaxBody, true
	return l
}

// Dialect is a way of writing A2A.
type Dialect uint8

// The dialects.
const (
	V1      Dialect = iota // 1.0
	V1Snake                // 1.0 with members in snake case and the methods of 0.3
	V03                    // 0.3
)

type Operation uint8

// The operations.
const (
	Send Operation = iota + 1
	Stream
	GetTask
	ListTasks
	CancelTask
	Subscribe
	CreatePushConfig
	GetPushConfig
	ListPushConfigs
	DeletePushConfig
	ExtendedCard
)

// methods1 and methods03 are the method names of each version. They are disjoint.
var (
	methods1 = map[string]Operation{
		"SendMessage": Send, "SendStreamingMessage": Stream, "GetTask": GetTask, "ListTasks": ListTasks,
		"CancelTask": CancelTask, "SubscribeToTask": Subscribe,
		"CreateTaskPushNotificationConfig": CreatePushConfig, "GetTaskPushNotificationConfig": GetPushConfig,
		"ListTaskPushNotificationConfigs": ListPushConfigs, "DeleteTaskPushNotificationConfig": DeletePushConfig,
		"GetExtendedAgentCard": ExtendedCard,
	}
	methods03 = map[string]Operation{
		"message/send": Send, "message/stream": Stream, "tasks/get": GetTask, "tasks/list": ListTasks,
		"tasks/cancel": CancelTask, "tasks/resubscribe": Subscribe, "tasks/subscribe": Subscribe,
		"tasks/pushNotificationConfig/set": CreatePushConfig, "tasks/pushNotificationConfig/get": GetPushConfig,
		"tasks/pushNotificationConfig/list": ListPushConfigs, "tasks/pushNotificationConfig/delete": DeletePushConfig,
		"agent/getAuthenticatedExtendedCard": ExtendedCard,
	}
)

// Method returns the operation of a JSON-RPC method and the dialect of its version. ok
// is false for a name that no version has.
func Method(name string) (o Operation, d Dialect, ok bool) {
	if o, ok = methods1[name]; ok {
		return o, V1, true
	}
	o, ok = methods03[name]
	return o, V03, ok
}

// states are the names of the states in 1.0.
var states = map[task.State]string{
	task.Submitted: "TASK_STATE_SUBMITTED", task.Working: "TASK_STATE_WORKING", task.InputRequired: "TASK_STATE_INPUT_REQUIRED",
	task.AuthRequired: "TASK_STATE_AUTH_REQUIRED", task.Completed: "TASK_STATE_COMPLETED", task.Canceled: "TASK_STATE_CANCELED",
	task.Failed: "TASK_STATE_FAILED", task.Rejected: "TASK_STATE_REJECTED",
}

func (d Dialect) state(s task.State) string {
	name, ok := states[s]
	if d == V03 || !ok { // a state that an agent made up
		return string(s)
	}
	return name
}

// StateNames returns the names of the states in 1.0.
func StateNames() []string {
	var all []string
	for _, s := range task.States() {
		all = append(all, V1.state(s))
	}
	return all
}

func (d Dialect) parseState(text string) (task.State, bool) {
	for _, s := range task.States() {
		if d.state(s) == text {
			return s, true
		}
	}
	return "", false
}

// roles are the names of the roles in 1.0.
var roles = map[task.Role]string{task.User: "ROLE_USER", task.Agent: "ROLE_AGENT"}

func (d Dialect) role(r task.Role) string {
	if d == V03 {
		return string(r)
	}
	return roles[r]
}
