package a2a

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/network/a2awire"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// restRoute is an operation of the HTTP+JSON binding.
type restRoute struct {
	op      a2awire.Operation
	methods []string
	id      string // of the task in the path
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
			return restRoute{a2awire.Send, post, ""}, true
		case "message:stream":
			return restRoute{a2awire.Stream, post, ""}, true
		case "tasks":
			return restRoute{a2awire.ListTasks, get, ""}, true
		case "extendedAgentCard":
			return restRoute{a2awire.ExtendedCard, get, ""}, true
		}
	case parts[0] != "tasks" || parts[1] == "":
	case len(parts) == 2:
		id, verb, _ := strings.Cut(parts[1], ":")
		switch verb {
		case "":
			return restRoute{a2awire.GetTask, get, id}, id == parts[1]
		case "cancel":
			return restRoute{a2awire.CancelTask, post, id}, true
		case "subscribe":
			return restRoute{a2awire.Subscribe, []string{http.MethodGet, http.MethodPost}, id}, true
		}
	case len(parts) <= 4 && parts[2] == "pushNotificationConfigs":
		return restRoute{a2awire.GetPushConfig, []string{http.MethodDelete, http.MethodGet, http.MethodPost}, parts[1]}, true
	}
	return restRoute{}, false
}

// rest serves the HTTP+JSON binding, which has version 1.0 alone.
func (d *api) rest(r *request) (handled bool, err error) {
	route, ok := restRouteOf(r.rest)
	if !ok {
		return false, nil
	}
	allowed := false
	for _, m := range route.methods {
		allowed = allowed || m == r.Method
	}
	if !allowed {
		return true, notAllowed(r, strings.Join(route.methods, ", "))
	}
	r.bare, r.what = true, r.Method+" "+restName(route.op)
	r.listsExtension()
	v, f := r.version()
	if f == nil && v == version03 {
		f = faultf(versionNotSupported, "A2A 0.3 is served by JSON-RPC alone")
	}
	var params []byte
	if f == nil {
		params, f, err = r.params(route)
	}
	switch {
	case err != nil:
		return true, err
	case f != nil:
		d.fail(r, f)
	default:
		d.operate(r, route.op, params)
	}
	return true, nil
}

func restName(op a2awire.Operation) string {
	return map[a2awire.Operation]string{
		a2awire.Send: "message:send", a2awire.Stream: "message:stream", a2awire.ListTasks: "tasks", a2awire.GetTask: "task",
		a2awire.CancelTask: "cancel", a2awire.Subscribe: "subscribe", a2awire.GetPushConfig: "push", a2awire.ExtendedCard: "extendedAgentCard",
	}[op]
}

// params returns the parameters of an operation in the form that JSON-RPC has: those
// of a message are the body, the others are in path and query.
func (r *request) params(route restRoute) ([]byte, *fault, error) {
	if route.op == a2awire.Send || route.op == a2awire.Stream {
		if err := r.read(); err != nil {
			return nil, nil, err
		}
		whole := canon.NewDecoder(r.body, canon.DefaultLimits())
		if err := errors.Join(whole.Skip(), whole.End()); err != nil {
			return nil, faultf(parseError, "the body does not decode: "+problem.Of(err).Text()), nil
		}
		return r.body, nil, nil
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, faultf(invalidParams, "the query does not decode"), nil
	}
	p := map[string]any{}
	if route.id != "" {
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
			return nil, faultf(invalidParams, name+": expected a whole number"), nil
		}
		p[name] = n
	}
	if q.Has("includeArtifacts") {
		on, err := strconv.ParseBool(q.Get("includeArtifacts"))
		if err != nil {
			return nil, faultf(invalidParams, "includeArtifacts: expected true or false"), nil
		}
		p["includeArtifacts"] = on
	}
	b, err := json.Marshal(p)
	return b, nil, err
}
