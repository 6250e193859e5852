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

// returnOld makes a failed condition return the existing item. Its WriteID distinguishes a lost
// acknowledgement from a lost race, without a second read that could see a later state.
const returnOld = types.ReturnValuesOnConditionCheckFailureAllOld

func (s *Store) actionOf(w store.Write) types.TransactWriteItem {
	switch w := w.(type) {
	case store.Append:
		return types.TransactWriteItem{Put: &types.Put{
			TableName:                           &s.tables.Rows,
			Item:                                rowItem(w),
			ConditionExpression:                 aws.String("attribute_not_exists(pk)"),
			ReturnValuesOnConditionCheckFailure: returnOld,
		}}
	case store.Put:
		put := &types.Put{
			TableName:                           &s.tables.Docs,
			Item:                                docItem(w),
			ConditionExpression:                 aws.String("attribute_not_exists(pk)"),
			ReturnValuesOnConditionCheckFailure: returnOld,
		}
		if w.IfVersion > 0 {
			put.ConditionExpression = aws.String("v = :if")
			put.ExpressionAttributeValues = item{":if": num(w.IfVersion)}
		}
		return types.TransactWriteItem{Put: put}
	case store.Delete:
		return types.TransactWriteItem{Delete: &types.Delete{
			TableName:                           &s.tables.Docs,
			Key:                                 docItemKey(w.Key),
			ConditionExpression:                 aws.String("attribute_not_exists(pk) OR v = :if"),
			ExpressionAttributeValues:           item{":if": num(w.If)},
			ReturnValuesOnConditionCheckFailure: returnOld,
		}}
	case store.Add:
		return types.TransactWriteItem{Update: s.update(w)}
	}
	return types.TransactWriteItem{}
}

// update converts an Add. DynamoDB evaluates conditions before the update, so the bounds are Min -
// Delta and Max - Delta, which need more than 64 bits.
func (s *Store) update(a store.Add) *types.Update {
	delta := big.NewInt(a.Delta)
	least := new(big.Int).Sub(big.NewInt(a.Min), delta)
	greatest := new(big.Int).Sub(big.NewInt(a.Max), delta)
	condition := "n BETWEEN :least AND :most"
	if least.Sign() <= 0 && greatest.Sign() >= 0 {
		condition = "attribute_not_exists(n) OR " + condition // a missing number means 0
	}
	set := "SET v = if_not_exists(v, :none) + :one, n = if_not_exists(n, :none) + :delta"
	values := item{":none": num(0), ":one": num(1), ":delta": numText(delta.String()),
		":least": numText(least.String()), ":most": numText(greatest.String())}
	if !a.Expires.IsZero() {
		set += ", t = if_not_exists(t, :expires)"
		values[":expires"] = num(uint64(a.Expires.Unix()))
	}
	return &types.Update{
		TableName:                           &s.tables.Docs,
		Key:                                 docItemKey(a.Key),
		UpdateExpression:                    &set,
		ConditionExpression:                 &condition,
		ExpressionAttributeValues:           values,
		ReturnValuesOnConditionCheckFailure: returnOld,
	}
}

// token returns a client request token that identifies a transaction by its content. DynamoDB
// applies a token only once within ten minutes and rejects it with different content. Because the
// token is a digest of all writes, different commits with the same WriteID have different tokens, and
// their conditions decide whether they are applied.
func token(writes []store.Write) string {
	h, hasWriteID := sha256.New(), false
	part := func(kind byte, texts ...string) {
		h.Write([]byte{kind})
		for _, t := range texts {
			h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(t))))
			h.Write([]byte(t))
		}
	}
	for _, w := range writes {
		switch w := w.(type) {
		case store.Append:
			hasWriteID = true
			part('a', string(w.Stream), string(w.WriteID[:]), fmt.Sprint(w.Position), string(w.Data))
		case store.Put:
			hasWriteID = true
			part('p', w.Key.Partition, w.Key.Sort, string(w.WriteID[:]), fmt.Sprint(w.IfVersion, w.Number),
				string(w.Data), w.Index.Partition, w.Index.Sort, fmt.Sprint(w.Expires.Unix()))
		case store.Delete:
			part('d', w.Key.Partition, w.Key.Sort, fmt.Sprint(w.If))
		case store.Add:
			part('n', w.Key.Partition, w.Key.Sort, fmt.Sprint(w.Delta, w.Min, w.Max, w.Expires.Unix()))
		}
	}
	if !hasWriteID {
		// If documents are deleted, created again and deleted at the same versions, the second
		// deletion would have the token of the first, and DynamoDB would not apply it.
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:24]) // at most 36 characters
}
