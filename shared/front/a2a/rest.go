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
	op      a2awire.Operation
	methods []string
	id      string // id of the task in the path
	config  string // id of the push configuration in the path
}

// restRouteOf returns the operation of a path. The path may begin with a tenant.
func restRouteOf(path string) (route restRoute, ok bool) {
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
				return restRoute{op: a2awire.GetTask, methods: get, id: id}, true
			case verb == "cancel":
				return restRoute{op: a2awire.CancelTask, methods: post, id: id}, true
			case verb == "subscribe":
				return restRoute{op: a2awire.Subscribe, methods: []string{http.MethodGet, http.MethodPost}, id: id}, true
			}
		case len(parts) == 3 && parts[2] == "pushNotificationConfigs":
			return restRoute{op: a2awire.ListPushConfigs, methods: []string{http.MethodGet, http.MethodPost}, id: parts[1]}, true
		case len(parts) == 4 && parts[2] == "pushNotificationConfigs" && parts[3] != "":
			return restRoute{op: a2awire.GetPushConfig, methods: []string{http.MethodDelete, http.MethodGet}, id: parts[1], config: parts[3]}, true
		}
		parts = parts[1:]
	}
	return route, false
}

func (d *api) rest(r *request, route restRoute) error {
	if !slices.Contains(route.methods, r.Method) {
		return r.NotAllowed(strings.Join(route.methods, ", "))
	}
	switch {
	case r.Method == http.MethodPost && route.op == a2awire.ListPushConfigs:
		route.op = a2awire.CreatePushConfig
	case r.Method == http.MethodDelete:
		route.op = a2awire.DeletePushConfig
	}
	r.withoutRPC = true
	r.setOperation(route.op, logNames[route.op])
	r.noteExtension()
	// The binding exists only in version 1.0.
	v, err := r.version()
	if err == nil && v == version03 {
		err = faultf(versionNotSupported, "A2A 0.3 is served only by JSON-RPC")
	}
	if err != nil {
		return err
	}
	// A POST has its parameters in the body, which may be empty only if the path names a task. Other
	// requests have their parameters in the path and the query.
	if r.Method == http.MethodPost && (route.id == "" || route.op == a2awire.CreatePushConfig || r.ContentLength != 0) {
		if err := r.read(); err != nil {
			return err
		}
		in := canon.NewDecoder(r.body, a2awire.Limits())
		isObject := in.Kind() == canon.Object
		switch err := errors.Join(in.Skip(), in.End()); {
		case err != nil:
			return faultf(parseError, "the body does not decode: "+problem.AsError(err).Text())
		case route.id == "":
			d.operate(r, r.body)
			return nil
		case !isObject:
			return faultf(invalidParams, "the body: expected an object")
		}
		key := "id"
		if route.op == a2awire.CreatePushConfig {
			key = "taskId"
		}
		params := canon.AppendString(append(canon.AppendString([]byte{'{'}, key), ':'), route.id)
		in = canon.NewDecoder(r.body, a2awire.Limits())
		err := in.Object(func(name string) error {
			if name == key || name == "task_id" {
				return in.Skip()
			}
			value, err := in.SkipRaw()
			params = append(append(canon.AppendString(append(params, ','), name), ':'), value...)
			return err
		})
		if err != nil {
			return faultf(invalidParams, problem.AsError(err).Text())
		}
		d.operate(r, append(params, '}'))
		return nil
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return faultf(invalidParams, "the query does not decode")
	}
	p := map[string]any{}
	switch {
	case route.op == a2awire.GetPushConfig || route.op == a2awire.ListPushConfigs || route.op == a2awire.DeletePushConfig:
		p["taskId"], p["id"] = route.id, route.config
	case route.id != "":
		p["id"] = route.id
	}
	for _, name := range []string{"contextId", "pageToken", "status", "statusTimestampAfter"} {
		if q.Has(name) {
			p[name] = q.Get(name)
		}
	}
	for _, name := range []string{"historyLength", "pageSize"} {
		if !q.Has(name) {
			continue
		}
		n, err := strconv.ParseInt(q.Get(name), 10, 64)
		if err != nil {
			return faultf(invalidParams, name+": expected a whole number")
		}
		p[name] = n
	}
	if q.Has("includeArtifacts") {
		on, err := strconv.ParseBool(q.Get("includeArtifacts"))
		if err != nil {
			return faultf(invalidParams, "includeArtifacts: expected true or false")
		}
		p["includeArtifacts"] = on
	}
	params, err := json.Marshal(p)
	if err == nil {
		d.operate(r, params)
	}
	return err
}

// logNames maps operations to their names in the log.
var logNames = map[a2awire.Operation]string{
	a2awire.Send: "message:send", a2awire.Stream: "message:stream", a2awire.ListTasks: "list", a2awire.GetTask: "get",
	a2awire.CancelTask: "cancel", a2awire.Subscribe: "subscribe", a2awire.ExtendedCard: "extendedAgentCard", a2awire.CreatePushConfig: "push create",
	a2awire.GetPushConfig: "push get", a2awire.ListPushConfigs: "push list", a2awire.DeletePushConfig: "push delete",
}
