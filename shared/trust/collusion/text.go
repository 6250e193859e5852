package collusion

import (
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxAnalysedBytes limits the bytes of a response that are analysed.
const maxAnalysedBytes = 64 << 10

// topTokens is the number of most frequent tokens that the entropy is computed from.
const topTokens = 10

func measure(text string) (v [Features]float64) {
	if len(text) > maxAnalysedBytes {
		text = strings.ToValidUTF8(text[:maxAnalysedBytes], "")
	}
	// The features of latency and confidence stay 0, because they are not in the text.
	words := tokenize(text)
	n := float64(len(words))
	v[tokens] = clip(n / 1000)
	v[typeToken], v[entropy] = measureVariety(words)
	parts := splitSentences(text)
	count := float64(len(parts))
	v[sentences] = clip(count / 30)
	if count > 0 {
		v[sentenceLength] = clip(n / count / 100)
	}
	v[punctuation] = punctuationShare(text)
	v[lists], v[code] = measureLayout(text)
	for _, s := range parts {
		lower := strings.ToLower(s)
		if strings.HasSuffix(s, "?") || strings.HasSuffix(s, "？") {
			v[questions] += 1 / count
		}
		if containsAny(lower, hedgeWords()) {
			v[hedges] += 1 / count
		}
	}
	if containsAny(strings.ToLower(text[:min(len(text), 200)]), refusalWords()) {
		v[refusals] = 1
	}
	v[questions], v[hedges] = clip(v[questions]), clip(v[hedges])
	return v
}

func hedgeWords() []string {
	return []string{"maybe", "perhaps", "might", "possibly", "probably", "likely", "it seems", "appears to", "i think", "i believe", "could be", "not sure", "roughly", "可能", "也许", "大概"}
}

func refusalWords() []string {
	return []string{"i cannot", "i can't", "i can not", "i'm unable", "i am unable", "i won't", "unable to help", "as an ai", "cannot assist", "can't help", "抱歉", "无法"}
}

func containsAny(s string, list []string) bool {
	return slices.ContainsFunc(list, func(w string) bool { return strings.Contains(s, w) })
}

func tokenize(text string) []string {
	list := make([]string, 0, len(text)/5)
	start := -1
	end := func(i int) {
		if start >= 0 {
			list, start = append(list, strings.ToLower(text[start:i])), -1
		}
	}
	for i, r := range text {
		switch {
		// In scripts without spaces, each character is a word.
		case r >= utf8.RuneSelf && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai):
			end(i)
			list = append(list, string(r))
		case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r):
			if start < 0 {
				start = i
			}
		case r == '\'' || r == '’':
			// An apostrophe is part of a word.
		default:
			end(i)
		}
	}
	end(len(text))
	return list
}

func measureVariety(words []string) (ratio, even float64) {
	if len(words) == 0 {
		return 0, 0
	}
	counts := make(map[string]int, len(words))
	for _, w := range words {
		counts[w]++
	}
	top := make([]int, 0, len(counts))
	for _, n := range counts {
		top = append(top, n)
	}
	slices.SortFunc(top, func(a, b int) int { return b - a })
	top = top[:min(len(top), topTokens)]
	sum := 0
	for _, n := range top {
		sum += n
	}
	for _, n := range top {
		p := float64(n) / float64(sum)
		even -= p * math.Log2(p)
	}
	// The evenness is 1 if ten words are equally frequent.
	return float64(len(counts)) / float64(len(words)), clip(even / math.Log2(topTokens))
}

func splitSentences(text string) []string {
	var list []string
	start := 0
	add := func(end int) {
		if s := strings.TrimSpace(text[start:end]); s != "" {
			list = append(list, s)
		}
		start = end
	}
	for i, r := range text {
		switch r {
		case '.', '!', '?', '。', '！', '？':
			add(i + len(string(r)))
		case '\n':
			add(i)
		}
	}
	add(len(text))
	return list
}

func punctuationShare(text string) float64 {
	marks, total := 0, 0
	for _, r := range text {
		if unicode.IsSpace(r) {
			continue
		}
		total++
		if unicode.IsPunct(r) || unicode.IsSymbol(r) {
			marks++
		}
	}
	if total == 0 {
		return 0
	}
	return float64(marks) / float64(total)
}

func measureLayout(text string) (items, coded float64) {
	lines, fenced := 0.0, false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		lines++
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
			coded++
		case fenced:
			coded++
		case isItem(line):
			items++
		}
	}
	if lines == 0 {
		return 0, 0
	}
	return items / lines, coded / lines
}

func isItem(line string) bool {
	for _, mark := range []string{"- ", "* ", "• ", "+ "} {
		if strings.HasPrefix(line, mark) {
			return true
		}
	}
	rest := strings.TrimLeft(line, "0123456789")
	return rest != line && (strings.HasPrefix(rest, ". ") || strings.HasPrefix(rest, ") "))
}
