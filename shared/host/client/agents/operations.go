package agents

import (
	"context"
	"errors"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// ListTasks returns a page of the caller's tasks. Page.Next is the token of the next page, or empty
// on the last page. If the agent does not count its tasks, Page.Total is -1.
func (a *Agent) ListTasks(ctx context.Context, q a2awire.ListRequest) (task.Page, error) {
	result, err := a.do(ctx, a2awire.ListTasks, a2awire.ListParams(a.dialect, &q))
	if err != nil {
		return task.Page{}, err
	}
	p, err := a2awire.ReadList(a.dialect, result)
	return p, answerError(http.StatusOK, result, err)
}

// SetPush stores a push configuration of a task and returns it with the id that the agent assigned.
// A configuration with an id replaces the earlier configuration with this id.
func (a *Agent) SetPush(ctx context.Context, taskID string, c task.PushConfig) (task.PushConfig, error) {
	return a.onPush(ctx, a2awire.CreatePushConfig, a2awire.EncodePushConfig(a.dialect, taskID, &c))
}

func (a *Agent) GetPush(ctx context.Context, taskID, id string) (task.PushConfig, error) {
	return a.onPush(ctx, a2awire.GetPushConfig, a2awire.PushParams(a.dialect, taskID, id))
}

func (a *Agent) onPush(ctx context.Context, op a2awire.Operation, params []byte) (task.PushConfig, error) {
	result, err := a.do(ctx, op, params)
	if err != nil {
		return task.PushConfig{}, err
	}
	c, err := a2awire.ReadPushConfig(a.dialect, result)
	return c, answerError(http.StatusOK, result, err)
}

func (a *Agent) ListPushes(ctx context.Context, taskID string) ([]task.PushConfig, error) {
	result, err := a.do(ctx, a2awire.ListPushConfigs, a2awire.PushParams(a.dialect, taskID, ""))
	if err != nil {
		return nil, err
	}
	configs, next, err := a2awire.ReadPushConfigs(a.dialect, result)
	if err == nil && next != "" {
		err = problem.New(problem.TooLarge, "the agent has more push configurations for the task than fit on one page")
	}
	return configs, answerError(http.StatusOK, result, err)
}

func (a *Agent) DeletePush(ctx context.Context, taskID, id string) error {
	_, err := a.do(ctx, a2awire.DeletePushConfig, a2awire.PushParams(a.dialect, taskID, id))
	return err
}

// ExtendedCard returns the card that the agent shows to callers with a key, or the public card if
// there is no other.
func (a *Agent) ExtendedCard(ctx context.Context) (*Card, error) {
	result, err := a.do(ctx, a2awire.ExtendedCard, []byte("{}"))
	var fault *a2awire.RPCError
	if errors.As(err, &fault) && (fault.Code == -32601 || fault.Code == -32004 || fault.Code == -32007) {
		return a.Card, nil
	}
	if err != nil {
		return nil, err
	}
	return ParseCard(a.Card.url, result)
}
