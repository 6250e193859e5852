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

// queryTimeout is the time after which the cluster aborts a query. Its partial answer must not be
// used, because it would look complete.
const queryTimeout = "3s"

func (x *Index) Query(ctx context.Context, q search.Query) ([]search.Hit, error) {
	if err := checkQuery(&q); err != nil {
		return nil, err
	}
	var resp searchResponse
	err := x.whileOpen(func() error {
		return x.sendJSON(ctx, http.MethodPost, "/"+x.name+"/_search",
			url.Values{"allow_partial_search_results": {"false"}}, searchBody(&q), &resp)
	})
	if err != nil {
		return nil, err
	}
	if resp.TimedOut {
		return nil, unavailableError(fmt.Errorf("OpenSearch took longer than %s", queryTimeout))
	}
	hits := make([]search.Hit, 0, len(resp.Hits.Hits))
	for i := range resp.Hits.Hits {
		h, err := resp.Hits.Hits[i].toHit(&q)
		if err != nil {
			return nil, unavailableError(err)
		}
		hits = append(hits, h)
	}
	return hits, nil
}

func checkQuery(q *search.Query) error {
	if q.Limit < 1 || q.Limit > search.MaxPage {
		return problem.Invalid("limit", "1 to "+strconv.Itoa(search.MaxPage), strconv.Itoa(q.Limit))
	}
	if len(q.Words) > search.MaxWords {
		return problem.Invalid("q", "at most "+strconv.Itoa(search.MaxWords)+" words", strconv.Itoa(len(q.Words)))
	}
	return nil
}

type searchResponse struct {
	TimedOut bool `json:"timed_out"`
	Hits     struct {
		Hits []responseHit `json:"hits"`
	} `json:"hits"`
}

// responseHit is one result. Sort contains its score and fieldFirstSeq.
type responseHit struct {
	ID   string        `json:"_id"`
	Sort []json.Number `json:"sort"`
}

func (h *responseHit) toHit(q *search.Query) (search.Hit, error) {
	var out search.Hit
	id, err := hex.DecodeString(h.ID)
	if err != nil || len(id) != identity.Size || len(h.Sort) != 2 {
		return out, fmt.Errorf("OpenSearch's hit %q at %v is not an entry", h.ID, h.Sort)
	}
	score, err := h.Sort[0].Float64()
	firstSeq, seqErr := strconv.ParseUint(h.Sort[1].String(), 10, 64)
	if err = errors.Join(err, seqErr); err != nil {
		return out, fmt.Errorf("OpenSearch's hit %q: %w", h.ID, err)
	}
	copy(out.ID[:], id)
	weight := int(math.Round(score))
	if q.ByScore { // the score is then ScoreSteps plus the step
		weight -= search.ScoreSteps
	}
	out.Rank, out.FirstSeq = q.Rank(weight), firstSeq
	return out, nil
}

// searchBody returns the body of a search request. A hit's score is an integer below 2^21, so a
// 32-bit float represents it exactly.
func searchBody(q *search.Query) object {
	must, filter := wordClauses(q), filterClauses(q)
	switch {
	case q.ByScore:
		filter = append(filter, must...)
		must = []any{constantScore(object{"match_all": object{}}, 1)}
	case len(must) == 0:
		must = []any{constantScore(object{"match_all": object{}}, search.MaxPoints)}
	}
	body := object{
		"query": object{"function_score": object{
			"query":              object{"bool": object{"must": must, "filter": filter}},
			"field_value_factor": object{"field": fieldWeight},
			"boost_mode":         "multiply",
		}},
		"sort":             []any{object{"_score": "desc"}, object{fieldFirstSeq: "asc"}},
		"size":             q.Limit,
		"_source":          false,
		"track_total_hits": false,
		"timeout":          queryTimeout,
	}
	if q.After != nil {
		score := q.WeightFromRank(q.After.Rank)
		if q.ByScore {
			score += search.ScoreSteps
		}
		body["search_after"] = []any{score, min(q.After.FirstSeq, math.MaxInt64)}
	}
	return body
}

// wordClauses returns one clause per word, which scores the best match of the word. If not all
// words must match, it returns a single clause.
func wordClauses(q *search.Query) (must []any) {
	for _, w := range q.Words {
		var clauses []any
		for g, name := range groupNames() {
			for kind, match := range matchClauses(w, name) {
				if match != nil {
					clauses = append(clauses, constantScore(match, search.MatchPoints(search.Group(g), search.Kind(kind))))
				}
			}
		}
		must = append(must, object{"dis_max": object{"queries": clauses}})
	}
	if required := q.RequiredWords(); required < len(must) {
		return []any{object{"bool": object{"should": must, "minimum_should_match": required}}}
	}
	return must
}

func matchClauses(w, group string) (m [search.KindCount]object) {
	m[search.KindExact] = object{"term": object{fieldWords + group: w}}
	m[search.KindPrefix] = object{"prefix": object{fieldWords + group: w}}
	if stem, ok := search.StemOf(w); ok {
		m[search.KindPrefix] = object{"bool": object{"should": []any{m[search.KindPrefix], object{"term": object{fieldStems + group: stem}}}}}
	}
	first, _ := utf8.DecodeRuneInString(w)
	switch n := utf8.RuneCountInString(w); {
	case n >= 3:
		m[search.KindInside] = containsClause(fieldWords+group+".g3", w)
	case n == 2 && search.IsUnspaced(first):
		m[search.KindInside] = containsClause(fieldUnspaced+group+".g2", w)
	case n == 1 && search.IsUnspaced(first):
		m[search.KindInside] = containsClause(fieldUnspaced+group, w)
	}
	return m
}

// containsClause searches for the grams of text in sequence.
func containsClause(field, text string) object {
	return object{"match_phrase": object{field: text}}
}

func constantScore(filter object, boost int) object {
	return object{"constant_score": object{"filter": filter, "boost": boost}}
}

// entryClause returns a clause that excludes the document of the mark.
func entryClause() object { return object{"exists": object{"field": fieldFirstSeq}} }

func filterClauses(q *search.Query) []any {
	clauses := []any{entryClause()}
	switch n := utf8.RuneCountInString(q.Text); {
	case n >= 3:
		clauses = append(clauses, containsClause(fieldTexts+".g3", q.Text))
	case n == 2:
		clauses = append(clauses, containsClause(fieldTexts+".g2", q.Text))
	case n == 1:
		clauses = append(clauses, containsClause(fieldTexts, q.Text))
	}
	for field, value := range map[string]string{fieldFamily: q.Family, fieldClaimedFamily: q.ClaimedFamily} {
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
