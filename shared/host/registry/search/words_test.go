package search_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestTextIsFoldedToOneForm(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"  Plain \t\n text ", "plain text"},
		{"STRASSE Straße", "strasse strasse"},
		{"cafe\u0301 CAFÉ", "café café"},
		{"ﬁne ＦＵＬＬ①", "fine full1"},
		{"İstanbul", "i\u0307stanbul"},
		{"a\u200fb\u00adc\u200bd", "abcd"},
		{"🖌️", "🖌"},
		{"a\x00b\x1ec", "a b c"},
		{"ǅ ΣΊΣΥΦΟΣ", "dž σίσυφοσ"},
		{"٣ ３", "٣ 3"},
	} {
		if got := search.Normalise(c.in); got != c.want {
			t.Errorf("Normalise(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestTextIsCutIntoWords(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []string
	}{
		{"", nil},
		{`%_"[]*?~^ \ | & ! ( ) { } / : - ,`, nil},
		{"one, two;three", []string{"one", "two", "three"}},
		{"e-mail v2.0", []string{"e", "mail", "v2", "0"}},
		{"C++ c# f#, a+b ++", []string{"c++", "c#", "f#", "a+", "b"}},
		{"ai翻译gpt", []string{"ai", "翻译", "gpt"}},
		{"法律，顾问 審查", []string{"法律", "顾问", "審查"}},
		{"レストランを予約", []string{"レストランを予約"}},
		{"กฎหมาย ไทย", []string{"กฎหมาย", "ไทย"}},
		{"paint🎨🖌 now", []string{"paint", "🎨", "🖌", "now"}},
		{"é\u0323x", []string{"ẹ\u0301x"}},
		{"\u0301 a", []string{"a"}},
		{"שלום עולם", []string{"שלום", "עולם"}},
	} {
		if diff := cmp.Diff(c.want, search.Words(search.Normalise(c.in)), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("Words(%q) (-want +got):\n%s", c.in, diff)
		}
	}
}

func TestAQueryBeyondItsLimitsIsRefused(t *testing.T) {
	for _, c := range []struct{ name, q, want string }{
		{"a million characters", strings.Repeat("a", 1e6), "q: expected at most 256 bytes, got 1000000"},
		{"257 bytes", strings.Repeat("a", 257), "q: expected at most 256 bytes, got 257"},
		{"100 words", strings.Repeat("a ", 100), "q: expected at most 8 words, got 100"},
		{"9 words in two scripts", "x 法 b 律 c 顾 d 问 e", "q: expected at most 8 words, got 9"},
		{"no UTF-8", "a\xff", "q: expected UTF-8, got other bytes"},
	} {
		words, err := search.ParseWords(c.q)
		if err == nil || err.Error() != c.want || !problem.Is(err, problem.Malformed) {
			t.Errorf("ParseWords(%s) = %v, %v, want %q", c.name, words, err, c.want)
		}
	}
	if words, err := search.ParseWords(strings.Repeat("a ", 8)); err != nil || len(words) != 8 {
		t.Errorf("ParseWords(8 words) = %v, %v, want them", words, err)
	}
}

func TestFormsOfAWordAreOne(t *testing.T) {
	for _, same := range []string{"translate translates translated translation translator", "letter letters lettered", "fly flies", "city cities", "happy happiness", "invoice invoices invoicing", "write writes writing", "run running"} {
		first, ok := search.StemOf(strings.Fields(same)[0])
		for w := range strings.FieldsSeq(same) {
			if got, is := search.StemOf(w); !ok || !is || got != first {
				t.Errorf("Form(%q) = %q, %t, want %q", w, got, is, first)
			}
		}
	}
	for _, w := range []string{"", "a", "ai", "c++", "gpt4", "übersetzt", "翻訳", "Letters", "dying", "ios"} {
		if got, ok := search.StemOf(w); ok {
			t.Errorf("Form(%q) = %q, want none", w, got)
		}
	}
	for _, apart := range [][2]string{{"letter", "lettuce"}, {"news", "new"}, {"law", "lawn"}, {"legal", "leg"}} {
		a, _ := search.StemOf(apart[0])
		if b, _ := search.StemOf(apart[1]); a == b {
			t.Errorf("%q and %q have one form, %q", apart[0], apart[1], a)
		}
	}
}

func TestWordsThatSayNothingNeedNotMatch(t *testing.T) {
	for q, want := range map[string]string{
		"translate a letter to English": "translate letter english", "The the to": "the the to", "IT": "it", "IT support": "support", "什么 is a 法律": "什么 法律", "": "",
		"can you translate this for me please": "translate please", "to be of in on at it is as an": "",
	} {
		words, err := search.ParseWords(q)
		if got := strings.Join(words, " "); got != want || (err != nil) != (want == "" && q != "") {
			t.Errorf("ParseWords(%q) = %q, %v, want %q", q, got, err, want)
		}
	}
}

func FuzzForm(f *testing.F) {
	for _, s := range []string{"translations", "yyy", "ied", "aeiou", "skis", "eed", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, w string) {
		form, ok := search.StemOf(w)
		if ok && (len(form) < 3 || !strings.HasPrefix(w, form[:len(form)-1])) {
			t.Errorf("Form(%q) = %q", w, form)
		}
	})
}

func TestALongTextIsIndexedInItsFirstPart(t *testing.T) {
	e := search.Entry{DeclaredCapabilities: []string{strings.Repeat("é ", search.MaxGroupTextBytes) + "last", "next"}}
	var size int
	for _, text := range e.DeclaredTexts() {
		size += len(text)
	}
	if size > search.MaxGroupTextBytes {
		t.Errorf("DeclaredTexts() have %d bytes, want at most %d", size, search.MaxGroupTextBytes)
	}
	if diff := cmp.Diff([]string{"é"}, e.Terms()[search.GroupClaimed]); diff != "" {
		t.Errorf("Terms() (-want +got):\n%s", diff)
	}
}

func TestNormaliseIsIdempotentForEveryRune(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		switch r { // unassigned and private runes have no folding
		case 0x40000:
			r = 0xE0000
		case 0xE1000:
			r = unicode.MaxRune
		}
		once := search.Normalise("a" + string(r) + "b")
		if again := search.Normalise(once); again != once {
			t.Errorf("Normalise of %U = %q, and of that %q", r, once, again)
		}
	}
	if small, capital := search.Normalise("ꭼᏽ"), search.Normalise("ᎬᏵ"); small != capital {
		t.Errorf("Cherokee: %q and %q differ", small, capital)
	}
}

func FuzzNormalise(f *testing.F) {
	for _, s := range []string{"", "Straße", "cafe\u0301", "\u0345Α", "a\u200d\u0301b", "ﷺ", "\xff", "ʼn ΐ", "ᾳ\u0313", "0000000000Ꭼ"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := search.Normalise(s)
		if again := search.Normalise(once); again != once {
			t.Errorf("Normalise(%q) = %q, and of that %q", s, once, again)
		}
		for _, w := range search.Words(once) {
			if w == "" || !strings.Contains(once, w) {
				t.Errorf("Words(%q) has %q", once, w)
			}
			if again := search.Words(w); len(again) != 1 || again[0] != w {
				t.Errorf("Words(%q) = %q, want it alone", w, again)
			}
		}
	})
}

func FuzzParseWords(f *testing.F) {
	for _, s := range []string{"", "a b", `%_"[]*?~^`, "法律 c++", "\xff", strings.Repeat("x", 300)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		words, err := search.ParseWords(s)
		if err != nil && !problem.Is(err, problem.Malformed) || len(words) > search.MaxWords {
			t.Errorf("ParseWords(%q) = %q, %v", s, words, err)
		}
	})
}

// Everybody may publish a text, and its terms are a cost for every index. A text without spaces has
// three terms per rune.
func TestTheLargestEntryHasNoMoreTermsThanAnIndexAffords(t *testing.T) {
	var b strings.Builder
	for r := rune(0x4e00); b.Len() < 32<<10; r++ {
		b.WriteRune(r)
	}
	text := b.String()
	e := search.Entry{Capability: text, Summary: text, DeclaredCapabilities: []string{text + "a", text + "b"}}
	size := 0
	for _, group := range e.GroupTexts() {
		for _, text := range group {
			size += len(text)
		}
	}
	if size > 12<<10 {
		t.Errorf("GroupTexts() of the largest entry have %d bytes, want at most 12 KB", size)
	}
}
