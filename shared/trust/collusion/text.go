package collusion

import (
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const maxAnalysedBytes = 64 << 10

const topTokenCount = 10

func measureText(text string) (v [FeatureCount]float64) {
	if len(text) > maxAnalysedBytes {
		text = strings.ToValidUTF8(text[:maxAnalysedBytes], "")
	}
	tokens := tokenize(text)
	tokenCount := float64(len(tokens))
	v[featureTokenCount] = clamp(tokenCount / 1000)
	v[featureTypeTokenRatio], v[featureEntropy] = measureVariety(tokens)
	sentences := splitSentences(text)
	sentenceCount := float64(len(sentences))
	v[featureSentenceCount] = clamp(sentenceCount / 30)
	if sentenceCount > 0 {
		v[featureSentenceLength] = clamp(tokenCount / sentenceCount / 100)
	}
	v[featurePunctuation] = punctuationShare(text)
	v[featureListItems], v[featureCode] = measureLayout(text)
	for _, s := range sentences {
		lower := strings.ToLower(s)
		if strings.HasSuffix(s, "?") || strings.HasSuffix(s, "？") {
			v[featureQuestions] += 1 / sentenceCount
		}
		if containsAny(lower, hedgeWords()) {
			v[featureHedges] += 1 / sentenceCount
		}
	}
	if containsAny(strings.ToLower(text[:min(len(text), 200)]), refusalWords()) {
		v[featureRefusals] = 1
	}
	v[featureQuestions], v[featureHedges] = clamp(v[featureQuestions]), clamp(v[featureHedges])
	return v
}

func hedgeWords() []string {
	return []string{"maybe", "perhaps", "might", "possibly", "probably", "likely", "it seems", "appears to", "i think", "i believe", "could be", "not sure", "roughly", "可能", "也许", "大概"}
}

func refusalWords() []string {
	return []string{"i cannot", "i can't", "i can not", "i'm unable", "i am unable", "i won't", "unable to help", "as an ai", "cannot assist", "can't help", "抱歉", "无法"}
}

func containsAny(s string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(s, w) })
}

func tokenize(text string) []string {
	tokens := make([]string, 0, len(text)/5)
	start := -1
	endToken := func(i int) {
		if start >= 0 {
			tokens, start = append(tokens, strings.ToLower(text[start:i])), -1
		}
	}
	for i, r := range text {
		switch {
		// In scripts without spaces, each character is a token.
		case r >= utf8.RuneSelf && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai):
			endToken(i)
			tokens = append(tokens, string(r))
		case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r):
			if start < 0 {
				start = i
			}
		case r == '\'' || r == '’':
			// An apostrophe is part of a token.
		default:
			endToken(i)
		}
	}
	endToken(len(text))
	return tokens
}

func measureVariety(tokens []string) (ratio, evenness float64) {
	if len(tokens) == 0 {
		return 0, 0
	}
	counts := make(map[string]int, len(tokens))
	for _, w := range tokens {
		counts[w]++
	}
	topCounts := make([]int, 0, len(counts))
	for _, n := range counts {
		topCounts = append(topCounts, n)
	}
	slices.SortFunc(topCounts, func(a, b int) int { return b - a })
	topCounts = topCounts[:min(len(topCounts), topTokenCount)]
	sum := 0
	for _, n := range topCounts {
		sum += n
	}
	for _, n := range topCounts {
		p := float64(n) / float64(sum)
		evenness -= p * math.Log2(p)
	}
	return float64(len(counts)) / float64(len(tokens)), clamp(evenness / math.Log2(topTokenCount))
}

func splitSentences(text string) []string {
	var result []string
	start := 0
	addSentence := func(end int) {
		if s := strings.TrimSpace(text[start:end]); s != "" {
			result = append(result, s)
		}
		start = end
	}
	for i, r := range text {
		switch r {
		case '.', '!', '?', '。', '！', '？':
			addSentence(i + len(string(r)))
		case '\n':
			addSentence(i)
		}
	}
	addSentence(len(text))
	return result
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

func measureLayout(text string) (itemLines, codeLines float64) {
	lines, inFence := 0.0, false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		lines++
		switch {
		case strings.HasPrefix(line, "```"):
			inFence = !inFence
			codeLines++
		case inFence:
			codeLines++
		case isListItem(line):
			itemLines++
		}
	}
	if lines == 0 {
		return 0, 0
	}
	return itemLines / lines, codeLines / lines
}

func isListItem(line string) bool {
	for _, marker := range []string{"- ", "* ", "• ", "+ "} {
		if strings.HasPrefix(line, marker) {
			return true
		}
	}
	rest := strings.TrimLeft(line, "0123456789")
	return rest != line && (strings.HasPrefix(rest, ". ") || strings.HasPrefix(rest, ") "))
}
