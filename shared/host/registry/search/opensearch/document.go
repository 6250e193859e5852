package opensearch

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/host/registry/search"
)

func groupNames() []string {
	names := make([]string, search.GroupCount)
	for g := range names {
		names[g] = strconv.Itoa(g)
	}
	return names
}

func newDocument(e *search.Entry) object {
	d := object{
		fieldFirstSeq: e.FirstSeq,
		fieldPrice:    e.Price,
		fieldWeight:   search.ScoreSteps + search.ScoreStep(e.Score),
	}
	setIfNotEmpty(d, fieldTexts, e.DeclaredTexts())
	setIfNotEmpty(d, fieldTag, exactValues(e.NormalTags()...))
	if e.Family != "" {
		setIfNotEmpty(d, fieldFamily, exactValues(e.Family))
	}
	if e.ClaimedFamily != "" {
		setIfNotEmpty(d, fieldClaimedFamily, exactValues(e.ClaimedFamily))
	}
	terms := e.Terms()
	for g, name := range groupNames() {
		setIfNotEmpty(d, fieldWords+name, terms[g])
		var unspaced, stems []string
		for _, w := range terms[g] {
			if stem, ok := search.StemOf(w); ok {
				stems = append(stems, stem)
			}
			if first, _ := utf8.DecodeRuneInString(w); search.IsUnspaced(first) {
				unspaced = append(unspaced, w)
			}
		}
		setIfNotEmpty(d, fieldUnspaced+name, unspaced)
		setIfNotEmpty(d, fieldStems+name, stems)
	}
	return d
}

func setIfNotEmpty(d object, field string, values []string) {
	if len(values) > 0 {
		d[field] = values
	}
}

// exactValues returns values for exact comparison. Long values are replaced by their digest,
// because a cluster refuses a document with a value of more than 32 KiB.
func exactValues(values ...string) []string {
	out := make([]string, len(values))
	for i, v := range values {
		const maxLength = 256
		if len(v) <= maxLength {
			out[i] = "=" + v
			continue
		}
		sum := sha256.Sum256([]byte(v))
		out[i] = "#" + hex.EncodeToString(sum[:])
	}
	return out
}
