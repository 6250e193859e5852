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

// FindTarget finds the target of a card file, a URL, or the name or id of a vacant. It refuses an
// ambiguous ref, because the wrong vacant could get the message.
func (a *App) FindTarget(ctx context.Context, transport *dispatch.HTTP, ref string, where HostFlags) (dispatch.Target, error) {
	c, fileErr := readCardFile(ref)
	isURL := IsURL(ref)
	hostedTarget, err := a.FindHostedTarget(ctx, transport, ref, where)
	var meanings []string
	if c != nil {
		meanings = append(meanings, "the card file "+ref)
	}
	if isURL {
		meanings = append(meanings, "a URL")
	}
	if hostedTarget != nil {
		meanings = append(meanings, "the vacant hosted here at "+hostedTarget.URL)
	}
	switch {
	case len(meanings) > 1:
		err := problem.New(problem.Usage, "%q may be %s", ref, strings.Join(meanings, ", or "))
		file := "." + string(filepath.Separator) + ref
		if hostedTarget == nil {
			return dispatch.Target{}, WithHint(err, "vacancy call %s, for the file", file)
		}
		return dispatch.Target{}, WithHint(err, "vacancy call %s, for the file, or vacancy call %s", file, hostedTarget.URL)
	case c != nil:
		return dispatch.Target{ID: c.VacantID, URL: c.Endpoint, Card: c, Name: ref}, nil
	case isURL:
		t, err := dispatch.FetchTarget(ctx, transport, ref)
		if err != nil {
			return t, NotVacantError{Cause: err}
		}
		return t, nil
	case hostedTarget != nil:
		return *hostedTarget, nil
	case fileErr != nil:
		return dispatch.Target{}, fileErr
	}
	return dispatch.Target{}, err
}

func IsURL(s string) bool {
	scheme, _, ok := strings.Cut(s, "://")
	return ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// readCardFile reads a card from a file. It returns nil without an error if the file does not
// exist.
func readCardFile(path string) (*card.Card, error) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil, nil
	}
	// The answer of GET /card is larger than the card, because it has the card in hex.
	if info.Size() > 4*card.MaxBlob {
		return nil, problem.New(problem.Usage, "%s is too large for a card", path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, &fs.PathError{Op: "read card", Path: path, Err: err}
	}
	if response, err := canon.Parse(b, canon.DefaultLimits()); err == nil {
		if blob, ok := response.Get("capability_card_blob_hex"); ok {
			b, _ = hex.DecodeString(blob.Text())
		}
	}
	c, err := card.Parse(b)
	if err != nil {
		return nil, problem.New(problem.Usage, "%s is not a card: %s", path, problem.AsError(err).Text())
	}
	return &c, nil
}
