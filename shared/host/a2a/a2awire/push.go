package a2awire

import (
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// PushRequest names a push configuration of a task, or has one.
type PushRequest struct {
	Task   string
	ID     string // of the configuration
	Config task.PushConfig
}

// pushConfig are the members of a configuration. 1.0 has the task's id among them.
func (r *reader) pushConfig(c *task.PushConfig, of *string) fields {
	c.Dialect = uint8(r.d)
	known := fields{
		"id": r.id("id", &c.ID), "url": r.text(&c.URL), "token": r.text(&c.Token),
		"authentication": func() error {
			scheme := fields{"scheme": r.text(&c.Scheme), "credentials": r.text(&c.Credentials)}
			if r.d == V03 {
				delete(scheme, "scheme")
				scheme["schemes"] = func() error {
					return r.Array(func(i int) (err error) {
						s, err := r.String()
						if i == 0 {
							c.Scheme = s
						}
						return err
					})
				}
			}
			return r.object(scheme)
		},
	}
	if r.d != V03 {
		known["taskId"] = r.id("taskId", of)
	}
	return known
}

// DecodePushCreate reads the parameters of CreatePushConfig.
func DecodePushCreate(d Dialect, params []byte) (q PushRequest, err error) {
	r := newReader(d, params)
	known := r.pushConfig(&q.Config, &q.Task)
	if d == V03 {
		config := known
		known = fields{"taskId": r.id("taskId", &q.Task), "pushNotificationConfig": func() error {
			if r.Kind() != canon.Object {
				return r.Mismatch("an object for pushNotificationConfig")
			}
			return r.object(config)
		}}
	}
	err = r.whole(known)
	switch {
	case err != nil:
	case q.Task == "":
		err = problem.Invalid("taskId", "the id of a task", "none")
	case q.Config.URL == "":
		err = problem.Invalid("url", "where to send notifications", "none")
	}
	return q, err
}

// DecodePush reads the parameters of GetPushConfig, ListPushConfigs and
// DeletePushConfig.
func DecodePush(d Dialect, params []byte) (q PushRequest, err error) {
	r := newReader(d, params)
	if d == V03 {
		err = r.whole(fields{"id": r.id("id", &q.Task), "pushNotificationConfigId": r.id("pushNotificationConfigId", &q.ID)})
	} else {
		err = r.whole(fields{"taskId": r.id("taskId", &q.Task), "id": r.id("id", &q.ID)})
	}
	if err == nil && q.Task == "" {
		err = problem.Invalid(map[bool]string{true: "id", false: "taskId"}[d == V03], "the id of a task", "none")
	}
	return q, err
}

// PushConfig returns a configuration of a task, the answer to CreatePushConfig and
// GetPushConfig.
func PushConfig(d Dialect, of string, c *task.PushConfig) []byte {
	w := &writer{d: d}
	w.pushConfig(of, c)
	return w.b
}

// PushConfigs returns the answer to ListPushConfigs.
func PushConfigs(d Dialect, of string, all []task.PushConfig) []byte {
	w := &writer{d: d}
	list := func(name string) { w.list(name, len(all), func(i int) { w.pushConfig(of, &all[i]) }) }
	if d == V03 {
		list("")
		return w.b
	}
	w.object("", func() {
		list("configs")
		w.text("nextPageToken", "")
	})
	return w.b
}

func (w *writer) pushConfig(of string, c *task.PushConfig) {
	config := func() {
		if w.d != V03 {
			w.text("taskId", of)
		}
		w.text("id", c.ID)
		w.text("url", c.URL)
		w.optional("token", c.Token)
		if c.Scheme == "" {
			return
		}
		w.object("authentication", func() {
			if w.d == V03 {
				w.texts("schemes", []string{c.Scheme})
			} else {
				w.text("scheme", c.Scheme)
			}
			w.optional("credentials", c.Credentials)
		})
	}
	if w.d != V03 {
		w.object("", config)
		return
	}
	w.object("", func() {
		w.text("taskId", of)
		w.object("pushNotificationConfig", config)
	})
}
