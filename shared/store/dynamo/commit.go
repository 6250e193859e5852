package dynamo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/vacancy-host/vacancy/shared/store"
)

const (
	// maxTransactionSize is DynamoDB's limit, which includes keys and attribute names.
	maxTransactionSize = 4 << 20
	// Retries on contention take at most about a second and a half.
	maxContendedTries     = 8
	firstContendedBackoff = 25 * time.Millisecond
)

// Commit implements store.Store. If this process does not know that the row below an Append exists,
// Commit reads that row, and refuses the append if the row is missing.
func (s *Store) Commit(ctx context.Context, writes ...store.Write) error {
	if err := store.CheckWrites(writes); err != nil {
		return err
	}
	actions, size := make([]types.TransactWriteItem, len(writes)), 0
	for i, w := range writes {
		actions[i] = s.newAction(w)
		size += actionSize(actions[i])
	}
	if len(writes) > 1 && size > maxTransactionSize {
		return fmt.Errorf("%w: a commit of %d bytes, at most %d", store.ErrTooLarge, size, maxTransactionSize)
	}
	if err := s.beginCall(ctx); err != nil {
		return err
	}
	defer s.endCall()
	if err := s.checkPredecessors(ctx, writes); err != nil {
		return err
	}
	// A plain request costs half as much as a transaction.
	send := func() error { return s.sendSingle(ctx, actions[0]) }
	if len(writes) > 1 {
		token := requestToken(writes)
		send = func() error { return s.transact(ctx, actions, token) }
	}
	return s.sendUntilKnown(ctx, writes, send)
}

// sendUntilKnown calls send until the outcome is known. If the response to an earlier try was lost,
// DynamoDB may still apply that try after the last try failed, for example if the bounds of an Add
// hold later.
func (s *Store) sendUntilKnown(ctx context.Context, writes []store.Write, send func() error) error {
	pause := firstContendedBackoff
	for attempt := 1; ; attempt++ {
		err := send()
		if err == nil {
			s.recordAppends(writes)
			return nil
		}
		results, onlyConditions := failedConditions(err, len(writes))
		if isApplied(writes, results) {
			s.recordAppends(writes)
			return nil
		}
		if onlyConditions {
			return s.conditionError(writes, results)
		}
		if !isContended(err) || attempt == maxContendedTries {
			return unavailableError(ctx, "committing", err)
		}
		// Full jitter keeps colliding writers from colliding again.
		timer := time.NewTimer(rand.N(pause))
		pause *= 2
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return unavailableError(ctx, "committing", err)
		}
	}
}

func (s *Store) checkPredecessors(ctx context.Context, writes []store.Write) error {
	for i, w := range writes {
		a, ok := w.(store.Append)
		if !ok || s.knownTips.isKnown(a.Stream, a.Position-1) {
			continue
		}
		predecessor, err := s.getRow(ctx, a.Stream, a.Position-1)
		if err != nil {
			return err
		}
		if predecessor.Position == 0 {
			return s.predecessorError(ctx, writes[:i], a)
		}
	}
	return nil
}

// predecessorError returns the error for an append whose predecessor is missing. The error of an
// earlier append of the commit takes precedence.
func (s *Store) predecessorError(ctx context.Context, earlierWrites []store.Write, a store.Append) error {
	for _, w := range earlierWrites {
		earlier, ok := w.(store.Append)
		if !ok {
			continue
		}
		occupant, err := s.getRow(ctx, earlier.Stream, earlier.Position)
		if err != nil {
			return err
		}
		if occupant.Position > 0 {
			return &store.TakenError{Stream: earlier.Stream, Position: earlier.Position, Occupant: occupant}
		}
	}
	return &store.TakenError{Stream: a.Stream, Position: a.Position}
}

func (s *Store) recordAppends(writes []store.Write) {
	for _, w := range writes {
		if a, ok := w.(store.Append); ok {
			s.knownTips.record(a.Stream, a.Position)
		}
	}
}

func (s *Store) sendSingle(ctx context.Context, a types.TransactWriteItem) error {
	var err error
	switch {
	case a.Put != nil:
		_, err = s.client.PutItem(ctx, &dynamodb.PutItemInput{
			TableName:                           a.Put.TableName,
			Item:                                a.Put.Item,
			ConditionExpression:                 a.Put.ConditionExpression,
			ExpressionAttributeValues:           a.Put.ExpressionAttributeValues,
			ReturnValuesOnConditionCheckFailure: a.Put.ReturnValuesOnConditionCheckFailure,
		})
	case a.Delete != nil:
		_, err = s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
			TableName:                           a.Delete.TableName,
			Key:                                 a.Delete.Key,
			ConditionExpression:                 a.Delete.ConditionExpression,
			ExpressionAttributeValues:           a.Delete.ExpressionAttributeValues,
			ReturnValuesOnConditionCheckFailure: a.Delete.ReturnValuesOnConditionCheckFailure,
		})
	default:
		// store.CheckWrites rejects a commit that consists of one Add.
		err = errors.New("an Add needs an Append or a Put in its commit")
	}
	return err
}

func (s *Store) transact(ctx context.Context, actions []types.TransactWriteItem, token string) error {
	in := &dynamodb.TransactWriteItemsInput{TransactItems: actions}
	if token != "" {
		in.ClientRequestToken = &token
	}
	_, err := s.client.TransactWriteItems(ctx, in)
	return err
}

func actionSize(a types.TransactWriteItem) int {
	switch {
	case a.Put != nil:
		return ItemSize(a.Put.Item)
	case a.Update != nil:
		return ItemSize(a.Update.Key) + ItemSize(a.Update.ExpressionAttributeValues)
	}
	return ItemSize(a.Delete.Key)
}
