//go:build unix

package kills

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
)

// item is the key of an item in DynamoDB's form.
type item struct {
	PK struct{ B, S string } `json:"pk"`
}

// kind returns the kind of a stream or of a document, as calltest.Op names it.
func (i item) kind() string {
	name := i.PK.S
	if b, err := base64.StdEncoding.DecodeString(i.PK.B); err == nil && len(b) > 0 {
		name = string(b)
	}
	kind, _, _ := strings.Cut(name, "#")
	return kind
}

// callOf is the store call behind a request to DynamoDB, named as calltest.Op
// names it, so that both targets share one table.
func callOf(operation string, body []byte) string {
	var in struct {
		Key, Item                 item
		KeyConditionExpression    string
		ExpressionAttributeValues map[string]struct{ B, S string }
		TransactItems             []struct{ Put, Delete, Update struct{ Item, Key item } }
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return operation + " " + err.Error()
	}
	switch operation {
	case "GetItem":
		return "Doc " + in.Key.kind()
	case "PutItem":
		return "Commit " + in.Item.kind()
	case "DeleteItem":
		return "Commit " + in.Key.kind()
	case "Query":
		var of item
		of.PK = in.ExpressionAttributeValues[":s"]
		switch {
		case of.PK.B == "":
			of.PK = in.ExpressionAttributeValues[":p"]
			return "Docs " + of.kind()
		case strings.Contains(in.KeyConditionExpression, ":from"):
			return "Rows " + of.kind()
		}
		return "Tip " + of.kind()
	case "TransactWriteItems":
		if len(in.TransactItems) > 0 {
			first := in.TransactItems[0]
			return "Commit " + first.Put.Item.kind() + first.Delete.Key.kind() + first.Update.Key.kind()
		}
	}
	return operation // no store call of the pipeline: no row of the table fits
}

func TestRequestsToDynamoDBAreNamedAsTheirCalls(t *testing.T) {
	const req = "cmVxIwEC" // req#, 1, 2
	for _, tt := range []struct{ operation, body, want string }{
		{"GetItem", `{"Key":{"pk":{"S":"v#ab"},"sk":{"S":"record"}}}`, "Doc v"},
		{"GetItem", `{"Key":{"pk":{"S":"textkey"},"sk":{"S":"2026-01-01"}}}`, "Doc textkey"},
		{"PutItem", `{"Item":{"pk":{"B":"` + req + `"},"sk":{"N":"1"}}}`, "Commit req"},
		{"DeleteItem", `{"Key":{"pk":{"S":"bookdue#2026"},"sk":{"S":"1"}}}`, "Commit bookdue"},
		{"Query", `{"KeyConditionExpression":"pk = :s","ExpressionAttributeValues":{":s":{"B":"` + req + `"}}}`, "Tip req"},
		{"Query", `{"KeyConditionExpression":"pk = :s AND sk >= :from","ExpressionAttributeValues":{":s":{"B":"` + req + `"},":from":{"N":"1"}}}`, "Rows req"},
		{"Query", `{"KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":"name"}}}`, "Docs name"},
		{"TransactWriteItems", `{"TransactItems":[{"Put":{"Item":{"pk":{"B":"` + req + `"}}}},{"Put":{"Item":{"pk":{"S":"v#ab"}}}}]}`, "Commit req"},
		{"Scan", `{}`, "Scan"},
	} {
		if got := callOf(tt.operation, []byte(tt.body)); got != tt.want {
			t.Errorf("callOf(%s, %s) = %q, want %q", tt.operation, tt.body, got, tt.want)
		}
	}
}
