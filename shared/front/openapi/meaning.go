package openapi

import (
	"regexp"
	"strings"
	"unicode"

	"github.com/vacancy-host/vacancy/shared/front/op"
)

var (
	// clause matches the end of the first words of an operation's Doc, which become the operation's
	// id.
	clause = regexp.MustCompile(`[,;:]| \(`)
	// ending matches third-person verbs that end in "es" instead of "s".
	ending = regexp.MustCompile(`(ss|sh|ch|x)es$`)
)

// operationIDs derives the id of each operation from the first words of its Doc, for example
// askVacant from "asks a vacant (OpenAI)". If several operations would get the same id, because one
// is for the operator and another for accounts, the operator's id ends with AsOperator.
func operationIDs(specs []op.Spec) []string {
	ids, count := make([]string, len(specs)), map[string]int{}
	for i := range specs {
		ids[i] = idOf(specs[i].Doc)
		count[ids[i]]++
	}
	for i := range specs {
		if count[ids[i]] > 1 && strings.HasPrefix(specs[i].Path, "/v1/admin/") {
			ids[i] += "AsOperator"
		}
	}
	return ids
}

func idOf(doc string) string {
	var id strings.Builder
	for i, word := range strings.Fields(clause.Split(doc, 2)[0]) {
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
		case ending.MatchString(word):
			id.WriteString(strings.TrimSuffix(word, "es"))
		case strings.HasSuffix(word, "ies"):
			id.WriteString(strings.TrimSuffix(word, "ies") + "y")
		default:
			id.WriteString(strings.TrimSuffix(word, "s"))
		}
	}
	return id.String()
}

// parameters maps parameter names to descriptions.
var parameters = map[string]string{
	"A2A-Version":          "Version of A2A. Without one it is 1.0.",
	"Accept":               "Media types that the client accepts.",
	"Idempotency-Key":      "Key of the request, chosen by the client. A repeated request with the same key has no further effect.",
	"If-Match":             "ETag that the file must have, or * if it must exist. Without one, PUT only creates a file.",
	"If-None-Match":        "ETag of the file that the client has.",
	"Last-Event-ID":        "Id of the last event that the client has. The events after it follow.",
	"Mcp-Protocol-Version": "Revision of MCP.",
	"Vacancy-Max-Price":    "The most that the call may cost, in micro-dollars.",
	"account":              "Id of an account, or name of its tenant.",
	"agent":                "Name of an agent, or id of its vacant.",
	"after":                "Number of the version before the new one. If another one is current, the answer is 409. Without it any is replaced.",
	"all":                  "Whether to list also deleted vacants.",
	"by":                   "What the sums are split by, such as day.",
	"caller":               "Id of the caller.",
	"capability":           "Part of a capability.",
	"challenge":            "Bytes that the host signs, as a proof of its identity.",
	"config":               "Id of a push configuration.",
	"context":              "Name of the conversation that the text continues.",
	"contextId":            "Id of the conversation of the tasks.",
	"cursor":               "Cursor of the page before, to continue after it.",
	"depth":                "Number of generations.",
	"direction":            "Ancestors or descendants.",
	"family":               "Family of models.",
	"first":                "First sort key.",
	"from":                 "Position, size, time or caller with which the answer begins.",
	"from_seq":             "Number of the first event.",
	"head":                 "Number of the stream's first rows to show, too.",
	"historyLength":        "The most messages of a task's history to show.",
	"id":                   "Id, or the beginning of one.",
	"includeArtifacts":     "Whether to show the artifacts of tasks.",
	"include_local":        "Is ignored.",
	"index":                "Index that lists the keys.",
	"key":                  "Id of a key.",
	"last":                 "Last sort key, or number of entries at the end to show.",
	"lease":                "Lease of a turn.",
	"limit":                "The most entries of a page.",
	"max_price":            "The most that a call may cost, in micro-dollars.",
	"min_reputation":       "The least reputation.",
	"model":                "Name or id of a vacant.",
	"month":                "Month, such as 2026-01.",
	"n":                    "Number of an epoch.",
	"name":                 "Name of what the path names.",
	"only":                 "Whether the keys and links that the key made do not end.",
	"order":                "Order of the rows.",
	"own":                  "Id of the reader's identity that from names.",
	"pageSize":             "The most tasks of a page.",
	"pageToken":            "Token of the page before, to continue after it.",
	"partition":            "Partition key.",
	"path":                 "Path of a file in its workspace, with slashes between folders.",
	"position":             "Position of the row.",
	"prefix":               "Beginning of the names or paths.",
	"q":                    "Words to find.",
	"seq":                  "Number of an event.",
	"size":                 "Size of the log. Without one it is the newest.",
	"sort":                 "Sort key.",
	"state":                "State of the tasks: pending, working, input_required, completed, cancelled or failed.",
	"status":               "State of the tasks.",
	"statusTimestampAfter": "Time after which the state of the tasks changed.",
	"stream":               "Name of a stream.",
	"subject":              "Subject of tokens.",
	"tag":                  "Tag of a listing.",
	"tenant":               "Name of a tenant. Without one the operation is about the host itself.",
	"to":                   "Size at which the proof ends, or vacant of the pair.",
	"until":                "UTC day or hour with which the usage ends.",
	"vacant":               "Name or id of a vacant.",
	"venue":                "Slug or id of a venue.",
	"version":              "Number of a version. Without one it is the current version.",
	"steps":                "Also return the thoughts and the calls of tools, of an agent of the caller's own.",
	"workspace":            "Name of a workspace.",
	"wait":                 "Longest time to wait for the end of the turn, 0 to 20 seconds.",
}
