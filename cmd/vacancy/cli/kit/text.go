package kit

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// PaintedText is a string with escape sequences for colours. It is printed unchanged.
type PaintedText string

func cellText(value any) string {
	if p, ok := value.(PaintedText); ok {
		return string(p)
	}
	return EscapeLine(fmt.Sprint(value))
}

func FormatIf(condition bool, format string, args ...any) string {
	if !condition {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

func JoinNonEmpty(separator string, texts ...string) string {
	isEmpty := func(text string) bool { return text == "" }
	return strings.Join(slices.DeleteFunc(slices.Clone(texts), isEmpty), separator)
}

// PrintFields writes a line for each pair of a label and a value, and for each element of a
// []string. It omits empty values.
func PrintFields(w io.Writer, labelsAndValues ...any) {
	for i := 0; i < len(labelsAndValues); i += 2 {
		values, isList := labelsAndValues[i+1].([]string)
		if !isList {
			values = []string{cellText(labelsAndValues[i+1])}
		}
		for _, value := range values {
			if isList {
				value = EscapeLine(value)
			}
			if value != "" {
				fmt.Fprintf(w, "  %-11s %s\n", labelsAndValues[i], value)
			}
		}
	}
}

func PrintTable[T any](w io.Writer, emptyText string, items []T, row func(T) []any) {
	rows := make([][]any, len(items))
	for i, item := range items {
		rows[i] = row(item)
	}
	for _, line := range FormatColumns(rows...) {
		fmt.Fprintln(w, line)
	}
	if len(items) == 0 {
		fmt.Fprintln(w, emptyText)
	}
}

// FormatColumns formats rows of cells in columns. It aligns numbers right.
func FormatColumns(rows ...[]any) []string {
	var widths []int
	var alignRight []bool
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths, alignRight = append(widths, 0), append(alignRight, false)
			}
			widths[i] = max(widths[i], visibleWidth(cellText(cell)))
			alignRight[i] = alignRight[i] || reflect.TypeOf(cell).ConvertibleTo(reflect.TypeFor[int64]())
		}
	}
	lines := make([]string, len(rows))
	for n, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			text := cellText(cell)
			padding := strings.Repeat(" ", widths[i]-visibleWidth(text))
			if alignRight[i] {
				text, padding = padding+text, ""
			}
			line.WriteString(text + padding + "  ")
		}
		lines[n] = strings.TrimRight(line.String(), " ")
	}
	return lines
}

func visibleWidth(text string) (n int) {
	for len(text) > 0 {
		size := escapeLength(text)
		if size == 0 {
			_, size = utf8.DecodeRuneInString(text)
			n++
		}
		text = text[size:]
	}
	return n
}
