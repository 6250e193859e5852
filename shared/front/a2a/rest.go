package a2a

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

type restRoute struct {
	op       a2awire.Operation
	methods  []string
	taskID   string
	configID string
}

// parseRESTRoute returns the operation of a path. The path may begin with a tenant.
func parseRESTRoute(path string) (route restRoute, ok bool) {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	post, get := []string{http.MethodPost}, []string{http.MethodGet}
	for range 2 {
		switch {
		case len(parts) == 1:
			switch parts[0] {
			case "message:send":
				return restRoute{op: a2awire.Send, methods: post}, true
			case "message:stream":
				return restRoute{op: a2awire.Stream, methods: post}, true
			case "tasks":
				return restRoute{op: a2awire.ListTasks, methods: get}, true
			case "extendedAgentCard":
				return restRoute{op: a2awire.ExtendedCard, methods: get}, true
			}
			return route, false
		case parts[0] != "tasks" || parts[1] == "":
		case len(parts) == 2:
			switch id, verb, hasVerb := strings.Cut(parts[1], ":"); {
			case !hasVerb:
				return restRoute{op: a2awire.GetTask, methods: get, taskID: id}, true
			case verb == "cancel":
				return restRoute{op: a2awire.CancelTask, methods: post, taskID: id}, true
			case verb == "subscribe":
				return restRoute{op: a2awire.Subscribe, methods: []string{http.MethodGet, http.MethodPost}, taskID: id}, true
			}
		case len(parts) == 3 && parts[2] == "pushNotificationConfigs":
			return restRoute{op: a2awire.ListPushConfigs, methods: []string{http.MethodGet, http.MethodPost}, taskID: parts[1]}, true
		case len(parts) == 4 && parts[2] == "pushNotificationConfigs" && parts[3] != "":
			return restRoute{op: a2awire.GetPushConfig, methods: []string{http.MethodDelete, http.MethodGet}, taskID: parts[1], configID: parts[3]}, true
		}
		parts = parts[1:]
	}
	return route, false
}

func (a *api) serveREST(r *request, route restRoute) error {
	if !slices.Contains(route.methods, r.Method) {
		return r.MethodError(strings.Join(route.methods, ", "))
	}
	switch {
	case r.Method == http.MethodPost && route.op == a2awire.ListPushConfigs:
		route.op = a2awire.CreatePushConfig
	case r.Method == http.MethodDelete:
		route.op = a2awire.DeletePushConfig
	}
	r.isUnwrapped = true
	r.setOperation(route.op, logNames[route.op])
	r.recordExtension()
	// The binding exists only in version 1.0.
	v, err := r.supportedVersion()
	if err == nil && v == version03 {
		err = newFault(versionNotSupported, "A2A 0.3 is served only by JSON-RPC")
	}
	if err != nil {
		return err
	}
	// If the path names a task, the body of a POST may be empty, except to create a push
	// configuration.
	if r.Method == http.MethodPost && (route.taskID == "" || route.op == a2awire.CreatePushConfig || r.ContentLength != 0) {
		if err := r.readBody(); err != nil {
			return err
		}
		decoder := canon.NewDecoder(r.body, a2awire.Limits())
		isObject := decoder.Kind() == canon.Object
		switch err := errors.Join(decoder.Skip(), decoder.End()); {
		case err != nil:
			return newFault(parseError, "the body does not decode: "+problem.AsError(err).Text())
		case route.taskID == "":
			a.runOperation(r, r.body)
			return nil
		case !isObject:
			return newFault(invalidParams, "the body: expected an object")
		}
		taskMember := "id"
		if route.op == a2awire.CreatePushConfig {
			taskMember = "taskId"
		}
		params := canon.AppendString(append(canon.AppendString([]byte{'{'}, taskMember), ':'), route.taskID)
		decoder = canon.NewDecoder(r.body, a2awire.Limits())
		err := decoder.Object(func(name string) error {
			if name == taskMember || name == "task_id" {
				return decoder.Skip()
			}
			value, err := decoder.SkipRaw()
			params = append(append(canon.AppendString(append(params, ','), name), ':'), value...)
			return err
		})
		if err != nil {
			return newFault(invalidParams, problem.AsError(err).Text())
		}
		a.runOperation(r, append(params, '}'))
		return nil
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return newFault(invalidParams, "the query does not decode")
	}
	values := map[string]any{}
	switch {
	case route.op == a2awire.GetPushConfig || route.op == a2awire.ListPushConfigs || route.op == a2awire.DeletePushConfig:
		values["taskId"], values["id"] = route.taskID, route.configID
	case route.taskID != "":
		values["id"] = route.taskID
	}
	for _, name := range []string{"contextId", "pageToken", "status", "statusTimestampAfter"} {
		if query.Has(name) {
			values[name] = query.Get(name)
		}
	}
	for _, name := range []string{"historyLength", "pageSize"} {
		if !query.Has(name) {
			continue
		}
		n, err := strconv.ParseInt(query.Get(name), 10, 64)
		if err != nil {
			return newFault(invalidParams, name+": expected a whole number")
		}
		values[name] = n
	}
	if query.Has("includeArtifacts") {
		include, err := strconv.ParseBool(query.Get("includeArtifacts"))
		if err != nil {
			return newFault(invalidParams, "includeArtifacts: expected true or false")
		}
		values["includeArtifacts"] = include
	}
	params, err := json.Marshal(values)
	if err == nil {
		a.runOperation(r, params)
	}
	return err
}

var logNames = map[a2awire.Operation]string{
	a2awire.Send: "message:send", a2awire.Stream: "message:stream", a2awire.ListTasks: "list", a2awire.GetTask: "get",
	a2awire.CancelTask: "cancel", a2awire.Subscribe: "subscribe", a2awire.ExtendedCard: "extendedAgentCard", a2awire.CreatePushConfig: "push create",
	a2awire.GetPushConfig: "push get", a2awire.ListPushConfigs: "push list", a2awire.DeletePushConfig: "push delete",
}
