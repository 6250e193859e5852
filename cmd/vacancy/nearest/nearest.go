// Package nearest suggests a known name for a mistyped word.
package nearest

import "strings"

// Name returns the most similar name. At most two letters may differ, or one if word has up to four
// letters. Otherwise Name returns "".
func Name(word string, names []string) string {
	maxDistance := 2
	if len(word) <= 4 {
		maxDistance = 1
	}
	bestName, lowestRank := "", 2*maxDistance+2
	for _, name := range names {
		d := editDistance(strings.ToLower(word), strings.ToLower(name))
		if d > maxDistance || d >= len(name) {
			continue
		}
		rank := 2 * d
		if len(name) != len(word) {
			rank++ // modle more likely means model than mode
		}
		if rank < lowestRank {
			bestName, lowestRank = name, rank
		}
	}
	return bestName
}

func editDistance(a, b string) int {
	beforeLastRow, lastRow := []int(nil), make([]int, len(b)+1)
	for j := range lastRow {
		lastRow[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(row[j]+1, lastRow[j+1]+1, lastRow[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], beforeLastRow[j-1]+1)
			}
		}
		beforeLastRow, lastRow = lastRow, row
	}
	return lastRow[len(b)]
}
