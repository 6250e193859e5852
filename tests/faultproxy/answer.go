package faultproxy

import (
	"encoding/json"
	"hash/crc32"
	"net/http"
	"strconv"
)

// answer is the response to a client.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) write(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // a disconnected client needs no answer
}

// reason is one cancellation reason of a transaction.
type reason struct {
	Code    string
	Message string `json:",omitempty"`
}

// refuse renders the service's own refusal of a request, in its protocol (AWS
// JSON 1.0).
func refuse(f Fault, r request) answer {
	status := http.StatusBadRequest
	body := map[string]any{"message": "injected by the fault proxy"}
	var kind string
	switch f {
	case Throttle:
		kind = "com.amazon.coral.availability#ThrottlingException"
		throttled(body, "throttlingReasons")
	case Exceed:
		kind = "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"
		throttled(body, "ThrottlingReasons")
	case Conflict:
		kind = "com.amazonaws.dynamodb.v20120810#TransactionConflictException"
		if n := actions(r.body); n > 0 {
			// In a transaction, the last item is the one in conflict.
			kind = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException"
			reasons := make([]reason, n)
			for i := range reasons {
				reasons[i].Code = "None"
			}
			reasons[n-1] = reason{"TransactionConflict", "Transaction is ongoing for the item"}
			body["CancellationReasons"] = reasons
		}
	default:
		kind, status = "com.amazonaws.dynamodb.v20120810#InternalServerError", http.StatusInternalServerError
	}
	body["__type"] = kind
	text, err := json.Marshal(body)
	if err != nil {
		return answer{status: http.StatusInternalServerError}
	}
	header := http.Header{}
	header.Set("Content-Type", "application/x-amz-json-1.0")
	header.Set("X-Amzn-Requestid", "0123456789ABCDEFGHIJKLMNOPQRSTUV0123456789ABCDEFGHIJ")
	header.Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(text)), 10))
	return answer{status: status, header: header, body: text}
}

// throttled renders the service's answer above a table's throughput limit. Its
// exceptions name the member with the reasons differently.
func throttled(body map[string]any, reasons string) {
	const why, table = "TableWriteMaxOnDemandThroughputExceeded", "arn:aws:dynamodb:us-east-1:123456789012:table/vacancy-dev-data-Rows1234ABCD-1A2B3C4D5E6F"
	body["message"] = "Throughput exceeds the maximum OnDemandThroughput configured on table or index (reason: " + why + " for resource " + table + ")"
	body[reasons] = []map[string]string{{"reason": why, "resource": table}}
}

// actions returns the number of actions of a transaction; 0 for other requests.
func actions(body []byte) int {
	var in struct{ TransactItems []json.RawMessage }
	if err := json.Unmarshal(body, &in); err != nil {
		return 0
	}
	return len(in.TransactItems)
}

// withoutToken removes a transaction's token. DynamoDB remembers a token for
// ten minutes and then treats the request as new.
func withoutToken(body []byte) []byte {
	var in map[string]json.RawMessage
	if err := json.Unmarshal(body, &in); err != nil {
		return body
	}
	delete(in, "ClientRequestToken")
	out, err := json.Marshal(in)
	if err != nil {
		return body
	}
	return out
}
