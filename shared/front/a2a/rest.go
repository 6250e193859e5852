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
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// restRoute is an operation of the HTTP+JSON binding.
type restRoute struct {
	op      a2awire.Operation
	methods []string
	id      string // of the task in the path
	config  string // id of the push configuration in the path
}

// restRouteOf finds the operation of a path, with or without a tenant before it.
func restRouteOf(path string) (route restRoute, ok bool) {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for range 2 {
		if route, ok = restRouteAt(parts); ok || len(parts) < 2 {
			return route, ok
		}
		parts = parts[1:]
	}
	return route, false
}

func restRouteAt(parts []string) (restRoute, bool) {
	post, get := []string{http.MethodPost}, []string{http.MethodGet}
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
	case parts[0] != "tasks" || parts[1] == "":
	case len(parts) == 2:
		id, verb, _ := strings.Cut(parts[1], ":")
		switch verb {
		case "":
			return restRoute{op: a2awire.GetTask, methods: get, id: id}, id == parts[1]
		case "cancel":
			return restRoute{op: a2awire.CancelTask, methods: post, id: id}, true
		case "subscribe":
			return restRoute{op: a2awire.Subscribe, methods: []string{http.MethodGet, http.MethodPost}, id: id}, true
		}
	case len(parts) == 3 && parts[2] == "pushNotificationConfigs":
		return restRoute{op: a2awire.ListPushConfigs, methods: []string{http.MethodGet, http.MethodPost}, id: parts[1]}, true
	case len(parts) == 4 && parts[2] == "pushNotificationConfigs" && parts[3] != "":
		return restRoute{op: a2awire.GetPushConfig, methods: []string{http.MethodDelete, http.MethodGet}, id: parts[1], config: parts[3]}, true
	}
	return restRoute{}, false
}

// rest serves the HTTP+JSON binding, which exists only in version 1.0.
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
	r.setOperation(route.op, restNames[route.op])
	r.noteExtension()
	v, err := r.version()
	if err == nil && v == version03 {
		err = faultf(versionNotSupported, "A2A 0.3 is served only by JSON-RPC")
	}
	if err != nil {
		return err
	}
	params, err := r.params(route)
	if err == nil {
		d.operate(r, route.op, params)
	}
	return err
}

// restNames are the names of operations in the log.
var restNames = map[a2awire.Operation]string{
	a2awire.Send: "message:send", a2awire.Stream: "message:stream", a2awire.ListTasks: "list", a2awire.GetTask: "get",
	a2awire.CancelTask: "cancel", a2awire.Subscribe: "subscribe", a2awire.ExtendedCard: "extendedAgentCard", a2awire.CreatePushConfig: "push create",
	a2awire.GetPushConfig: "push get", a2awire.ListPushConfigs: "push list", a2awire.DeletePushConfig: "push delete",
}

// params returns the parameters of an operation in JSON-RPC's form. A POST has them in
// its body, which may be missing only if the path names a task. Other requests have
// them in path and query.
func (r *request) params(route restRoute) ([]byte, error) {
	if r.Method == http.MethodPost && (route.id == "" || route.op == a2awire.CreatePushConfig || r.ContentLength != 0) {
		if err := r.read(); err != nil {
			return nil, err
		}
		d := canon.NewDecoder(r.body, a2awire.Limits())
		isObject := d.Kind() == canon.Object
		key := "id"
		if route.op == a2awire.CreatePushConfig {
			key = "taskId"
		}
		switch err := errors.Join(d.Skip(), d.End()); {
		case err != nil:
			return nil, faultf(parseError, "the body does not decode: "+textOf(err))
		case route.id == "":
			return r.body, nil
		case !isObject:
			return nil, faultf(invalidParams, "the body: expected an object")
		}
		b, err := withTask(r.body, key, route.id)
		if err != nil {
			return nil, faultf(invalidParams, textOf(err))
		}
		return b, nil
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, faultf(invalidParams, "the query does not decode")
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
			return nil, faultf(invalidParams, name+": expected a whole number")
		}
		p[name] = n
	}
	if q.Has("includeArtifacts") {
		on, err := strconv.ParseBool(q.Get("includeArtifacts"))
		if err != nil {
			return nil, faultf(invalidParams, "includeArtifacts: expected true or false")
		}
		p["includeArtifacts"] = on
	}
	return json.Marshal(p)
}

// withTask returns a body, an object, with the id of the task that is in the path.
func withTask(body []byte, key, id string) ([]byte, error) {
	b := append(canon.AppendString([]byte{'{'}, key), ':')
	b = canon.AppendString(b, id)
	d := canon.NewDecoder(body, a2awire.Limits())
	err := d.Object(func(name string) error {
		if name == key || name == "task_id" {
			return d.Skip()
		}
		value, err := d.Span()
		b = append(append(canon.AppendString(append(b, ','), name), ':'), value...)
		return err
	})
	return append(b, '}'), err
}
