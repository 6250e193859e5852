package kit

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

func FieldText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

var (
	firstFields  = []string{"calls", "pair", "seq", "state", "status", "verdict", "ms", "trips", "wcu", "rcu", "kms", "cold", "cause", "error"}
	hiddenFields = []string{"time", "level", "msg", "stage", "function", "version", "_aws", "refused", "failed", "trace", "request"}
)

func VisibleFields(fields map[string]any) []string {
	var names []string
	for _, name := range firstFields {
		// "calls" is 1 unless the line summarizes several calls.
		if _, ok := fields[name]; ok && (name != "calls" || FieldText(fields[name]) != "1") {
			names = append(names, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(firstFields, name) && !slices.Contains(hiddenFields, name) {
			names = append(names, name)
		}
	}
	return names
}
