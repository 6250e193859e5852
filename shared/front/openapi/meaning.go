package openapi

import (
	"regexp"
	"strings"
	"unicode"

	"github.com/vacancy-host/vacancy/shared/front/op"
)

var (
	// The words of an operation's Doc before clauseEnd become the operation's id.
	clauseEnd = regexp.MustCompile(`[,;:]| \(`)
	// esEnding matches third-person verbs that end in "es" instead of "s".
	esEnding = regexp.MustCompile(`(ss|sh|ch|x)es$`)
)

// operationIDs derives the id of each operation from the first words of its Doc, for example
// askVacant from "asks a vacant (OpenAI)". If an account's and the operator's operation have the
// same words, the operator's id ends with AsOperator.
func operationIDs(specs []op.Spec) []string {
	ids, count := make([]string, len(specs)), map[string]int{}
	for i := range specs {
		ids[i] = operationID(specs[i].Doc)
		count[ids[i]]++
	}
	for i := range specs {
		if count[ids[i]] > 1 && strings.HasPrefix(specs[i].Path, "/v1/admin/") {
			ids[i] += "AsOperator"
		}
	}
	return ids
}

func operationID(doc string) string {
	var id strings.Builder
	for i, word := range strings.Fields(clauseEnd.Split(doc, 2)[0]) {
		word = strings.Map(func(c rune) rune {
			if unicode.IsLetter(c) || unicode.IsDigit(c) {
				return c
			}
			return -1
		}, strings.TrimSuffix(word, "'s"))
		switch {
		case word == "", word == "a", word == "an", word == "the", word == "its":
		case i > 0:
			id.WriteString(strings.ToUpper(word[:1]) + word[1:])
		case esEnding.MatchString(word):
			id.WriteString(strings.TrimSuffix(word, "es"))
		case strings.HasSuffix(word, "ies"):
			id.WriteString(strings.TrimSuffix(word, "ies") + "y")
		default:
			id.WriteString(strings.TrimSuffix(word, "s"))
		}
	}
	return id.String()
}

var parameterDocs = map[string]string{
	"A2A-Version":          "Version of A2A. The default is 1.0.",
	"Accept":               "Media types that the client accepts.",
	"Idempotency-Key":      "Key of the request, chosen by the client. A repeated request with the same key has no further effect.",
	"If-Match":             "ETag that the file must have, or * if it must exist. Without If-Match, PUT only creates a file.",
	"If-None-Match":        "ETag of the file that the client has.",
	"Last-Event-ID":        "Id of the last event that the client has received. The answer contains the events after it.",
	"Mcp-Protocol-Version": "Revision of MCP.",
	"Vacancy-Max-Price":    "Maximum cost of the call, in micro-dollars.",
	"account":              "Id of an account, or name of its tenant.",
	"agent":                "Name of an agent, or id of its vacant.",
	"after":                "Expected number of the current version. If another version is current, the answer is 409. If the parameter is missing, any version is replaced.",
	"all":                  "Whether to list deleted vacants, too.",
	"by":                   "Grouping of the sums, such as day.",
	"caller":               "Id of the caller.",
	"capability":           "Part of a capability.",
	"challenge":            "Bytes that the host signs, as a proof of its identity.",
	"config":               "Id of a push configuration.",
	"context":              "Name of the conversation that the text continues.",
	"contextId":            "Id of the conversation of the tasks.",
	"cursor":               "Cursor from the previous page, to get the next page.",
	"depth":                "Number of generations.",
	"direction":            "Ancestors or descendants.",
	"family":               "Family of models.",
	"first":                "First sort key.",
	"from":                 "First position, size, time or caller of the answer.",
	"from_seq":             "Number of the first event.",
	"head":                 "Number of rows from the beginning of the stream to show in addition.",
	"historyLength":        "Maximum number of messages of a task's history.",
	"id":                   "Id, or the beginning of one.",
	"includeArtifacts":     "Whether to show the artifacts of tasks.",
	"include_local":        "Ignored.",
	"index":                "Index that lists the keys.",
	"key":                  "Id of a key.",
	"last":                 "Last sort key, or number of entries at the end to show.",
	"lease":                "Lease of a turn.",
	"limit":                "Maximum number of entries in a page.",
	"max_price":            "Maximum cost of a call, in micro-dollars.",
	"min_reputation":       "Minimum reputation.",
	"model":                "Name or id of a vacant.",
	"month":                "Month, such as 2026-01.",
	"n":                    "Number of an epoch.",
	"name":                 "Name that the path is about.",
	"only":                 "Whether to revoke only this key, and keep the keys and links that it created.",
	"order":                "Order of the rows.",
	"own":                  "Id of the reader's own identity, if from is its name.",
	"pageSize":             "Maximum number of tasks in a page.",
	"pageToken":            "Token from the previous page, to get the next page.",
	"partition":            "Partition key.",
	"path":                 "Path of a file in its workspace, with slashes between folders.",
	"position":             "Position of the row.",
	"prefix":               "Beginning of the names or paths.",
	"q":                    "Words to find.",
	"seq":                  "Number of an event.",
	"size":                 "Size of the log. The default is the newest size.",
	"sort":                 "Sort key.",
	"state":                "State of the tasks: pending, working, input_required, completed, cancelled or failed.",
	"status":               "State of the tasks.",
	"statusTimestampAfter": "Time after which the state of the tasks changed.",
	"stream":               "Name of a stream.",
	"subject":              "Subject of tokens.",
	"tag":                  "Tag of a listing.",
	"tenant":               "Name of a tenant. If it is missing, the operation applies to the host itself.",
	"to":                   "Size at which the proof ends, or vacant of the pair.",
	"until":                "UTC day or hour at which the usage ends.",
	"vacant":               "Name or id of a vacant.",
	"venue":                "Slug or id of a venue.",
	"version":              "Number of a version. The default is the current version.",
	"steps":                "Whether to return the thoughts and tool calls, too. The agent must be the caller's own.",
	"workspace":            "Name of a workspace.",
	"wait":                 "Longest time to wait for the end of the turn, 0 to 20 seconds.",
}
