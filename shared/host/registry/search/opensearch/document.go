package opensearch

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/host/registry/search"
)

func groups() []string {
	names := make([]string, search.Groups)
	for g := range names {
		names[g] = strconv.Itoa(g)
	}
	return names
}

func document(e *search.Entry) object {
	d := object{
		fieldJoined: e.Joined,
		fieldPrice:  e.Price,
		fieldWeight: search.ScoreSteps + search.ScoreStep(e.Score),
	}
	set(d, fieldTexts, e.Texts())
	set(d, fieldTag, exactValues(e.NormalTags()...))
	if e.Family != "" {
		set(d, fieldFamily, exactValues(e.Family))
	}
	if e.ClaimedFamily != "" {
		set(d, fieldClaimed, exactValues(e.ClaimedFamily))
	}
	terms := e.Terms()
	for g, name := range groups() {
		set(d, fieldWords+name, terms[g])
		var runs, forms []string
		for _, w := range terms[g] {
			if form, ok := search.StemOf(w); ok {
				forms = append(forms, form)
			}
			if first, _ := utf8.DecodeRuneInString(w); search.IsUnspaced(first) {
				runs = append(runs, w)
			}
		}
		set(d, fieldRuns+name, runs)
		set(d, fieldForms+name, forms)
	}
	return d
}

func set(d object, field string, values []string) {
	if len(values) > 0 {
		d[field] = values
	}
}

// exactValues returns values for exact comparison. Long values are replaced by their digest, because a
// cluster refuses a document with a value of more than 32 KiB.
func exactValues(values ...string) []string {
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
