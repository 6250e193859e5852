package vacants

import (
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
)

// AcceptsFile reports whether the vacant's agent accepts a file.
func (r *Record) AcceptsFile(f *substrate.File) bool {
	if f.URL == "" {
		return slices.Contains(r.Input, f.MediaType)
	}
	spec, err := substrate.Parse(r.Substrate)
	if err != nil || !spec.AcceptsURLs() {
		return false
	}
	return f.MediaType == "" && len(r.Input) > 0 || slices.ContainsFunc(r.Input, func(media string) bool {
		return media == f.MediaType || f.MediaType == AnyImage && strings.HasPrefix(media, "image/")
	})
}

// AnyImage is the media type of an image at a URL if its sender does not specify the type.
const AnyImage = "image/*"
