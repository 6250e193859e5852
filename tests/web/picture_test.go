package web

import (
	"flag"
	"os"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/vacancy-host/vacancy/shared/host/vacants"
)

// picture is where the README's picture is written:
// go test ./tests/web -run TestPictureOfAPage -picture ../../shared/front/web/page.png
var picture = flag.String("picture", "", "write a picture of a vacant's page to a file")

// maxPicture bounds the README's picture in bytes.
const maxPicture = 60_000

// The README begins with a picture of a page.
func TestPictureOfAPage(t *testing.T) {
	const file = "../../shared/front/web/page.png"
	if *picture == "" {
		if info, err := os.Stat(file); err != nil || info.Size() > maxPicture {
			t.Errorf("%s: %v, want at most %d bytes", file, err, maxPicture)
		}
		return
	}
	c := newChat(t, vacants.CreateSpec{})
	p := c.tab()
	p.view(760, "light")
	p.say("hello")
	p.heard(1)
	p.eval(`document.activeElement.blur()`, nil)
	// Below are the programs that call the vacant.
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 760, Height: 640, DeviceScaleFactor: 1})
	b, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(*picture, b, 0o644)
	}
	must(t, err)
}
