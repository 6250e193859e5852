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

// UpgradeTasks moves the tasks that earlier versions stored for call.LegacyAccountOwner. It skips
// unreadable tasks.
func (e *Engine) UpgradeTasks(ctx context.Context, vacant identity.ID, account string) error {
	legacyOwner := call.LegacyAccountOwner(account)
	var damageErr error
	for d, err := range store.Documents(ctx, e.Store, HeadDocs.IndexRange(vacant.String(), legacyOwner.String())) {
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

// upgradeTask moves a task to another owner. The id of a repeatable message's task depends on the
// owner, so a copy is stored under the new id. A repeated message then finds the copy and does not
// run again.
func (e *Engine) upgradeTask(ctx context.Context, source Ref, owner call.Owner) error {
	target := source
	target.Owner = owner
	original, err := e.copyTask(ctx, source, target, false)
	if err != nil {
		return err
	}
	if messageID := original.History[0].ID; source.ID == MessageTaskID(source.Vacant, source.Owner, messageID) {
		repeatRef := Ref{target.Vacant, owner, MessageTaskID(target.Vacant, owner, messageID)}
		if _, err := e.copyTask(ctx, source, repeatRef, true); err != nil {
			return err
		}
	}
	return e.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Doc(ctx, source.headKey())
		tx.Delete(source.headKey())
		return err
	})
}

// copyTask copies a task, with its head last, and returns the task as it began. A copy for a
// repeated message is not listed and has no pushes.
func (e *Engine) copyTask(ctx context.Context, source, target Ref, isRepeat bool) (original Task, err error) {
	sourceHead, _, err := HeadDocs.Get(ctx, e.Store, source.headKey())
	if err != nil {
		return original, err
	}
	isPending := isRepeat && sourceHead.State == Submitted
	targetHeadDoc, err := e.Store.Doc(ctx, target.headKey())
	if err != nil {
		return original, err
	}
	for d, err := range store.Documents(ctx, e.Store, store.Range{Partition: source.partition()}) {
		if err != nil {
			return original, err
		}
		pushParts, isPush := PushDocs.Parts(d.Key)
		n, isEvent := eventNumber(d.Key)
		if !isEvent && (!isPush || isRepeat || isRemoved(&d)) || isPending && n > 1 {
			continue
		}
		plaintext, err := e.openDoc(ctx, d)
		if err != nil {
			return original, err
		}
		copiedDoc := store.Doc{Key: target.eventKey(n), Number: d.Number, Expires: d.Expires}
		switch {
		case isPush:
			copiedDoc.Key = PushDocs.Key(target.encode(), pushParts[1])
			if d.Index != (store.Key{}) {
				copiedDoc.Index = PushDocs.IndexKey(copiedDoc.Key.Partition + "#" + copiedDoc.Key.Sort)
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
			if firstMessage := &event.Task.History[0]; firstMessage.Context == "c-"+source.ID {
				firstMessage.Context = "c-" + target.ID
			}
			// A worker will run only the turn of the original.
			if isPending {
				event.Task.Status = Status{State: Failed, Time: e.Now().UTC().Truncate(time.Microsecond), Message: original.hostMessage("the message was accepted before, as task " + source.ID)}
			}
			if plaintext, err = encodeEvent(event); err != nil {
				return original, err
			}
		}
		if targetHeadDoc.Version > 0 {
			continue // copied before an interruption
		}
		if copiedDoc.Data, err = e.seal(ctx, copiedDoc.Key, plaintext); err != nil {
			return original, err
		}
		err = e.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Doc(ctx, copiedDoc.Key)
			tx.Put(copiedDoc)
			return err
		})
		if err != nil {
			return original, err
		}
	}
	if targetHeadDoc.Version > 0 {
		return original, nil
	}
	if sourceHead.ListOwner = target.Owner; isRepeat {
		sourceHead.ListOwner, sourceHead.Background, sourceHead.Shares = call.Owner{}, false, nil
	}
	if isPending {
		sourceHead.State, sourceHead.StatusTime, sourceHead.EventCount = Failed, e.Now().UTC().Truncate(time.Microsecond), 1
	}
	sourceHead.EventBytes = 0 // unknown after the documents were sealed again
	return original, e.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		return target.putHead(tx, &sourceHead)
	})
}
