package dynamo

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/vacancy-host/vacancy/shared/store"
)

const writeUnitBytes = 1 << 10

// ItemSize returns the size by which DynamoDB charges and limits an item (Developer Guide,
// "DynamoDB item sizes and formats").
func ItemSize(it map[string]types.AttributeValue) int {
	size := 0
	for name, value := range it {
		size += len(name) + valueSize(value)
	}
	return size
}

// WriteUnits returns the cost of writing items of the given sizes in one commit, without index
// entries. A transaction costs twice as much as single writes.
func WriteUnits(sizes ...int) int {
	units := 0
	for _, size := range sizes {
		units += max(1, (size+writeUnitBytes-1)/writeUnitBytes)
	}
	if len(sizes) > 1 {
		units *= 2
	}
	return units
}

func RowSize(a store.Append) int { return ItemSize(rowItem(a)) }

// A list or map takes 3 bytes and 1 byte for each element.
const (
	containerSize = 3
	elementSize   = 1
)

func valueSize(v types.AttributeValue) int {
	size := 0
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		size = len(v.Value)
	case *types.AttributeValueMemberB:
		size = len(v.Value)
	case *types.AttributeValueMemberN:
		size = numberSize(v.Value)
	case *types.AttributeValueMemberBOOL, *types.AttributeValueMemberNULL:
		size = 1
	case *types.AttributeValueMemberSS:
		for _, s := range v.Value {
			size += len(s)
		}
	case *types.AttributeValueMemberBS:
		for _, b := range v.Value {
			size += len(b)
		}
	case *types.AttributeValueMemberNS:
		for _, n := range v.Value {
			size += numberSize(n)
		}
	case *types.AttributeValueMemberL:
		size = containerSize
		for _, element := range v.Value {
			size += elementSize + valueSize(element)
		}
	case *types.AttributeValueMemberM:
		size = containerSize
		for name, element := range v.Value {
			size += elementSize + len(name) + valueSize(element)
		}
	}
	return size
}

// numberSize returns the size of a number: one byte per pair of digits, one more byte, and one for
// a minus sign. Leading and trailing zero pairs are free.
func numberSize(n string) int {
	digits, negative := strings.CutPrefix(n, "-")
	whole, fraction, _ := strings.Cut(digits, ".")
	if len(whole)%2 == 1 {
		whole = "0" + whole
	}
	if len(fraction)%2 == 1 {
		fraction += "0"
	}
	pairs := whole + fraction
	for strings.HasPrefix(pairs, "00") {
		pairs = pairs[2:]
	}
	for strings.HasSuffix(pairs, "00") {
		pairs = pairs[:len(pairs)-2]
	}
	size := len(pairs)/2 + 1
	if negative {
		size++
	}
	return size
}
