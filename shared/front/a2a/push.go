package a2a

import (
	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func (a *api) servePushConfigs(r *request, params []byte) error {
	if a.Push == nil {
		return newFault(pushNotSupported, "push notifications are not supported; stream or poll the task")
	}
	if r.op == a2awire.CreatePushConfig {
		q, err := a2awire.DecodePushCreate(r.dialect, params)
		if err != nil {
			return err
		}
		ref, err := a.taskRef(r, q.TaskID)
		if err != nil {
			return err
		}
		if err := a.preparePushConfig(r, &q.Config); err != nil {
			return err
		}
		c, err := a.Tasks.AddPushConfig(r.Context(), ref, q.Config)
		if err == nil {
			a.writeResult(r, a2awire.EncodePushConfig(r.dialect, q.TaskID, &c))
		}
		return err
	}
	q, err := a2awire.DecodePushParams(r.dialect, params)
	if err != nil {
		return err
	}
	ref, err := a.taskRef(r, q.TaskID)
	if err != nil {
		return err
	}
	if r.op == a2awire.DeletePushConfig {
		if err := a.Tasks.RemovePushConfig(r.Context(), ref, q.ConfigID); err != nil {
			return err
		}
		a.writeResult(r, map[bool][]byte{true: []byte("null"), false: []byte("{}")}[r.dialect == a2awire.V03])
		return nil
	}
	configs, err := a.Tasks.ListPushConfigs(r.Context(), ref)
	if err != nil {
		return err
	}
	if r.op == a2awire.ListPushConfigs {
		a.writeResult(r, a2awire.EncodePushConfigs(r.dialect, q.TaskID, configs))
		return nil
	}
	for i := range configs {
		if configs[i].ID == q.ConfigID || q.ConfigID == "" {
			a.writeResult(r, a2awire.EncodePushConfig(r.dialect, q.TaskID, &configs[i]))
			return nil
		}
	}
	return newFault(taskNotFound, task.ErrNoPushConfig.Text())
}

func (a *api) preparePushConfig(r *request, c *task.PushConfig) (err error) {
	if a.Push == nil {
		return newFault(pushNotSupported, "push notifications are not supported; stream or poll the task")
	}
	c.AcceptsEnvelopes, c.ClientAddress = r.hasExtension, caller.RateLimitPrefix(r.RemoteAddr).String()
	if err := a.Push.CheckConfig(r.Context(), r.Vacant.ID, c); err != nil {
		if f := faultOf(err); f != nil {
			return f
		}
		// The configuration is invalid, for example because the host must not call its URL.
		return newFault(invalidParams, "pushNotificationConfig: "+problem.AsError(err).Text())
	}
	if c.ID == "" {
		c.ID, err = a.Tasks.NewID()
	}
	return err
}
