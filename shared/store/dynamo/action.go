package dynamo

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/big"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/vacancy-host/vacancy/shared/store"
)

// returnExisting makes a failed condition return the existing item, whose WriteID shows whether an
// earlier try was applied. A separate read could come too late, because another writer may change
// the item.
const returnExisting = types.ReturnValuesOnConditionCheckFailureAllOld

func (s *Store) newAction(w store.Write) types.TransactWriteItem {
	switch w := w.(type) {
	case store.Append:
		return types.TransactWriteItem{Put: &types.Put{
			TableName:                           &s.tables.Rows,
			Item:                                rowItem(w),
			ConditionExpression:                 aws.String("attribute_not_exists(pk)"),
			ReturnValuesOnConditionCheckFailure: returnExisting,
		}}
	case store.Put:
		put := &types.Put{
			TableName:                           &s.tables.Docs,
			Item:                                docItem(w),
			ConditionExpression:                 aws.String("attribute_not_exists(pk)"),
			ReturnValuesOnConditionCheckFailure: returnExisting,
		}
		if w.IfVersion > 0 {
			put.ConditionExpression = aws.String("v = :if")
			put.ExpressionAttributeValues = item{":if": uintValue(w.IfVersion)}
		}
		return types.TransactWriteItem{Put: put}
	case store.Delete:
		return types.TransactWriteItem{Delete: &types.Delete{
			TableName:                           &s.tables.Docs,
			Key:                                 docItemKey(w.Key),
			ConditionExpression:                 aws.String("attribute_not_exists(pk) OR v = :if"),
			ExpressionAttributeValues:           item{":if": uintValue(w.IfVersion)},
			ReturnValuesOnConditionCheckFailure: returnExisting,
		}}
	case store.Add:
		return types.TransactWriteItem{Update: s.newUpdate(w)}
	}
	return types.TransactWriteItem{}
}

// newUpdate converts an Add. DynamoDB evaluates conditions before the update, so the bounds are
// Min-Delta and Max-Delta, which need more than 64 bits.
func (s *Store) newUpdate(a store.Add) *types.Update {
	delta := big.NewInt(a.Delta)
	minBefore := new(big.Int).Sub(big.NewInt(a.Min), delta)
	maxBefore := new(big.Int).Sub(big.NewInt(a.Max), delta)
	condition := "n BETWEEN :least AND :most"
	if minBefore.Sign() <= 0 && maxBefore.Sign() >= 0 {
		condition = "attribute_not_exists(n) OR " + condition // a missing number means 0
	}
	expression := "SET v = if_not_exists(v, :none) + :one, n = if_not_exists(n, :none) + :delta"
	values := item{":none": uintValue(0), ":one": uintValue(1), ":delta": numberValue(delta.String()),
		":least": numberValue(minBefore.String()), ":most": numberValue(maxBefore.String())}
	if !a.Expires.IsZero() {
		expression += ", t = if_not_exists(t, :expires)"
		values[":expires"] = uintValue(uint64(a.Expires.Unix()))
	}
	return &types.Update{
		TableName:                           &s.tables.Docs,
		Key:                                 docItemKey(a.Key),
		UpdateExpression:                    &expression,
		ConditionExpression:                 &condition,
		ExpressionAttributeValues:           values,
		ReturnValuesOnConditionCheckFailure: returnExisting,
	}
}

// requestToken returns a token that identifies a transaction by its content. DynamoDB does not
// apply a transaction again if it receives the same token within ten minutes.
func requestToken(writes []store.Write) string {
	h, hasWriteID := sha256.New(), false
	hashPart := func(kind byte, values ...string) {
		h.Write([]byte{kind})
		for _, t := range values {
			h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(t))))
			h.Write([]byte(t))
		}
	}
	for _, w := range writes {
		switch w := w.(type) {
		case store.Append:
			hasWriteID = true
			hashPart('a', string(w.Stream), string(w.WriteID[:]), fmt.Sprint(w.Position), string(w.Data))
		case store.Put:
			hasWriteID = true
			hashPart('p', w.Key.Partition, w.Key.Sort, string(w.WriteID[:]), fmt.Sprint(w.IfVersion, w.Number),
				string(w.Data), w.Index.Partition, w.Index.Sort, fmt.Sprint(w.Expires.Unix()))
		case store.Delete:
			hashPart('d', w.Key.Partition, w.Key.Sort, fmt.Sprint(w.IfVersion))
		case store.Add:
			hashPart('n', w.Key.Partition, w.Key.Sort, fmt.Sprint(w.Delta, w.Min, w.Max, w.Expires.Unix()))
		}
	}
	if !hasWriteID {
		// A document may be deleted, created again, and deleted at the same version. Both deletions would
		// have the same token, so DynamoDB would not apply the second one.
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:24]) // 32 characters; DynamoDB allows 36
}
