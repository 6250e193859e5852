package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/vacants"
)

// markdown returns the HTML that the page of a vacant shows for an answer in Markdown.
func (p *page) markdown(source string) (html string) {
	p.t.Helper()
	p.eval(fmt.Sprintf(`import(document.querySelector("script[type=module]").src.replace("page.js", "markdown.js")).then((m) => m.markdown(%s).innerHTML)`, encode(p.t, source)), &html)
	return strings.ReplaceAll(html, ` dir="auto"`, "")
}

// Markdown becomes elements, and what is not Markdown stays as it was written.
func TestAnswersAreMarkdown(t *testing.T) {
	c := newChat(t, vacants.CreateSpec{})
	p := c.tab()
	link := func(href, text, more string) string {
		return `<a href="` + href + `" target="_blank" rel="noopener noreferrer nofollow">` + text + `</a>` + more
	}
	host := func(name string) string { return `<span class="muted" dir="ltr"> (` + name + `)</span>` }
	code := func(text string) string {
		return `<div class="copy"><pre tabindex="0">` + text + `</pre><button type="button" class="quiet">Copy</button></div>`
	}
	for source, want := range map[string]string{
		"":                                  "",
		"plain":                             "<p>plain</p>",
		"one\ntwo":                          "<p>one\ntwo</p>",
		"one\r\n\r\ntwo":                    "<p>one</p><p>two</p>",
		"2 * 3 * 4 = snake_case_name, a_b_": "<p>2 * 3 * 4 = snake_case_name, a_b_</p>",
		"# One\n### Three\n# Two\ntext":     "<h4>One</h4><h5>Three</h5><h4>Two</h4><p>text</p>",
		"#hashtag":                          "<p>#hashtag</p>",
		"**bold**, *em*, __bold__, _em_, ~~gone~~, ***both***": "<p><strong>bold</strong>, <em>em</em>, <strong>bold</strong>, <em>em</em>, <del>gone</del>, <strong><em>both</em></strong></p>",
		"**bold *and em***":                           "<p><strong>bold <em>and em</em></strong></p>",
		"**open and `code`":                           "<p>**open and <code>code</code></p>",
		"`` a`b `` and `<b>`":                         "<p><code> a`b </code> and <code>&lt;b&gt;</code></p>",
		`\*not em\* \<`:                               "<p>*not em* &lt;</p>",
		"- a\n- b\n  - c\n    more\n- d":              "<ul><li><p>a</p></li><li><p>b</p><ul><li><p>c\nmore</p></li></ul></li><li><p>d</p></li></ul>",
		"1. a\n   - b\n2. c\n\ntext":                  "<ol><li><p>a</p><ul><li><p>b</p></li></ul></li><li><p>c</p></li></ol><p>text</p>",
		"3) a\n4) b":                                  `<ol start="3"><li><p>a</p></li><li><p>b</p></li></ol>`,
		"It ended in\n1984. Then":                     "<p>It ended in\n1984. Then</p>",
		"> a\n> - b\n\nc":                             "<blockquote><p>a</p><ul><li><p>b</p></li></ul></blockquote><p>c</p>",
		"a\n\n---\n\nb":                               "<p>a</p><hr><p>b</p>",
		"```go\nif a < b {\n\t**x**\n\n}\n```\nafter": code("if a &lt; b {\n\t**x**\n\n}") + "<p>after</p>",
		"~~~\nopen":                                   code("open"),
		"- a\n  ```\n  x\n  ```\n- b":                 "<ul><li><p>a</p>" + code("x") + "</li><li><p>b</p></li></ul>",
		"| a | b |\n|---|---|\n| 1 | 2 |":             "<pre tabindex=\"0\">| a | b |\n|---|---|\n| 1 | 2 |</pre>",
		// Links say where they lead.
		"[docs](https://example.org/a_b_(c)?x=*y*)":             "<p>" + link("https://example.org/a_b_(c)?x=*y*", "docs", host("example.org")) + "</p>",
		"[**b** `c`](http://example.org \"title\")":             "<p>" + link("http://example.org/", "<strong>b</strong> <code>c</code>", host("example.org")) + "</p>",
		"See https://example.org/a_b_c. Or (http://x.example)!": "<p>See " + link("https://example.org/a_b_c", "https://example.org/a_b_c", "") + ". Or (" + link("http://x.example/", "http://x.example", "") + ")!</p>",
		"<mailto:a@example.org>":                                "<p>" + link("mailto:a@example.org", "mailto:a@example.org", host("a@example.org")) + "</p>",
		"[https://bank.example](https://evil.example)":          "<p>" + link("https://evil.example/", "https://bank.example", host("evil.example")) + "</p>",
		"[https://bank.example.com](https://bank.example)":      "<p>" + link("https://bank.example/", "https://bank.example.com", host("bank.example")) + "</p>",
		"https://bank.example@evil.example/":                    "<p>" + link("https://bank.example@evil.example/", "https://bank.example@evil.example/", host("evil.example")) + "</p>",
		"https://b\u0430nk.example":                             "<p>" + link("https://xn--bnk-6cd.example/", "https://b\u0430nk.example", host("xn--bnk-6cd.example")) + "</p>",
		"![cat](https://example.org/cat.png)":                   "<p>" + link("https://example.org/cat.png", "Image: cat", host("example.org")) + "</p>",
		"[![a](https://i.example)](https://l.example)":          "<p>" + link("https://l.example/", "![a](https://i.example)", host("l.example")) + "</p>",
		// Other addresses, and HTML, are text.
		"[x](javascript:alert(1))":     "<p>[x](javascript:alert(1))</p>",
		"[x](JaVaScRiPt:alert(1))":     "<p>[x](JaVaScRiPt:alert(1))</p>",
		"[x](data:text/html,<b>)":      "<p>[x](data:text/html,&lt;b&gt;)</p>",
		"[x](/web/keys) [y](#a)":       "<p>[x](/web/keys) [y](#a)</p>",
		"<javascript:alert(1)>":        "<p>&lt;javascript:alert(1)&gt;</p>",
		"![x](data:image/png;base64,)": "<p>![x](data:image/png;base64,)</p>",
		"<img src=x onerror=alert(1)> <script>alert(1)</script>\n<!-- a -->&lt;": "<p>&lt;img src=x onerror=alert(1)&gt; &lt;script&gt;alert(1)&lt;/script&gt;\n&lt;!-- a --&gt;&amp;lt;</p>",
		"[a\"onclick=x](https://example.org/\"onclick=x)":                        "<p>" + link("https://example.org/%22onclick=x", "a\"onclick=x", host("example.org")) + "</p>",
		// Characters that would turn around the text are shown, also within code and links.
		"a\u202eb `c\u2066d` [e\u202e](https://example.org/\u202egnp)": "<p>a⟨U+202E⟩b <code>c⟨U+2066⟩d</code> " + link("https://example.org/%E2%9F%A8U+202E%E2%9F%A9gnp", "e⟨U+202E⟩", host("example.org")) + "</p>",
	} {
		if got := p.markdown(source); got != want {
			t.Errorf("%q is\n%s, want\n%s", source, got, want)
		}
	}
}

// An answer of 1 MB, or one that is nested deeply, is shown whole, with a bounded number of elements.
func TestLargeMarkdownIsShownWhole(t *testing.T) {
	c := newChat(t, vacants.CreateSpec{})
	p := c.tab()
	steps := ""
	for i := range 1000 {
		steps += strings.Repeat("  ", i) + "- x\n"
	}
	for name, source := range map[string]string{
		"one line of nested lists": strings.Repeat("- ", 1000) + "x", "nested lists": steps, "nested quotes": strings.Repeat("> ", 1000) + "x",
		"letters": strings.Repeat("x", 1<<20), "words": strings.Repeat("word ", 1<<20/5), "lines": strings.Repeat("x\n", 1<<19), "blank lines": strings.Repeat("\n", 1<<20) + "x",
		"items": strings.Repeat("- x\n", 1<<18), "stars": strings.Repeat("*", 1<<20) + "x", "openers": strings.Repeat("**x ", 1<<18), "nested emphasis": strings.Repeat("*x **y ", 1<<17),
		"brackets": strings.Repeat("[", 1<<20) + "x", "labels": strings.Repeat("[x](", 1<<18), "images": strings.Repeat("![x](http://a)", 1<<16), "addresses": strings.Repeat("http://x.example ", 1<<16),
		"bad addresses": strings.Repeat("http://[", 1<<17), "long address": "http://a" + strings.Repeat(")", 1<<20),
		"ticks": strings.Repeat("`x``", 1<<18), "fence": "```\n" + strings.Repeat("x\n", 1<<19), "escapes": strings.Repeat(`\*`, 1<<19) + "x", "spaces": "x" + strings.Repeat(" ", 1<<20) + "x",
		"spaced rule": strings.Repeat("- ", 1<<19) + "x", "hashes": "# " + strings.Repeat("# ", 1<<19) + "x", "angles": strings.Repeat("<http://x", 1<<17), "long label": "[" + strings.Repeat("x", 1<<20), "tables": strings.Repeat("|x|\n\n", 1<<17),
	} {
		// The letters of the source are in the page.
		var got struct{ Elements, Letters, Took int }
		p.eval(fmt.Sprintf(`import(document.querySelector("script[type=module]").src.replace("page.js", "markdown.js")).then((m) => {
			const source = %s;
			const began = performance.now();
			const box = m.markdown(source);
			document.body.append(box);
			const shown = { elements: box.querySelectorAll("*").length, letters: box.textContent.split("x").length - source.split("x").length };
			box.offsetHeight;
			shown.took = Math.round(performance.now() - began);
			box.remove();
			return shown;
		})`, encode(t, source)), &got)
		extra := 0
		if name == "fence" || name == "images" || name == "addresses" || name == "labels" {
			extra = got.Letters // hosts of links repeat letters
		}
		t.Logf("%s: %d ms", name, got.Took)
		if got.Elements > 5000 || got.Letters != extra {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// encode is a string of JavaScript.
func encode(t *testing.T, text string) string {
	t.Helper()
	b, err := json.Marshal(text)
	must(t, err)
	return string(b)
}

// An answer is shown as Markdown, and so after a reload; it can be copied as it was written, and loads nothing.
func TestAnAnswerInMarkdown(t *testing.T) {
	c := newChat(t, vacants.CreateSpec{})
	const answer = "## Letters\n\nUse **one** of:\n\n1. [the docs](https://example.org/docs)\n2. ![a cat](https://example.org/cat.png)\n3. <img src=https://example.org/x.png onerror=\"globalThis.hacked=1\">\n\n```sh\nrm -rf \"$X\"\n```\n\n| a | b |\n|---|---|\n\n> \u202eevil and [bad](javascript:globalThis.hacked=1) \u0645\u0631\u062d\u0628\u0627"
	c.play(func(_ string, w http.ResponseWriter) { reply(w, answer) })
	// A test has no clipboard of its own.
	p := c.prepared(`navigator.clipboard.writeText = async (text) => { window.copied = text; };`)
	p.until(`document.querySelector("#message") !== null`)
	p.say("# not Markdown")
	p.heard(1)
	var first, again, copied, mine string
	p.eval(`document.querySelector(".theirs .text").outerHTML`, &first)
	for _, want := range []string{"<h4", "<strong>one</strong>", "<ol>", `href="https://example.org/docs"`, "<pre", "<blockquote>", "⟨U+202E⟩evil", "&lt;img src"} {
		if !strings.Contains(first, want) {
			t.Errorf("the answer is %s, want %q", first, want)
		}
	}
	p.eval(`document.querySelector(".mine .text").outerHTML`, &mine)
	if !strings.Contains(mine, "># not Markdown<") {
		t.Errorf("the message is %s", mine)
	}
	for selector, want := range map[string]string{".theirs .text .copy button": `rm -rf "$X"`, ".theirs > button": answer} {
		p.click(selector)
		p.until(`document.querySelector("` + selector + `").textContent === "Copied"`)
		if p.eval("window.copied", &copied); copied != want {
			t.Errorf("%s copies %q", selector, copied)
		}
	}
	p.verified()
	p.visit(c.url + "/web/vacants/demo")
	p.heard(1)
	if p.eval(`document.querySelector(".theirs .text").outerHTML`, &again); again != first {
		t.Errorf("after a reload the answer is %s, before %s", again, first)
	}
	p.eval(`"hacked" in globalThis && Promise.reject("hacked")`, nil)
	p.accessible("talk-markdown")

	// Without its program the answer is shown as it was written.
	block := func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/markdown.js") {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return c.answer(w, r)
	}
	c.hosted.between.Store(&block)
	q := newProfile(t, c.url).open(c.url + "/web/vacants/demo")
	q.until(`document.querySelector("#message") !== null`)
	q.say("again")
	if got := q.heard(1); !strings.HasPrefix(got, "## Letters\n\nUse **one**") || strings.Contains(got, "\u202e") {
		t.Errorf("the page shows %q", got)
	}
	q.verified()
	q.takeFaults()
}
