// Package web tests the JavaScript module against the golden vectors, and the pages under their
// content security policy. It controls Chromium and runs a host in the same process.
package web

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cache"
	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/tests/installed"
)

//go:embed testdata
var files embed.FS

// hang bounds one wait, only so that a failed test ends.
const hang = await.Limit

// chromium is the one browser process of the package, started by the first page.
var chromium struct {
	start sync.Once
	ctx   context.Context
	stop  func()
	err   error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if chromium.stop != nil {
		chromium.stop()
	}
	os.Exit(code)
}

// startChromium starts a headless browser that asks nobody but the hosts of the tests.
func startChromium() {
	folder, err := os.MkdirTemp("", "vacancy-chromium-")
	if err != nil {
		chromium.err = err
		return
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.Headless, chromedp.DisableGPU, chromedp.UserDataDir(folder),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true),
	}
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // the sandbox refuses to run as root
	}
	allocator, release := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(allocator)
	chromium.stop = func() {
		_ = chromedp.Cancel(ctx) // waits for the process
		end()
		release()
		_ = os.RemoveAll(folder)
	}
	chromium.ctx, chromium.err = ctx, chromedp.Do(ctx)
}

// profile is a browser profile with storage of its own. Its pages share that storage, as
// the tabs of one person do.
type profile struct {
	t     *testing.T
	ctx   context.Context
	hosts []string
}

// newProfile makes a profile whose pages may ask the hosts of the given URLs only.
func newProfile(t *testing.T, urls ...string) *profile {
	t.Helper()
	limited(t, "Chromium starts", func() error {
		chromium.start.Do(startChromium)
		return chromium.err
	})
	ctx, end := chromedp.NewContext(chromium.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(end)
	p := &profile{t: t, ctx: ctx}
	for _, raw := range urls {
		u, err := url.Parse(raw)
		must(t, err)
		p.hosts = append(p.hosts, u.Host)
	}
	limited(t, "Chromium makes a profile", func() error { return chromedp.Do(ctx) })
	return p
}

// limited runs an action whose context must live as long as a tab or the browser.
func limited(t *testing.T, what string, action func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- action() }()
	if err := await.Receive(t, what, done); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// page is a tab. A violation of the content security policy, an error of the console, a
// missing asset or a request to another host fails the test when the page ends.
type page struct {
	t     *testing.T
	ctx   context.Context
	close func()

	mu     sync.Mutex
	faults []string
}

// open opens a tab at an address.
func (p *profile) open(address string) *page {
	p.t.Helper()
	tab := &page{t: p.t}
	ctx, end := chromedp.NewContext(p.ctx, chromedp.WithListener(func(event any) { tab.observe(event, p.hosts) }))
	tab.ctx = ctx
	tab.close = sync.OnceFunc(func() {
		tab.mu.Lock()
		defer tab.mu.Unlock()
		for _, fault := range tab.faults {
			p.t.Errorf("the page at %s: %s", address, fault)
		}
		end()
	})
	p.t.Cleanup(tab.close)
	// The first action opens the tab, which closes with the context of that action.
	limited(p.t, "Chromium opens a tab", func() error { return chromedp.Do(ctx) })
	call(tab, audits.Enable, cdp.Empty{})
	call(tab, network.Enable, network.EnableParams{})
	call(tab, log.Enable, cdp.Empty{})
	tab.visit(address)
	return tab
}

// call runs a command of the browser's protocol in a tab.
func call[P, R any](p *page, command cdp.Command[P, R], params P) {
	p.t.Helper()
	ctx, end := context.WithTimeout(p.ctx, hang)
	defer end()
	if _, err := chromedp.Call(ctx, command, params); err != nil {
		p.t.Fatal(err)
	}
}

// newPage opens a tab in a profile of its own.
func newPage(t *testing.T, address string) *page {
	t.Helper()
	return newProfile(t, address).open(address)
}

func (p *page) observe(event any, hosts []string) {
	switch e := event.(type) {
	case *audits.EventIssueAdded:
		if d := e.Issue.Details; d != nil && d.ContentSecurityPolicyIssueDetails != nil {
			c := d.ContentSecurityPolicyIssueDetails
			p.fault("violates its content security policy: %s %s", c.ViolatedDirective, c.BlockedURL)
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeAssert {
			var said []string
			for _, a := range e.Args {
				said = append(said, string(a.Value)+a.Description)
			}
			p.fault("console error: %s", strings.Join(said, " "))
		}
	case *runtime.EventExceptionThrown:
		p.fault("uncaught: %s", uncaught(e.ExceptionDetails))
	case *log.EventEntryAdded:
		// Chromium also logs answers with an error status. Below, observe judges assets by
		// their status.
		if e.Entry.Level == log.EntryLevelError && e.Entry.Source != log.EntrySourceNetwork {
			p.fault("logged: %s %s", e.Entry.Text, e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		u, err := url.Parse(e.Request.URL)
		if err != nil || (u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "ws" || u.Scheme == "wss") && !slices.Contains(hosts, u.Host) {
			p.fault("foreign request: %s", e.Request.URL)
		}
	case *network.EventResponseReceived:
		asset := e.Type == network.ResourceTypeScript || e.Type == network.ResourceTypeStylesheet || e.Type == network.ResourceTypeImage
		if asset && e.Response.Status >= 400 {
			p.fault("missing asset: %s is %d", e.Response.URL, e.Response.Status)
		}
	}
}

func (p *page) fault(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

// takeFaults returns the faults so far, which then do not fail the test.
func (p *page) takeFaults() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.faults
	p.faults = nil
	return taken
}

// uncaught is the text of an exception.
func uncaught(d *runtime.ExceptionDetails) string {
	if d.Exception != nil {
		return d.Text + " " + d.Exception.Description
	}
	return d.Text
}

// run runs actions in the tab.
func (p *page) run(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	must(p.t, p.try(actions...))
}

func (p *page) try(actions ...chromedp.Action[chromedp.Void]) error {
	ctx, end := context.WithTimeout(p.ctx, hang)
	defer end()
	return chromedp.Do(ctx, actions...)
}

// visit loads an address.
func (p *page) visit(address string) {
	p.t.Helper()
	p.run(chromedp.Navigate(address))
}

// eval evaluates an expression, awaits it if it is a promise, and decodes its value into
// out, which may be nil.
func (p *page) eval(expression string, out any) {
	p.t.Helper()
	if err := p.tryEval(expression, out); err != nil {
		p.t.Fatalf("%.200s: %v", expression, err)
	}
}

func (p *page) tryEval(expression string, out any) error {
	ctx, end := context.WithTimeout(p.ctx, hang)
	defer end()
	if out == nil {
		_, err := chromedp.Run(ctx, chromedp.Evaluate[*runtime.RemoteObject](expression, chromedp.EvalAwaitPromise))
		return err
	}
	value, err := chromedp.Run(ctx, chromedp.Evaluate[jsonv2.Value](expression, chromedp.EvalAwaitPromise, chromedp.EvalAsValue))
	if err != nil {
		return err
	}
	return json.Unmarshal(value, out)
}

// until waits until an expression is true, also while the page loads another.
func (p *page) until(expression string) {
	p.t.Helper()
	ctx, end := context.WithTimeout(p.ctx, hang)
	defer end()
	for {
		_, err := chromedp.Run(ctx, chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingTimeout(hang)))
		if err == nil {
			return
		}
		if navigated := new(cdproto.Error); ctx.Err() == nil && errors.As(err, &navigated) {
			continue
		}
		var text string
		_ = p.tryEval("document.body.innerText", &text)
		p.t.Fatalf("%s: %v; the page shows:\n%s", expression, err, text)
	}
}

// click clicks the element of a selector.
func (p *page) click(selector string) {
	p.t.Helper()
	p.run(chromedp.Click(chromedp.CSS(selector)))
}

// follow clicks an element that loads another page, and waits for that page.
func (p *page) follow(selector string) {
	p.t.Helper()
	ctx, end := context.WithTimeout(p.ctx, hang)
	defer end()
	if _, err := chromedp.RunResponse(ctx, chromedp.Click(chromedp.CSS(selector))); err != nil {
		p.t.Fatalf("follow %s: %v", selector, err)
	}
}

// fill types a text into the element of a selector.
func (p *page) fill(selector, text string) {
	p.t.Helper()
	p.run(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// drop gives a file to the file input of a selector.
func (p *page) drop(selector, path string) {
	p.t.Helper()
	p.run(chromedp.SetUploadFiles(chromedp.CSS(selector), []string{path}))
}

// text returns the visible text of the element of a selector.
func (p *page) text(selector string) string {
	p.t.Helper()
	ctx, end := context.WithTimeout(p.ctx, hang)
	defer end()
	text, err := chromedp.Run(ctx, chromedp.Text(chromedp.CSS(selector)))
	if err != nil {
		p.t.Fatalf("text of %s: %v", selector, err)
	}
	return text
}

// view sets width and colour scheme, without transitions of colours that axe would measure.
func (p *page) view(width int64, scheme string) {
	p.t.Helper()
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1})
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
}

// screenshot stores a picture of the whole page as NAME.png in the cache folder.
func (p *page) screenshot(name string) {
	p.t.Helper()
	dir, err := cache.Dir(os.Getenv)
	must(p.t, err)
	folder := filepath.Join(dir, "screenshots")
	ctx, end := context.WithTimeout(p.ctx, hang)
	defer end()
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	must(p.t, errors.Join(err, os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o600)))
}

// save clicks a link that saves a file, and waits until a folder has the file.
func (p *page) save(selector, folder string) {
	p.t.Helper()
	params := browser.SetDownloadBehaviorParams{Behavior: browser.SetDownloadBehaviorBehaviorAllow, BrowserContextID: chromedp.FromContext(p.ctx).BrowserContextID, DownloadPath: folder, EventsEnabled: new(true)}
	if _, err := chromedp.CallBrowser(p.ctx, browser.SetDownloadBehavior, params); err != nil {
		p.t.Fatal(err)
	}
	ctx, end := context.WithTimeout(p.ctx, hang)
	defer end()
	progress := chromedp.BrowserEvents(ctx, browser.DownloadProgress)
	p.click(selector)
	for e, err := range progress {
		must(p.t, err)
		if e.State == browser.DownloadProgressStateCompleted {
			return
		}
	}
	p.t.Fatal("nothing was saved")
}

// tools is the folder of axe-core and TypeScript.
func tools(t *testing.T) string {
	t.Helper()
	return filepath.Join(installed.Node(t, files, "tools", "typescript"), "node_modules")
}

// accessible fails for each violation that axe-core finds in light and dark, at 320 and
// 1,280 pixels, and stores a screenshot of each.
func (p *page) accessible(name string) {
	p.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{320, 1280} {
			for _, v := range p.violations(scheme, width) {
				p.t.Errorf("%s, %s, %d px: %s", name, scheme, width, v)
			}
			p.screenshot(fmt.Sprintf("%s-%s-%d", name, scheme, width))
		}
	}
}

// violations returns what axe-core finds in a colour scheme at a width, and whether the page
// is wider than its window.
func (p *page) violations(scheme string, width int64) []string {
	p.t.Helper()
	axe, err := os.ReadFile(filepath.Join(tools(p.t), "axe-core", "axe.min.js"))
	must(p.t, err)
	p.view(width, scheme)
	p.eval(string(axe)+"; true", nil)
	var found struct {
		Wide       bool
		Rules      int
		Violations []string
	}
	p.eval(`axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then((r) => ({
		wide: document.documentElement.scrollWidth > document.documentElement.clientWidth,
		rules: r.passes.length,
		violations: r.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + n.target + ": " + n.failureSummary)),
	}))`, &found)
	if found.Rules == 0 {
		p.t.Error("axe checked nothing")
	}
	if found.Wide {
		found.Violations = append(found.Violations, "scrolls horizontally")
	}
	return found.Violations
}

// must ends the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
