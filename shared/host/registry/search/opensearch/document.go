package opensearch

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/host/registry/search"
)

// groups are the groups of words, as they are in the names of fields.
func groups() []string {
	all := make([]string, search.Groups)
	for g := range all {
		all[g] = strconv.Itoa(g)
	}
	return all
}

// document is what the cluster gets of an entry.
func document(e *search.Entry) object {
	d := object{
		fieldJoined: e.Joined,
		fieldPrice:  e.Price,
		fieldWeight: search.ScoreSteps + search.ScoreStep(e.Score),
	}
	set(d, fieldTexts, e.Texts())
	set(d, fieldTag, exactly(e.NormalTags()...))
	if e.Family != "" {
		set(d, fieldFamily, exactly(e.Family))
	}
	if e.ClaimedFamily != "" {
		set(d, fieldClaimed, exactly(e.ClaimedFamily))
	}
	terms := e.Terms()
	for g, name := range groups() {
		set(d, fieldWords+name, terms[g])
		var runs []string
		for _, w := range terms[g] {
			if first, _ := utf8.DecodeRuneInString(w); search.Unspaced(first) {
				runs = append(runs, w)
			}
		}
		set(d, fieldRuns+name, runs)
	}
	return d
}

func set(d object, field string, values []string) {
	if len(values) > 0 {
		d[field] = values
	}
}

// exactly gives values as they are compared byte by byte. A long one is its
// digest: one value beyond 32 KiB makes a cluster refuse the whole document.
func exactly(values ...string) []string {
	out := make([]string, len(values))
	for i, v := range values {
		const longest = 256
		if len(v) <= longest {
			out[i] = "=" + v
			continue
		}
		sum := sha256.Sum256([]byte(v))
		out[i] = "#" + hex.EncodeToString(sum[:])
	}
	return out
}
