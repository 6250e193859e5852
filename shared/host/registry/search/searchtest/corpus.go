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

// Corpus generates entries that resemble the entries of real cards. A capability has 25 to 55 words
// of a vocabulary in which the word of rank r has the frequency 1/(r+2.7). One in ten capabilities
// is in Chinese. Entries have tags, skills and a claim that often repeats the capability. The same
// seed generates the same entries.
type Corpus struct {
	rand  *rand.Rand
	words []string
	han   []string // Chinese words, a quarter of the number of words
	sums  []float64
	next  uint64 // number of the last entry
}

const (
	vocabulary = 40000
	// newWord is the share of words that are not in the vocabulary, for example names and versions.
	newWord = 0.01
)

func NewCorpus(seed uint64) *Corpus {
	c := &Corpus{rand: rand.New(rand.NewPCG(seed, seed))}
	seen := make(map[string]bool)
	for len(c.words) < vocabulary {
		if w := c.syllables(); !seen[w] {
			seen[w] = true
			c.words = append(c.words, w)
		}
	}
	for range vocabulary / 4 {
		c.han = append(c.han, c.chinese(1+c.rand.IntN(3)))
	}
	var sum float64
	for r := range c.words {
		sum += 1 / (float64(r) + 2.7)
		c.sums = append(c.sums, sum)
	}
	return c
}

// As in English, some syllables are far more frequent than others, and therefore also some
// trigrams.
var (
	onsets  = strings.Fields("t s c p m d r l n b f st tr pr v g w h ch sh con re in un de pl gr j k qu z")
	vowels  = strings.Fields("a e i o u e a i ea io ou ai y")
	codas   = strings.Fields("n r s t l d nd st ct m ng nt ck p x ll")
	endings = strings.Fields("ing tion er ed s ly al ment ity able ize ist ive ful")
)

func (c *Corpus) pick(choices []string) string {
	f := c.rand.Float64()
	return choices[int(f*f*float64(len(choices)))]
}

func (c *Corpus) syllables() string {
	var b strings.Builder
	for range 1 + c.rand.IntN(3) {
		b.WriteString(c.pick(onsets))
		b.WriteString(c.pick(vowels))
		if c.rand.IntN(2) == 0 {
			b.WriteString(c.pick(codas))
		}
	}
	if c.rand.IntN(3) == 0 {
		b.WriteString(c.pick(endings))
	}
	return b.String()
}

// Word returns a random word with the same distribution as in entries.
func (c *Corpus) Word() string {
	if c.rand.Float64() < newWord {
		return fmt.Sprintf("%s%d", c.syllables(), c.rand.IntN(1000))
	}
	return c.words[c.rank()]
}

func (c *Corpus) rank() int {
	f := c.rand.Float64() * c.sums[len(c.sums)-1]
	lo, hi := 0, len(c.sums)-1
	for lo < hi {
		if mid := (lo + hi) / 2; c.sums[mid] < f {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// chinese returns n characters. Some characters are more frequent than others.
func (c *Corpus) chinese(n int) string {
	var b strings.Builder
	for range n {
		b.WriteRune(rune(0x4e00 + int(math.Pow(c.rand.Float64(), 3)*3000)))
	}
	return b.String()
}

// sentence returns n Chinese words without spaces between them.
func (c *Corpus) sentence(n int) string {
	var b strings.Builder
	for range n {
		b.WriteString(c.han[c.rank()%len(c.han)])
	}
	return b.String()
}

// text returns n words, or n parts of a sentence in Chinese.
func (c *Corpus) text(n int, chinese bool) string {
	words := make([]string, 0, n)
	for range n {
		if chinese {
			words = append(words, c.sentence(1+c.rand.IntN(4)))
		} else {
			words = append(words, c.Word())
		}
	}
	if chinese {
		return strings.Join(words, "，")
	}
	return strings.Join(words, " ")
}

// Entry returns the next entry. Its id contains its number and is not a valid key.
func (c *Corpus) Entry() search.Entry {
	c.next++
	chinese := c.rand.IntN(10) == 0
	e := search.Entry{
		Joined:        c.next,
		Capability:    c.text(25+c.rand.IntN(31), chinese),
		ClaimedFamily: fmt.Sprintf("family-%d", c.rand.IntN(12)),
		Price:         int64(c.rand.IntN(20)) * 500,
	}
	binary.BigEndian.PutUint64(e.ID[:], c.next)
	binary.BigEndian.PutUint64(e.ID[identity.Size-8:], c.rand.Uint64())
	if c.next%3 == 0 {
		e.Name = fmt.Sprintf("%s-%s.%d", c.words[c.next%200], c.words[c.next%999], c.next)
	}
	e.Declared = []string{e.Capability}
	if c.rand.IntN(5) == 0 {
		e.Declared = append(e.Declared, c.text(4, chinese))
	}
	if c.rand.IntN(2) == 0 {
		for range 1 + c.rand.IntN(4) {
			e.Tags = append(e.Tags, c.words[c.rand.IntN(200)])
		}
		e.Skills = []string{c.text(2, chinese), c.text(3, chinese)}
		e.Summary, e.Family = c.text(12, chinese), e.ClaimedFamily
	}
	if c.rand.IntN(3) == 0 {
		e.Score = c.rand.Float64()
	}
	e.Bookable = c.next%4 != 0
	if c.next%5 == 0 {
		e.Category = c.words[c.next%9]
		e.VenueTexts = []string{fmt.Sprintf("%s-%d", c.words[c.next%300], c.next), c.text(2, chinese), e.Category}
		e.Areas = []string{c.words[c.next%11], c.words[c.next%7]}
	}
	return e
}

func (c *Corpus) Entries(n int) []search.Entry {
	entries := make([]search.Entry, n)
	for i := range entries {
		entries[i] = c.Entry()
	}
	return entries
}

func (c *Corpus) Query() []string {
	if c.rand.IntN(10) == 0 {
		return []string{c.sentence(1)}
	}
	words := make([]string, 1+c.rand.IntN(3))
	for i := range words {
		words[i] = c.words[c.rank()]
	}
	return words
}

// Substring returns at least three letters of a word.
func (c *Corpus) Substring() string {
	for {
		w := []rune(c.words[c.rank()])
		if c.rand.IntN(10) == 0 {
			w = []rune(c.sentence(4))
		}
		if len(w) < 4 {
			continue
		}
		from := c.rand.IntN(len(w) - 2)
		return string(w[from : from+3+c.rand.IntN(len(w)-from-2)])
	}
}
