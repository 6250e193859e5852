package kit

import (
	"context"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
)

// Target finds the target that the user named by a card file, by a URL, or by the name or id of a
// vacant. It refuses an ambiguous word, because the wrong vacant could get the message.
func (a *App) Target(ctx context.Context, web *dispatch.HTTP, what string, w Where) (dispatch.Target, error) {
	c, fileErr := cardFile(what)
	url := IsURL(what)
	// This error is returned only if the word is neither a card file nor a URL.
	hosted, err := a.HostedTarget(ctx, web, what, w)
	var readings []string
	if c != nil {
		readings = append(readings, "the card file "+what)
	}
	if url {
		readings = append(readings, "a URL")
	}
	if hosted != nil {
		readings = append(readings, "the vacant hosted here at "+hosted.URL)
	}
	switch {
	case len(readings) > 1:
		err := problem.New(problem.Usage, "%q may be %s", what, strings.Join(readings, ", or "))
		file := "." + string(filepath.Separator) + what
		if hosted == nil {
			return dispatch.Target{}, WithHint(err, "vacancy call %s, for the file", file)
		}
		return dispatch.Target{}, WithHint(err, "vacancy call %s, for the file, or vacancy call %s", file, hosted.URL)
	case c != nil:
		return dispatch.Target{ID: c.VacantID, URL: c.Endpoint, Card: c, Name: what}, nil
	case url:
		t, err := dispatch.FetchTarget(ctx, web, what)
		if err != nil {
			return t, NotVacantError{Cause: err}
		}
		return t, nil
	case hosted != nil:
		return *hosted, nil
	case fileErr != nil:
		return dispatch.Target{}, fileErr
	}
	return dispatch.Target{}, err
}

func IsURL(s string) bool {
	scheme, _, ok := strings.Cut(s, "://")
	return ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// cardFile reads a card from a file. If the file does not exist, it returns nil without an error.
// If the file is not a card, it returns an error, which App.Target returns only if the word names
// no other target.
func cardFile(path string) (*card.Card, error) {
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() {
		return nil, nil
	}
	// The limit is higher than the largest card, because the answer of GET /card has the card in
	// hex.
	if st.Size() > 4*card.MaxBlob {
		return nil, problem.New(problem.Usage, "%s is too large for a card", path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, &fs.PathError{Op: "read card", Path: path, Err: err}
	}
	// The answer of GET /card contains the signed card.
	if page, err := canon.Parse(b, canon.DefaultLimits()); err == nil {
		if blob, ok := page.Get("capability_card_blob_hex"); ok {
			b, _ = hex.DecodeString(blob.Text())
		}
	}
	c, err := card.Parse(b)
	if err != nil {
		return nil, problem.New(problem.Usage, "%s is not a card: %s", path, problem.AsError(err).Text())
	}
	return &c, nil
}
