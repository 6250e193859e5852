package a2a

import (
	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func (d *api) pushConfigs(r *request, params []byte) error {
	if d.Push == nil {
		return faultf(pushNotSupported, "push notifications are not supported; stream or poll the task")
	}
	if r.op == a2awire.CreatePushConfig {
		q, err := a2awire.DecodePushCreate(r.dialect, params)
		if err != nil {
			return err
		}
		ref, err := d.ref(r, q.Task)
		if err != nil {
			return err
		}
		if err := d.checkPush(r, &q.Config); err != nil {
			return err
		}
		c, err := d.Tasks.AddPush(r.Context(), ref, q.Config)
		if err == nil {
			d.answer(r, a2awire.EncodePushConfig(r.dialect, q.Task, &c))
		}
		return err
	}
	q, err := a2awire.DecodePush(r.dialect, params)
	if err != nil {
		return err
	}
	ref, err := d.ref(r, q.Task)
	if err != nil {
		return err
	}
	if r.op == a2awire.DeletePushConfig {
		if err := d.Tasks.RemovePush(r.Context(), ref, q.ID); err != nil {
			return err
		}
		d.answer(r, map[bool][]byte{true: []byte("null"), false: []byte("{}")}[r.dialect == a2awire.V03])
		return nil
	}
	configs, err := d.Tasks.Pushes(r.Context(), ref)
	if err != nil {
		return err
	}
	if r.op == a2awire.ListPushConfigs {
		d.answer(r, a2awire.EncodePushConfigs(r.dialect, q.Task, configs))
		return nil
	}
	for i := range configs {
		if configs[i].ID == q.ID || q.ID == "" {
			d.answer(r, a2awire.EncodePushConfig(r.dialect, q.Task, &configs[i]))
			return nil
		}
	}
	return faultf(taskNotFound, task.ErrNoPushConfig.Text())
}

// checkPush validates a client's configuration and gives it an id if it has none.
func (d *api) checkPush(r *request, c *task.PushConfig) (err error) {
	if d.Push == nil {
		return faultf(pushNotSupported, "push notifications are not supported; stream or poll the task")
	}
	c.Extension, c.From = r.extension, caller.RateKey(r.RemoteAddr).String()
	if err := d.Push.CheckConfig(r.Context(), r.Vacant.ID, c); err != nil {
		if f := problemOfFault(err); f != nil {
			return f
		}
		// The configuration is invalid, for example because the host must not call its URL.
		return faultf(invalidParams, "pushNotificationConfig: "+problem.AsError(err).Text())
	}
	if c.ID == "" {
		c.ID, err = d.Tasks.NewID()
	}
	return err
}
