package a2awire

import (
	"errors"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// PushRequest is a request about push configurations of a task. DecodePushCreate sets Config, and
// DecodePushParams sets ConfigID.
type PushRequest struct {
	TaskID   string
	ConfigID string
	Config   task.PushConfig
}

func (r *reader) pushConfig(c *task.PushConfig, taskID *string) memberReaders {
	c.Dialect = uint8(r.dialect)
	members := memberReaders{
		"id": r.id("id", &c.ID), "url": r.text(&c.URL), "token": r.text(&c.Token),
		"authentication": func() error {
			authReaders := memberReaders{"scheme": r.text(&c.Scheme), "credentials": r.text(&c.Credentials)}
			if r.dialect == V03 {
				delete(authReaders, "scheme")
				authReaders["schemes"] = func() error {
					return r.Array(func(i int) (err error) {
						s, err := r.String()
						if i == 0 {
							c.Scheme = s
						}
						return err
					})
				}
			}
			return r.object(authReaders)
		},
	}
	if r.dialect != V03 {
		members["taskId"] = r.id("taskId", taskID)
	}
	return members
}

func (r *reader) taskPushConfig(q *PushRequest) memberReaders {
	config := r.pushConfig(&q.Config, &q.TaskID)
	if r.dialect != V03 {
		return config
	}
	return memberReaders{"taskId": r.id("taskId", &q.TaskID), "pushNotificationConfig": func() error {
		if r.Kind() != canon.Object {
			return r.MismatchError("an object for pushNotificationConfig")
		}
		return r.object(config)
	}}
}

func DecodePushCreate(d Dialect, params []byte) (q PushRequest, err error) {
	r := newReader(d, params)
	err = r.readDocument(r.taskPushConfig(&q))
	switch {
	case err != nil:
	case q.TaskID == "":
		err = problem.Invalid("taskId", "the id of a task", "none")
	case q.Config.URL == "":
		err = problem.Invalid("url", "the URL to which notifications are sent", "none")
	}
	return q, err
}

func DecodePushParams(d Dialect, params []byte) (q PushRequest, err error) {
	r := newReader(d, params)
	if d == V03 {
		err = r.readDocument(memberReaders{"id": r.id("id", &q.TaskID), "pushNotificationConfigId": r.id("pushNotificationConfigId", &q.ConfigID)})
	} else {
		err = r.readDocument(memberReaders{"taskId": r.id("taskId", &q.TaskID), "id": r.id("id", &q.ConfigID)})
	}
	if err == nil && q.TaskID == "" {
		err = problem.Invalid(map[bool]string{true: "id", false: "taskId"}[d == V03], "the id of a task", "none")
	}
	return q, err
}

// EncodePushParams encodes the parameters of GetPushConfig, ListPushConfigs and DeletePushConfig.
// For ListPushConfigs, id is empty.
func EncodePushParams(d Dialect, taskID, id string) []byte {
	w := &writer{dialect: d}
	w.object("", func() {
		if d == V03 {
			w.text("id", taskID)
			w.optionalText("pushNotificationConfigId", id)
		} else {
			w.text("taskId", taskID)
			w.optionalText("id", id)
		}
	})
	return w.b
}

func ReadPushConfig(d Dialect, raw []byte) (task.PushConfig, error) {
	r, q := newAnswerReader(d, raw), PushRequest{}
	err := r.readDocument(r.taskPushConfig(&q))
	return q.Config, checkURL(err, &q.Config)
}

func checkURL(err error, c *task.PushConfig) error {
	if err == nil && c.URL == "" {
		err = problem.Invalid("url", "the URL to which notifications are sent", "none")
	}
	return err
}

// ReadPushConfigs parses the answer to ListPushConfigs, and returns the token of the next page.
func ReadPushConfigs(d Dialect, raw []byte) (configs []task.PushConfig, next string, err error) {
	r := newAnswerReader(d, raw)
	list := func() error {
		return r.Array(func(int) error {
			q := PushRequest{}
			if r.Kind() != canon.Object {
				return r.MismatchError("a configuration")
			}
			err := r.object(r.taskPushConfig(&q))
			configs = append(configs, q.Config)
			return checkURL(err, &q.Config)
		})
	}
	if r.Kind() == canon.Array { // version 0.3
		return configs, "", errors.Join(list(), r.End())
	}
	err = r.readDocument(memberReaders{"configs": list, "nextPageToken": r.text(&next)})
	return configs, next, err
}

// EncodePushConfig encodes a configuration as a parameter or an answer.
func EncodePushConfig(d Dialect, taskID string, c *task.PushConfig) []byte {
	w := &writer{dialect: d}
	w.pushConfig(taskID, c)
	return w.b
}

func EncodePushConfigs(d Dialect, taskID string, configs []task.PushConfig) []byte {
	w := &writer{dialect: d}
	list := func(name string) { w.list(name, len(configs), func(i int) { w.pushConfig(taskID, &configs[i]) }) }
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

func (w *writer) pushConfig(taskID string, c *task.PushConfig) {
	if w.dialect != V03 {
		w.pushObject("", taskID, c)
		return
	}
	w.object("", func() {
		w.text("taskId", taskID)
		w.pushObject("pushNotificationConfig", "", c)
	})
}

func (w *writer) pushObject(name, taskID string, c *task.PushConfig) {
	w.object(name, func() {
		w.optionalText("taskId", taskID)
		w.optionalText("id", c.ID)
		w.text("url", c.URL)
		w.optionalText("token", c.Token)
		if c.Scheme == "" {
			return
		}
		w.object("authentication", func() {
			if w.dialect == V03 {
				w.texts("schemes", []string{c.Scheme})
			} else {
				w.text("scheme", c.Scheme)
			}
			w.optionalText("credentials", c.Credentials)
		})
	})
}
