// Package a2awire reads and writes the JSON of A2A: version 1.0, version 0.3 over JSON-RPC, and a
// snake_case form of 1.0. It converts between bytes and the values of package task.
//
// Readers accept a member in camelCase and in snake_case, ignore unknown members and treat null as
// absent, as ProtoJSON does. If a known member occurs twice, a reader of requests rejects the
// request, and a reader of answers uses the first occurrence. Metadata and data keep their original
// bytes, so that numbers keep all their digits.
package a2awire

import (
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// MaxBody limits the size of a request in bytes. It leaves room for 256 KiB of files in base64.
// A task is stored with its message, so MaxBody must stay below store.MaxData.
const MaxBody = 346 << 10

func Limits() canon.Limits {
	l := canon.DefaultLimits()
	l.Bytes, l.Lenient = MaxBody, true
	return l
}

// Dialect is a JSON form of A2A.
type Dialect uint8

const (
	V1      Dialect = iota // version 1.0
	V1Snake                // version 1.0 with snake_case members and the method names of 0.3
	V03                    // version 0.3
)

type Operation uint8

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

var (
	methodsV1 = map[string]Operation{
		"SendMessage": Send, "SendStreamingMessage": Stream, "GetTask": GetTask, "ListTasks": ListTasks,
		"CancelTask": CancelTask, "SubscribeToTask": Subscribe,
		"CreateTaskPushNotificationConfig": CreatePushConfig, "GetTaskPushNotificationConfig": GetPushConfig,
		"ListTaskPushNotificationConfigs": ListPushConfigs, "DeleteTaskPushNotificationConfig": DeletePushConfig,
		"GetExtendedAgentCard": ExtendedCard,
	}
	methodsV03 = map[string]Operation{
		"message/send": Send, "message/stream": Stream, "tasks/get": GetTask, "tasks/list": ListTasks,
		"tasks/cancel": CancelTask, "tasks/resubscribe": Subscribe, "tasks/subscribe": Subscribe,
		"tasks/pushNotificationConfig/set": CreatePushConfig, "tasks/pushNotificationConfig/get": GetPushConfig,
		"tasks/pushNotificationConfig/list": ListPushConfigs, "tasks/pushNotificationConfig/delete": DeletePushConfig,
		"agent/getAuthenticatedExtendedCard": ExtendedCard,
	}
)

// ParseMethod returns the operation and the dialect of a JSON-RPC method.
func ParseMethod(name string) (o Operation, d Dialect, ok bool) {
	if o, ok = methodsV1[name]; ok {
		return o, V1, true
	}
	o, ok = methodsV03[name]
	return o, V03, ok
}

var stateNamesV1 = map[task.State]string{
	task.Submitted: "TASK_STATE_SUBMITTED", task.Working: "TASK_STATE_WORKING", task.InputRequired: "TASK_STATE_INPUT_REQUIRED",
	task.AuthRequired: "TASK_STATE_AUTH_REQUIRED", task.Completed: "TASK_STATE_COMPLETED", task.Canceled: "TASK_STATE_CANCELED",
	task.Failed: "TASK_STATE_FAILED", task.Rejected: "TASK_STATE_REJECTED",
}

func (d Dialect) stateName(s task.State) string {
	name, ok := stateNamesV1[s]
	if d == V03 || !ok { // an agent may use a state that A2A does not define
		return string(s)
	}
	return name
}

func StateNames() []string {
	var names []string
	for _, s := range task.States() {
		names = append(names, V1.stateName(s))
	}
	return names
}

func (d Dialect) parseState(text string) (task.State, bool) {
	for _, s := range task.States() {
		if d.stateName(s) == text {
			return s, true
		}
	}
	return "", false
}

var roleNamesV1 = map[task.Role]string{task.User: "ROLE_USER", task.Agent: "ROLE_AGENT"}

func (d Dialect) roleName(r task.Role) string {
	if d == V03 {
		return string(r)
	}
	return roleNamesV1[r]
}
