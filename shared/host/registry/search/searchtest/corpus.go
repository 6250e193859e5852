package searchtest

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Corpus generates entries that resemble the entries of real cards. The frequencies of words follow
// a Zipf law, and one in ten capabilities is in Chinese. The same seed generates the same entries.
type Corpus struct {
	rnd               *rand.Rand
	words             []string
	chineseWords      []string // a quarter of the number of words
	cumulativeWeights []float64
	lastNumber        uint64
}

const (
	vocabularySize = 40000
	// newWordShare is the share of words that are not in the vocabulary, for example names and
	// versions.
	newWordShare = 0.01
)

func NewCorpus(seed uint64) *Corpus {
	c := &Corpus{rnd: rand.New(rand.NewPCG(seed, seed))}
	seen := make(map[string]bool)
	for len(c.words) < vocabularySize {
		if w := c.makeWord(); !seen[w] {
			seen[w] = true
			c.words = append(c.words, w)
		}
	}
	for range vocabularySize / 4 {
		c.chineseWords = append(c.chineseWords, c.chineseWord(1+c.rnd.IntN(3)))
	}
	var sum float64
	for r := range c.words {
		sum += 1 / (float64(r) + 2.7)
		c.cumulativeWeights = append(c.cumulativeWeights, sum)
	}
	return c
}

// Some syllables are far more frequent than others, as in English.
var (
	onsets  = strings.Fields("t s c p m d r l n b f st tr pr v g w h ch sh con re in un de pl gr j k qu z")
	vowels  = strings.Fields("a e i o u e a i ea io ou ai y")
	codas   = strings.Fields("n r s t l d nd st ct m ng nt ck p x ll")
	endings = strings.Fields("ing tion er ed s ly al ment ity able ize ist ive ful")
)

func (c *Corpus) pickCommon(choices []string) string {
	u := c.rnd.Float64()
	return choices[int(u*u*float64(len(choices)))]
}

func (c *Corpus) makeWord() string {
	var b strings.Builder
	for range 1 + c.rnd.IntN(3) {
		b.WriteString(c.pickCommon(onsets))
		b.WriteString(c.pickCommon(vowels))
		if c.rnd.IntN(2) == 0 {
			b.WriteString(c.pickCommon(codas))
		}
	}
	if c.rnd.IntN(3) == 0 {
		b.WriteString(c.pickCommon(endings))
	}
	return b.String()
}

// RandomWord returns a random word with the same distribution as in entries.
func (c *Corpus) RandomWord() string {
	if c.rnd.Float64() < newWordShare {
		return fmt.Sprintf("%s%d", c.makeWord(), c.rnd.IntN(1000))
	}
	return c.words[c.randomRank()]
}

func (c *Corpus) randomRank() int {
	target := c.rnd.Float64() * c.cumulativeWeights[len(c.cumulativeWeights)-1]
	lo, hi := 0, len(c.cumulativeWeights)-1
	for lo < hi {
		if mid := (lo + hi) / 2; c.cumulativeWeights[mid] < target {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// chineseWord returns n characters. Some characters are more frequent than others.
func (c *Corpus) chineseWord(n int) string {
	var b strings.Builder
	for range n {
		b.WriteRune(rune(0x4e00 + int(math.Pow(c.rnd.Float64(), 3)*3000)))
	}
	return b.String()
}

// chineseSentence returns n Chinese words without spaces between them.
func (c *Corpus) chineseSentence(n int) string {
	var b strings.Builder
	for range n {
		b.WriteString(c.chineseWords[c.randomRank()%len(c.chineseWords)])
	}
	return b.String()
}

// randomText returns n words, or n parts of a sentence in Chinese.
func (c *Corpus) randomText(n int, chinese bool) string {
	words := make([]string, 0, n)
	for range n {
		if chinese {
			words = append(words, c.chineseSentence(1+c.rnd.IntN(4)))
		} else {
			words = append(words, c.RandomWord())
		}
	}
	if chinese {
		return strings.Join(words, "，")
	}
	return strings.Join(words, " ")
}

// NextEntry returns the next entry. Its id contains its number and is not a valid key.
func (c *Corpus) NextEntry() search.Entry {
	c.lastNumber++
	chinese := c.rnd.IntN(10) == 0
	e := search.Entry{
		FirstSeq:      c.lastNumber,
		Capability:    c.randomText(25+c.rnd.IntN(31), chinese),
		ClaimedFamily: fmt.Sprintf("family-%d", c.rnd.IntN(12)),
		Price:         int64(c.rnd.IntN(20)) * 500,
	}
	binary.BigEndian.PutUint64(e.ID[:], c.lastNumber)
	binary.BigEndian.PutUint64(e.ID[identity.Size-8:], c.rnd.Uint64())
	if c.lastNumber%3 == 0 {
		e.Name = fmt.Sprintf("%s-%s.%d", c.words[c.lastNumber%200], c.words[c.lastNumber%999], c.lastNumber)
	}
	e.DeclaredCapabilities = []string{e.Capability}
	if c.rnd.IntN(5) == 0 {
		e.DeclaredCapabilities = append(e.DeclaredCapabilities, c.randomText(4, chinese))
	}
	if c.rnd.IntN(2) == 0 {
		for range 1 + c.rnd.IntN(4) {
			e.Tags = append(e.Tags, c.words[c.rnd.IntN(200)])
		}
		e.Skills = []string{c.randomText(2, chinese), c.randomText(3, chinese)}
		e.Summary, e.Family = c.randomText(12, chinese), e.ClaimedFamily
	}
	if c.rnd.IntN(3) == 0 {
		e.Score = c.rnd.Float64()
	}
	e.Bookable = c.lastNumber%4 != 0
	if c.lastNumber%5 == 0 {
		e.Category = c.words[c.lastNumber%9]
		e.VenueTexts = []string{fmt.Sprintf("%s-%d", c.words[c.lastNumber%300], c.lastNumber), c.randomText(2, chinese), e.Category}
		e.Areas = []string{c.words[c.lastNumber%11], c.words[c.lastNumber%7]}
	}
	return e
}

func (c *Corpus) NextEntries(n int) []search.Entry {
	entries := make([]search.Entry, n)
	for i := range entries {
		entries[i] = c.NextEntry()
	}
	return entries
}

func (c *Corpus) RandomWords() []string {
	if c.rnd.IntN(10) == 0 {
		return []string{c.chineseSentence(1)}
	}
	words := make([]string, 1+c.rnd.IntN(3))
	for i := range words {
		words[i] = c.words[c.randomRank()]
	}
	return words
}

// RandomSubstring returns at least three letters of a word.
func (c *Corpus) RandomSubstring() string {
	for {
		w := []rune(c.words[c.randomRank()])
		if c.rnd.IntN(10) == 0 {
			w = []rune(c.chineseSentence(4))
		}
		if len(w) < 4 {
			continue
		}
		start := c.rnd.IntN(len(w) - 2)
		return string(w[start : start+3+c.rnd.IntN(len(w)-start-2)])
	}
}
