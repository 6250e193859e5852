package kit

import (
	"context"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Nearest is the name that a person may have meant by word: the one with the
// fewest changes of a letter, two at most; "" if none is near.
func Nearest(word string, names []string) string {
	best, least := "", 3
	for _, name := range names {
		if d := distance(strings.ToLower(word), strings.ToLower(name)); d < least && d < len(name) {
			best, least = name, d
		}
	}
	return best
}

// distance is the number of letters to insert, remove, replace or swap with the
// next to make b of a.
func distance(a, b string) int {
	before, last := []int(nil), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			change := 1
			if a[i] == b[j] {
				change = 0
			}
			row[j+1] = min(row[j]+1, last[j+1]+1, last[j]+change)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

// Show is admin.ShowVacant; for a name that nobody has the error suggests one that
// is near.
func (c *AdminAPI) Show(ctx context.Context, vacant string) (admin.Vacant, error) {
	v, err := admin.ShowVacant.Call(ctx, c, admin.One{Vacant: vacant})
	if !problem.Is(err, problem.NotFound) {
		return v, err
	}
	page, listErr := admin.ListVacants.Call(ctx, c, admin.VacantList{})
	if listErr != nil {
		return v, err
	}
	names := make([]string, len(page.Vacants))
	for i := range page.Vacants {
		names[i] = page.Vacants[i].Name
	}
	if near := Nearest(vacant, names); near != "" {
		return v, WithHint(err, "%s", near)
	}
	return v, WithHint(err, "vacancy list")
}
