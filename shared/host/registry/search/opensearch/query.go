package opensearch

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// slowest is the time after which the cluster aborts a query. Its partial answer must not be used,
// because it would look complete.
const slowest = "3s"

func (x *Index) Query(ctx context.Context, q search.Query) ([]search.Hit, error) {
	if err := check(&q); err != nil {
		return nil, err
	}
	var a answer
	err := x.using(func() error {
		return x.do(ctx, http.MethodPost, "/"+x.name+"/_search",
			url.Values{"allow_partial_search_results": {"false"}}, searchBody(&q), &a)
	})
	if err != nil {
		return nil, err
	}
	if a.TimedOut {
		return nil, unavailable(fmt.Errorf("OpenSearch took longer than %s", slowest))
	}
	hits := make([]search.Hit, 0, len(a.Hits.Hits))
	for i := range a.Hits.Hits {
		h, err := a.Hits.Hits[i].read(&q)
		if err != nil {
			return nil, unavailable(err)
		}
		hits = append(hits, h)
	}
	return hits, nil
}

func check(q *search.Query) error {
	if q.Limit < 1 || q.Limit > search.MaxPage {
		return problem.Invalid("limit", "1 to "+strconv.Itoa(search.MaxPage), strconv.Itoa(q.Limit))
	}
	if len(q.Words) > search.MaxWords {
		return problem.Invalid("q", "at most "+strconv.Itoa(search.MaxWords)+" words", strconv.Itoa(len(q.Words)))
	}
	return nil
}

// answer is the cluster's response to a search.
type answer struct {
	TimedOut bool `json:"timed_out"`
	Hits     struct {
		Hits []hit `json:"hits"`
	} `json:"hits"`
}

// hit is one result. Sort contains its score and Joined.
type hit struct {
	ID   string        `json:"_id"`
	Sort []json.Number `json:"sort"`
}

func (h *hit) read(q *search.Query) (search.Hit, error) {
	var out search.Hit
	id, err := hex.DecodeString(h.ID)
	if err != nil || len(id) != identity.Size || len(h.Sort) != 2 {
		return out, fmt.Errorf("OpenSearch's hit %q at %v is not an entry", h.ID, h.Sort)
	}
	score, err := h.Sort[0].Float64()
	joined, wrong := strconv.ParseUint(h.Sort[1].String(), 10, 64)
	if err = errors.Join(err, wrong); err != nil {
		return out, fmt.Errorf("OpenSearch's hit %q: %w", h.ID, err)
	}
	copy(out.ID[:], id)
	weight := int(math.Round(score))
	if q.ByScore { // the score is then the field's value, which is ScoreSteps plus the step
		weight -= search.ScoreSteps
	}
	out.Rank, out.Joined = q.Rank(weight), joined
	return out, nil
}

// searchBody returns the body of a search request. A hit's score is the points of the words times the
// weight. It is an integer below 2^21, so a 32-bit float represents it exactly.
func searchBody(q *search.Query) object {
	must, filter := words(q), filters(q)
	switch {
	case q.ByScore:
		filter = append(filter, must...)
		must = []any{constant(object{"match_all": object{}}, 1)}
	case len(must) == 0:
		must = []any{constant(object{"match_all": object{}}, search.MaxPoints)}
	}
	body := object{
		"query": object{"function_score": object{
			"query":              object{"bool": object{"must": must, "filter": filter}},
			"field_value_factor": object{"field": fieldWeight},
			"boost_mode":         "multiply",
		}},
		"sort":             []any{object{"_score": "desc"}, object{fieldJoined: "asc"}},
		"size":             q.Limit,
		"_source":          false,
		"track_total_hits": false,
		"timeout":          slowest,
	}
	if q.After != nil {
		score := q.WeightOf(q.After.Rank)
		if q.ByScore {
			score += search.ScoreSteps
		}
		body["search_after"] = []any{score, min(q.After.Joined, math.MaxInt64)}
	}
	return body
}

// words returns one clause per word, which scores the best match of the word. If not all words must
// match, words returns a single clause that requires a minimum number of them.
func words(q *search.Query) (must []any) {
	for _, w := range q.Words {
		var any []any
		for g, name := range groups() {
			for kind, match := range matches(w, name) {
				if match != nil {
					any = append(any, constant(match, search.Points(search.Group(g), search.Kind(kind))))
				}
			}
		}
		must = append(must, object{"dis_max": object{"queries": any}})
	}
	if least := q.RequiredWords(); least < len(must) {
		return []any{object{"bool": object{"should": must, "minimum_should_match": least}}}
	}
	return must
}

// matches returns a clause per kind in which a word can match words of a group.
func matches(w, group string) (m [search.Kinds]object) {
	m[search.Exact] = object{"term": object{fieldWords + group: w}}
	m[search.Prefix] = object{"prefix": object{fieldWords + group: w}}
	if form, ok := search.StemOf(w); ok {
		m[search.Prefix] = object{"bool": object{"should": []any{m[search.Prefix], object{"term": object{fieldForms + group: form}}}}}
	}
	first, _ := utf8.DecodeRuneInString(w)
	switch n := utf8.RuneCountInString(w); {
	case n >= 3:
		m[search.KindInside] = part(fieldWords+group+".g3", w)
	case n == 2 && search.IsUnspaced(first):
		m[search.KindInside] = part(fieldRuns+group+".g2", w)
	case n == 1 && search.IsUnspaced(first):
		m[search.KindInside] = part(fieldRuns+group, w)
	}
	return m
}

// part returns a clause that matches a field if it contains text. The clause searches for the grams
// of text in sequence.
func part(field, text string) object {
	return object{"match_phrase": object{field: text}}
}

func constant(filter object, boost int) object {
	return object{"constant_score": object{"filter": filter, "boost": boost}}
}

// entriesOnly returns a clause that excludes the document of the mark.
func entriesOnly() object { return object{"exists": object{"field": fieldJoined}} }

func filters(q *search.Query) []any {
	clauses := []any{entriesOnly()}
	switch n := utf8.RuneCountInString(q.Text); {
	case n >= 3:
		clauses = append(clauses, part(fieldTexts+".g3", q.Text))
	case n == 2:
		clauses = append(clauses, part(fieldTexts+".g2", q.Text))
	case n == 1:
		clauses = append(clauses, part(fieldTexts, q.Text))
	}
	for field, value := range map[string]string{fieldFamily: q.Family, fieldClaimed: q.ClaimedFamily} {
		if value != "" {
			clauses = append(clauses, object{"term": object{field: exactValues(value)[0]}})
		}
	}
	for _, tag := range q.Tags() {
		clauses = append(clauses, object{"term": object{fieldTag: exactValues(tag)[0]}})
	}
	if q.MaxPrice != nil {
		clauses = append(clauses, object{"range": object{fieldPrice: object{"lte": *q.MaxPrice}}})
	}
	if step := search.ScoreStep(q.MinScore); step > 0 {
		clauses = append(clauses, object{"range": object{fieldWeight: object{"gte": search.ScoreSteps + step}}})
	}
	return clauses
}
