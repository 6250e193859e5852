package task

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// UpgradeTasks moves the tasks that an account has at a vacant from call.LegacyAccountOwner, which earlier
// versions stored as their owner, to call.AccountOwner. It skips tasks that have expired, are
// damaged, or contain texts that cannot be opened. If it finds damage, it returns an error at the
// end.
func (e *Engine) UpgradeTasks(ctx context.Context, vacant identity.ID, account string) error {
	former := call.LegacyAccountOwner(account)
	var damageErr error
	for d, err := range store.Documents(ctx, e.Store, HeadDocs.IndexRange(vacant.String(), former.String())) {
		if err != nil {
			return err
		}
		r, err := ParseRef(strings.TrimPrefix(d.Key.Partition, "task#"))
		if err != nil || d.IsExpired(e.Now()) {
			continue
		}
		switch err := e.upgradeTask(ctx, r, call.AccountOwner(account, "")); {
		case problem.Is(err, problem.Damaged):
			damageErr = err
		case err != nil && !errors.Is(err, textkeys.ErrDestroyed):
			return err
		}
	}
	return damageErr
}

func UpgradeQueueMessage(queueMessage string, accounts []string) string {
	for _, a := range accounts {
		queueMessage = strings.Replace(queueMessage, "#"+call.LegacyAccountOwner(a).String()+"#", "#"+call.AccountOwner(a, "").String()+"#", 1)
	}
	return queueMessage
}

// upgradeTask moves a task to another owner. It seals all documents again, because the key of a
// document is part of its seal. The old documents expire.
//
// The task id of a message that its client may repeat depends on the owner. upgradeTask stores a
// copy of the task under the current id, so that a repeated message finds the copy and does not run
// again.
func (e *Engine) upgradeTask(ctx context.Context, from Ref, owner call.Owner) error {
	to := from
	to.Owner = owner
	original, err := e.copyTask(ctx, from, to, false)
	if err != nil {
		return err
	}
	if messageID := original.History[0].ID; from.ID == MessageTaskID(from.Vacant, from.Owner, messageID) {
		repeatRef := Ref{to.Vacant, owner, MessageTaskID(to.Vacant, owner, messageID)}
		if _, err := e.copyTask(ctx, from, repeatRef, true); err != nil {
			return err
		}
	}
	return e.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Doc(ctx, from.headKey())
		tx.Delete(from.headKey())
		return err
	})
}

// copyTask copies a task, with its head last, and returns the task as it began. If repeated is
// true, the copy is for a client that repeats the message. Such a copy is not listed and has no
// pushes. In such a copy, a turn that waits for a worker is stored as failed, because the worker
// will run only the turn of the original.
func (e *Engine) copyTask(ctx context.Context, from, to Ref, isRepeat bool) (original Task, err error) {
	h, _, err := HeadDocs.Get(ctx, e.Store, from.headKey())
	if err != nil {
		return original, err
	}
	isPending := isRepeat && h.State == Submitted
	copiedHead, err := e.Store.Doc(ctx, to.headKey())
	if err != nil {
		return original, err
	}
	for d, err := range store.Documents(ctx, e.Store, store.Range{Partition: from.partition()}) {
		if err != nil {
			return original, err
		}
		pushParts, isPush := PushDocs.Parts(d.Key)
		n, isEvent := eventNumber(d.Key)
		if !isEvent && (!isPush || isRepeat || isRemoved(&d)) || isPending && n > 1 {
			continue
		}
		plaintext, err := e.open(ctx, d)
		if err != nil {
			return original, err
		}
		copied := store.Doc{Key: to.eventKey(n), Number: d.Number, Expires: d.Expires}
		switch {
		case isPush:
			copied.Key = PushDocs.Key(to.encode(), pushParts[1])
			if d.Index != (store.Key{}) {
				copied.Index = PushDocs.IndexKey(copied.Key.Partition + "#" + copied.Key.Sort)
			}
		case n == 1:
			event, err := e.openEvent(ctx, d)
			if err == nil && (event.Task == nil || len(event.Task.History) == 0) {
				err = problem.New(problem.Damaged, "event %s does not begin a task", d.Key)
			}
			if err != nil {
				return original, err
			}
			original = *event.Task
			original.History = slices.Clone(original.History)
			if !isRepeat {
				break
			}
			if firstMessage := &event.Task.History[0]; firstMessage.Context == "c-"+from.ID {
				firstMessage.Context = "c-" + to.ID // the current context id for a client without a context
			}
			if isPending {
				event.Task.Status = Status{State: Failed, Time: e.Now().UTC().Truncate(time.Microsecond), Message: original.hostMessage("the message was accepted before, as task " + from.ID)}
			}
			if plaintext, err = encodeEvent(event); err != nil {
				return original, err
			}
		}
		if copiedHead.Version > 0 {
			continue // copied before an interruption
		}
		if copied.Data, err = e.seal(ctx, copied.Key, plaintext); err != nil {
			return original, err
		}
		err = e.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Doc(ctx, copied.Key)
			tx.Put(copied)
			return err
		})
		if err != nil {
			return original, err
		}
	}
	if copiedHead.Version > 0 {
		return original, nil
	}
	if h.ListOwner = to.Owner; isRepeat {
		h.ListOwner, h.Background, h.Shares = call.Owner{}, false, nil
	}
	if isPending {
		h.State, h.StatusTime, h.EventCount = Failed, e.Now().UTC().Truncate(time.Microsecond), 1
	}
	h.EventBytes = 0 // unknown, because the documents that were sealed again may have other sizes
	return original, e.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		return to.putHead(tx, &h)
	})
}
