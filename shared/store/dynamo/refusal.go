package dynamo

import (
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/vacancy-host/vacancy/shared/store"
)

type conditionResult struct {
	failed   bool
	existing item
}

// failedConditions extracts the failed conditions of n writes from err. If onlyConditions is true,
// err has no other reason.
func failedConditions(err error, n int) (results []conditionResult, onlyConditions bool) {
	if single, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok && n == 1 {
		return []conditionResult{{failed: true, existing: single.Item}}, true
	}
	canceled, ok := errors.AsType[*types.TransactionCanceledException](err)
	if !ok || len(canceled.CancellationReasons) != n {
		return nil, false
	}
	results = make([]conditionResult, n)
	conditionCount, otherCount := 0, 0
	for i, reason := range canceled.CancellationReasons {
		switch aws.ToString(reason.Code) {
		case "ConditionalCheckFailed":
			results[i] = conditionResult{failed: true, existing: reason.Item}
			conditionCount++
		case "None", "":
		default:
			otherCount++
		}
	}
	return results, conditionCount > 0 && otherCount == 0
}

// isApplied reports whether an existing row or document has the commit's WriteID. If so, an earlier
// try was applied completely.
func isApplied(writes []store.Write, results []conditionResult) bool {
	for i, result := range results {
		if result.existing[attrWriteID] == nil {
			continue
		}
		r := itemReader{item: result.existing}
		switch w := writes[i].(type) {
		case store.Append:
			if r.writeID() == w.WriteID {
				return true
			}
		case store.Put:
			if r.writeID() == w.WriteID {
				return true
			}
		}
	}
	return false
}

// conditionError returns the error that takes precedence according to store.Store.
func (s *Store) conditionError(writes []store.Write, results []conditionResult) error {
	var bounds, conflict error
	for i, result := range results {
		if !result.failed {
			continue
		}
		switch w := writes[i].(type) {
		case store.Append:
			occupant, err := parseRow(result.existing)
			if err != nil {
				return fmt.Errorf("the row at the position: %w", err)
			}
			s.knownTips.record(w.Stream, w.Position)
			return &store.TakenError{Stream: w.Stream, Position: w.Position, Occupant: occupant}
		case store.Add:
			if bounds == nil {
				bounds = boundsError(w, result.existing)
			}
		case store.Put:
			if conflict == nil {
				conflict = conflictError(w.Key, result.existing)
			}
		case store.Delete:
			if conflict == nil {
				conflict = conflictError(w.Key, result.existing)
			}
		}
	}
	if bounds != nil {
		return bounds
	}
	return conflict
}

func boundsError(a store.Add, existing item) error {
	r := itemReader{item: existing}
	e := &store.BoundsError{Key: a.Key}
	if r.has(attrNumber) {
		e.Number = r.int(attrNumber)
	}
	if r.err != nil {
		return fmt.Errorf("the number of %s: %w", a.Key, r.err)
	}
	return e
}

func conflictError(k store.Key, existing item) error {
	r := itemReader{item: existing}
	e := &store.ConflictError{Key: k}
	if existing != nil {
		e.Version = r.uint(attrVersion)
	}
	if r.err != nil {
		return fmt.Errorf("the version of %s: %w", k, r.err)
	}
	return e
}

// isContended reports whether a request failed because other requests use the same items or
// partition. A retry may succeed soon. The SDK has already retried other transient errors.
func isContended(err error) bool {
	if canceled, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		for _, reason := range canceled.CancellationReasons {
			switch aws.ToString(reason.Code) {
			case "TransactionConflict", "ProvisionedThroughputExceeded", "ThrottlingError":
				return true
			}
		}
		return false
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		switch api.ErrorCode() {
		case "TransactionConflictException", "TransactionInProgressException", "ReplicatedWriteConflictException":
			return true
		}
	}
	return false
}
