package collusion_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/collusion"
)

// author generates synthetic answers in a style of its own.
type author struct {
	vocabulary int
	zipf       float64 // inequality of the word frequencies
	sentences  float64 // sentences per answer
	words      float64 // words per sentence
	commas     float64 // share of words that a comma follows
	questions  float64 // share of sentences
	hedges     float64
	items      float64 // share of answers with lists
	code       float64
	refusals   float64
	confidence float64 // zero if the author states none
	unsure     float64
	took       float64 // seconds
	jitter     float64
}

// anyAuthor draws an author from wide ranges of parameters.
func anyAuthor(r *rand.Rand) author {
	logUniform := func(a, b float64) float64 { return a * math.Pow(b/a, r.Float64()) }
	often := func(p, most float64) float64 { // a habit that only some authors have
		if r.Float64() > p {
			return 0
		}
		return most * r.Float64()
	}
	a := author{vocabulary: int(logUniform(60, 6000)), zipf: 1.05 + 0.9*r.Float64(), sentences: logUniform(1, 40), words: logUniform(4, 35),
		commas: 0.25 * r.Float64(), questions: often(0.6, 0.5), hedges: often(0.6, 0.6), items: often(0.5, 1), code: often(0.4, 0.8),
		refusals: often(0.3, 0.3), took: logUniform(0.02, 12), jitter: 0.1 + 0.6*r.Float64()}
	if r.Float64() < 0.5 {
		a.confidence, a.unsure = 0.4+0.6*r.Float64(), 0.2*r.Float64()
	}
	return a
}

func (a author) answers(r *rand.Rand, n int) []collusion.Response {
	words := rand.NewZipf(r, a.zipf, 2, uint64(a.vocabulary))
	out := make([]collusion.Response, n)
	for i := range out {
		var b strings.Builder
		if r.Float64() < a.refusals {
			b.WriteString("I cannot do all of that. ")
		}
		list, code := r.Float64() < a.items, r.Float64() < a.code
		for range max(1, int(math.Round(a.sentences*math.Exp(0.3*r.NormFloat64())))) {
			if list {
				b.WriteString("- ")
			}
			if r.Float64() < a.hedges {
				b.WriteString("perhaps ")
			}
			n := max(2, int(math.Round(a.words*math.Exp(0.3*r.NormFloat64()))))
			for w := range n {
				fmt.Fprintf(&b, "w%d", words.Uint64())
				if r.Float64() < a.commas && w < n-1 {
					b.WriteByte(',')
				}
				if w < n-1 {
					b.WriteByte(' ')
				}
			}
			switch {
			case r.Float64() < a.questions:
				b.WriteByte('?')
			default:
				b.WriteByte('.')
			}
			if list {
				b.WriteByte('\n')
			} else {
				b.WriteByte(' ')
			}
		}
		if code {
			b.WriteString("\n```\nx := 1\ny := x\n```\n")
		}
		out[i] = collusion.Response{Text: b.String(), Latency: time.Duration(a.took * math.Exp(a.jitter*r.NormFloat64()) * float64(time.Second))}
		if a.confidence > 0 {
			c := min(1, max(0, a.confidence+a.unsure*r.NormFloat64()))
			out[i].Confidence = &c
		}
	}
	return out
}

// alike contains the results for a population of authors: how often two authors look alike, and how
// often one author is recognized in other answers.
type alike struct {
	pairs, authors            float64
	suspected, refused        float64 // pairs above the threshold, pairs that would be refused
	recognized, refusedItself float64 // authors, compared with themselves
	suspectedRaw              float64 // pairs above the threshold without centring
}

// refusing is the cosine that has the strength 0.6.
const refusing = 0.952

func population(t *testing.T, r *rand.Rand, n int, draw func() author) alike {
	t.Helper()
	style := func(a author) (raw, centred []float64) {
		raw, err := collusion.StyleVector(a.answers(r, collusion.MaxResponses))
		if err != nil {
			t.Fatal(err)
		}
		if centred, err = collusion.CentreStyle(raw); err != nil {
			t.Fatal(err)
		}
		return raw, centred
	}
	cosine := func(a, b []float64) float64 {
		c, err := collusion.Cosine(a, b)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	count := func(is bool) float64 {
		if is {
			return 1
		}
		return 0
	}
	var raw, centred [][]float64
	out := alike{pairs: float64(n*(n-1)) / 2, authors: float64(n)}
	for i := range n {
		a := draw()
		rawA, one := style(a)
		_, other := style(a)
		c := cosine(one, other)
		out.recognized += count(c > collusion.StyleThreshold)
		out.refusedItself += count(c >= refusing)
		raw, centred = append(raw, rawA), append(centred, one)
		for j := range i {
			c := cosine(centred[j], one)
			out.suspected += count(c > collusion.StyleThreshold)
			out.refused += count(c >= refusing)
			out.suspectedRaw += count(cosine(raw[j], rawA) > collusion.StyleThreshold)
		}
	}
	return out
}

func TestUnrelatedAuthorsLookDifferentAndOneLooksLikeItself(t *testing.T) {
	for _, p := range []struct {
		name   string
		change func(*author, *rand.Rand)
	}{
		{"in any way", func(*author, *rand.Rand) {}},
		// All authors have the latency of one host, and they do not state a confidence.
		{"on one fast host", func(a *author, _ *rand.Rand) { a.took, a.jitter, a.confidence = 0.02, 0.2, 0 }},
		{"in short", func(a *author, r *rand.Rand) {
			a.took, a.jitter, a.confidence, a.sentences = 0.02, 0.2, 0, 1+2*r.Float64()
		}},
		{"in plain prose", func(a *author, _ *rand.Rand) {
			a.took, a.jitter, a.confidence, a.items, a.code, a.refusals = 1, 0.3, 0, 0, 0, 0
		}},
	} {
		if testing.Short() && p.name != "on one fast host" {
			continue
		}
		r := rand.New(rand.NewPCG(3, 4))
		got := population(t, r, 100, func() author {
			a := anyAuthor(r)
			p.change(&a, r)
			return a
		})
		t.Logf("authors who write %s: of pairs %.4f are suspected (%.2f if not centred), %.4f refused; of authors %.3f are recognized, %.3f refused as themselves",
			p.name, got.suspected/got.pairs, got.suspectedRaw/got.pairs, got.refused/got.pairs, got.recognized/got.authors, got.refusedItself/got.authors)
		if got.suspected/got.pairs > 0.03 || got.refused/got.pairs > 0.006 {
			t.Errorf("different authors who write %s = %.4f suspected, %.4f refused, want at most 0.03 and 0.006", p.name, got.suspected/got.pairs, got.refused/got.pairs)
		}
		if got.recognized/got.authors < 0.97 || got.refusedItself/got.authors < 0.9 {
			t.Errorf("authors who write %s = %.3f recognized, %.3f refused, want at least 0.97 and 0.9", p.name, got.recognized/got.authors, got.refusedItself/got.authors)
		}
	}
}

// The components of a style vector, as in the research that defines the vector.
const (
	featureTokenCount = iota
	featureTypeTokenRatio
	featureEntropy
	featureSentenceCount
	featureSentenceLength
	featurePunctuation
	featureQuestions
	featureListItems
	featureCode
	featureHedges
	featureRefusals
	featureConfidenceMean
	featureConfidenceSpread
	featureLatencyMedian
	featureLatencyP95
	featureToolCalls
)

func TestStyleFeatures(t *testing.T) {
	half, one := 0.5, 1.0
	for _, c := range []struct {
		name  string
		texts []collusion.Response
		place int
		want  float64
	}{
		{"two words of a thousand", []collusion.Response{{Text: "Hello, world"}}, featureTokenCount, 0.002},
		{"signs of a script without spaces are words", []collusion.Response{{Text: "你好 ok"}}, featureTokenCount, 0.003},
		{"no more than all", []collusion.Response{{Text: strings.Repeat("a ", 2000)}}, featureTokenCount, 1},
		{"half of the words differ, whatever their case", []collusion.Response{{Text: "Go go stop Stop"}}, featureTypeTokenRatio, 0.5},
		{"two words that are equally frequent", []collusion.Response{{Text: "a b"}}, featureEntropy, 1 / math.Log2(10)},
		{"one word only", []collusion.Response{{Text: "a a a"}}, featureEntropy, 0},
		{"three sentences of thirty", []collusion.Response{{Text: "One. Two!\nThree"}}, featureSentenceCount, 0.1},
		{"the mean of two answers", []collusion.Response{{Text: "One."}, {Text: "One. Two. Three."}}, featureSentenceCount, 2.0 / 30},
		{"two words in a sentence", []collusion.Response{{Text: "One two. Three four."}}, featureSentenceLength, 0.02},
		{"one of four signs", []collusion.Response{{Text: "a b, c"}}, featurePunctuation, 0.25},
		{"half are questions", []collusion.Response{{Text: "Why? So."}}, featureQuestions, 0.5},
		{"questions elsewhere", []collusion.Response{{Text: "是吗？"}}, featureQuestions, 1},
		{"two of three lines are items", []collusion.Response{{Text: "See:\n- one\n2. two"}}, featureListItems, 2.0 / 3},
		{"a number is no item", []collusion.Response{{Text: "2.5 is more"}}, featureListItems, 0},
		{"three of four lines are code", []collusion.Response{{Text: "See:\n```\n- x\n```"}}, featureCode, 0.75},
		{"and no items", []collusion.Response{{Text: "See:\n```\n- x\n```"}}, featureListItems, 0},
		{"half of the sentences hedge", []collusion.Response{{Text: "Perhaps. Yes."}}, featureHedges, 0.5},
		{"one of two answers refuses", []collusion.Response{{Text: "I cannot do that."}, {Text: "Done."}}, featureRefusals, 0.5},
		{"confidence", []collusion.Response{{Confidence: &half}, {Confidence: &one}, {}}, featureConfidenceMean, 0.75},
		{"its spread", []collusion.Response{{Confidence: &half}, {Confidence: &one}, {}}, featureConfidenceSpread, 0.25},
		{"the median", []collusion.Response{{Latency: time.Second}, {Latency: 2 * time.Second}, {Latency: 9 * time.Second}}, featureLatencyMedian, 0.4},
		{"the tail", []collusion.Response{{Latency: time.Second}, {Latency: 2 * time.Second}, {Latency: 9 * time.Second}}, featureLatencyP95, 0.9},
		{"a clock that went back", []collusion.Response{{Latency: -time.Second}}, featureLatencyMedian, 0},
		{"no tool is seen", []collusion.Response{{Text: "a"}}, featureToolCalls, 0},
		{"only the last fifty", append([]collusion.Response{{Text: strings.Repeat("a ", 900)}}, make([]collusion.Response, 50)...), featureTokenCount, 0},
		{"an empty answer", []collusion.Response{{}}, featureTypeTokenRatio, 0},
	} {
		v, err := collusion.StyleVector(c.texts)
		if err != nil || len(v) != collusion.FeatureCount || !near(v[c.place], c.want) {
			t.Errorf("StyleVector()[%d] of %s = %v, %v, want %v", c.place, c.name, v, err, c.want)
		}
	}
	if v, err := collusion.StyleVector(nil); v != nil || err != nil {
		t.Errorf("StyleVector() of nothing = %v, %v, want nil", v, err)
	}
	nan := math.NaN()
	if _, err := collusion.StyleVector([]collusion.Response{{Confidence: &nan}}); !problem.Is(err, problem.Damaged) {
		t.Errorf("StyleVector() of a confidence that is no number = %v, want Damaged", err)
	}
}

func TestOnlyAStyleIsCentred(t *testing.T) {
	for name, v := range map[string][]float64{
		"short": make([]float64, 15), "long": make([]float64, 17), "nothing": nil,
		"not a number": {3: math.NaN(), 15: 0}, "above 1": {3: 1.1, 15: 0}, "below 0": {3: -0.1, 15: 0},
	} {
		if got, err := collusion.CentreStyle(v); !problem.Is(err, problem.Damaged) {
			t.Errorf("CentreStyle(%s) = %v, %v, want Damaged", name, got, err)
		}
	}
	got, err := collusion.CentreStyle(make([]float64, collusion.FeatureCount))
	if err != nil || got[featureConfidenceMean] != 0 || got[featureConfidenceSpread] != 0 || got[featureToolCalls] != 0 {
		t.Errorf("CentreStyle() without confidence and tools = %v, %v, want no difference in them", got, err)
	}
}

func FuzzAnyTextHasAStyle(f *testing.F) {
	for _, s := range []string{"", "Hello, world.", "- a\n- b", "```\nx", "你好？", "\xff\xfe", "1) a\n22. b?!", "’'’"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := collusion.StyleVector([]collusion.Response{{Text: text, Latency: time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := collusion.CentreStyle(v); err != nil {
			t.Errorf("CentreStyle(StyleVector(%q)) = %v, want nil", text, err)
		}
	})
}
