package loop

import (
	"encoding/json"
	"strings"

	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

const codeFence = "```"

func extractJSON(text string) (document string, ok bool) {
	if json.Valid([]byte(text)) {
		return text, true
	}
	text = trimBlank(text)
	if thoughts, isThinking := strings.CutPrefix(text, "<think>"); isThinking {
		if _, after, closed := strings.Cut(thoughts, "</think>"); closed {
			text = trimBlank(after)
		}
	}
	if block, isFenced := strings.CutPrefix(text, codeFence); isFenced {
		_, block, _ = strings.Cut(block, "\n")
		if block, isFenced = strings.CutSuffix(block, codeFence); isFenced {
			text = trimBlank(block)
		}
	}
	return text, json.Valid([]byte(text))
}

func trimBlank(text string) string {
	return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), canon.ByteOrderMark))
}
