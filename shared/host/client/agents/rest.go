package agents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
)

// bindingREST is the name of HTTP+JSON in cards.
const bindingREST = "HTTP+JSON"

var restRoutes = map[a2awire.Operation]struct{ method, path string }{
	a2awire.Send: {http.MethodPost, "/message:send"}, a2awire.Stream: {http.MethodPost, "/message:stream"},
	a2awire.ListTasks: {http.MethodGet, "/tasks"}, a2awire.GetTask: {http.MethodGet, "/tasks/{id}"},
	a2awire.CancelTask: {http.MethodPost, "/tasks/{id}:cancel"}, a2awire.Subscribe: {http.MethodPost, "/tasks/{id}:subscribe"},
	a2awire.CreatePushConfig: {http.MethodPost, "/tasks/{task}/pushNotificationConfigs"}, a2awire.ListPushConfigs: {http.MethodGet, "/tasks/{task}/pushNotificationConfigs"},
	a2awire.GetPushConfig: {http.MethodGet, "/tasks/{task}/pushNotificationConfigs/{id}"}, a2awire.DeletePushConfig: {http.MethodDelete, "/tasks/{task}/pushNotificationConfigs/{id}"},
	a2awire.ExtendedCard: {http.MethodGet, "/extendedAgentCard"},
}

func (a *Agent) newRESTRequest(op a2awire.Operation, params []byte) (r outbound.Request, err error) {
	u, err := url.Parse(a.url)
	if err != nil {
		return r, err
	}
	route := restRoutes[op]
	r.Method = route.method
	if r.Method == http.MethodPost {
		r.Body = params
	}
	var members map[string]any
	d := json.NewDecoder(bytes.NewReader(params))
	d.UseNumber()
	if err := d.Decode(&members); err != nil {
		return r, err
	}
	escape := func(name string) string { return url.PathEscape(fmt.Sprint(members[name])) }
	u = outbound.ReplaceSuffix(u, "", strings.NewReplacer("{id}", escape("id"), "{task}", escape("taskId")).Replace(route.path))
	query := u.Query()
	for name, value := range members {
		if name != "id" && name != "taskId" && r.Method != http.MethodPost {
			query.Set(name, fmt.Sprint(value))
		}
	}
	u.RawQuery = query.Encode()
	r.URL = u.String()
	return r, nil
}
