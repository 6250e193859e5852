package agents

import (
	"context"
	"errors"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// ListTasks returns a page of the caller's tasks. If the agent does not count its tasks, Page.Total
// is -1.
func (a *Agent) ListTasks(ctx context.Context, q a2awire.ListRequest) (task.Page, error) {
	result, err := a.call(ctx, a2awire.ListTasks, a2awire.EncodeListParams(a.dialect, &q))
	if err != nil {
		return task.Page{}, err
	}
	p, err := a2awire.ReadList(a.dialect, result)
	return p, classifyReplyError(http.StatusOK, result, err)
}

// SetPushConfig stores a push configuration of a task and returns it with its id.
func (a *Agent) SetPushConfig(ctx context.Context, taskID string, c task.PushConfig) (task.PushConfig, error) {
	return a.callPushConfig(ctx, a2awire.CreatePushConfig, a2awire.EncodePushConfig(a.dialect, taskID, &c))
}

func (a *Agent) GetPushConfig(ctx context.Context, taskID, id string) (task.PushConfig, error) {
	return a.callPushConfig(ctx, a2awire.GetPushConfig, a2awire.EncodePushParams(a.dialect, taskID, id))
}

func (a *Agent) callPushConfig(ctx context.Context, op a2awire.Operation, params []byte) (task.PushConfig, error) {
	result, err := a.call(ctx, op, params)
	if err != nil {
		return task.PushConfig{}, err
	}
	c, err := a2awire.ReadPushConfig(a.dialect, result)
	return c, classifyReplyError(http.StatusOK, result, err)
}

func (a *Agent) ListPushConfigs(ctx context.Context, taskID string) ([]task.PushConfig, error) {
	result, err := a.call(ctx, a2awire.ListPushConfigs, a2awire.EncodePushParams(a.dialect, taskID, ""))
	if err != nil {
		return nil, err
	}
	configs, next, err := a2awire.ReadPushConfigs(a.dialect, result)
	if err == nil && next != "" {
		err = problem.New(problem.TooLarge, "the agent has more push configurations for the task than fit on one page")
	}
	return configs, classifyReplyError(http.StatusOK, result, err)
}

func (a *Agent) DeletePushConfig(ctx context.Context, taskID, id string) error {
	_, err := a.call(ctx, a2awire.DeletePushConfig, a2awire.EncodePushParams(a.dialect, taskID, id))
	return err
}

// ExtendedCard returns the card that the agent shows to callers with a key. If there is no such
// card, it returns the public card.
func (a *Agent) ExtendedCard(ctx context.Context) (*Card, error) {
	result, err := a.call(ctx, a2awire.ExtendedCard, []byte("{}"))
	var rpcErr *a2awire.RPCError
	if errors.As(err, &rpcErr) && (rpcErr.Code == -32601 || rpcErr.Code == -32004 || rpcErr.Code == -32007) {
		return a.Card, nil
	}
	if err != nil {
		return nil, err
	}
	return ParseCard(a.Card.url, result)
}
