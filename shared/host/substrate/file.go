package substrate

import (
	"slices"
	"strings"
)

// File is content that a caller sends in addition to its text: an image, a document, a JSON value,
// or the URL of one of them. The host neither checks that the bytes have the media type nor fetches the
// URL.
type File struct {
	Name      string // may be empty
	MediaType string // without parameters, in lower case
	Data      []byte // content of a file without a URL
	URL       string // "" if Data is set
}

// MediaJSON is the media type of JSON values.
const MediaJSON = "application/json"

func (f *File) IsText() bool { return isText(f.MediaType) }

func isText(media string) bool { return media == MediaJSON || strings.HasPrefix(media, "text/") }

// Inputs describes the media types that the substrate can read in addition to text, for display. If
// it reads only text, Inputs returns "".
func (s Spec) Inputs() string {
	switch images := s.images(); {
	case s.AcceptsURLs():
		return "any media type"
	case images != nil:
		return strings.Join(images, ", ") + ", application/json, text/..."
	}
	return ""
}

// AcceptsMedia reports whether the substrate can read files of a media type. An HTTP agent and a worker can
// read all types, because the host only forwards the files. A model reads text and those images that
// its provider's API accepts.
func (s Spec) AcceptsMedia(media string) bool {
	images := s.images()
	return s.AcceptsURLs() || images != nil && (isText(media) || slices.Contains(images, media))
}

func (s Spec) AcceptsURLs() bool { return s.Kind == KindHTTP || s.Kind == KindWorker }

func (s Spec) images() []string {
	switch s.Kind {
	case KindAnthropic, KindBedrock, KindOpenAI, KindMistral, KindOllama:
		return []string{"image/png", "image/jpeg", "image/gif", "image/webp"}
	case KindGemini: // does not accept GIF
		return []string{"image/png", "image/jpeg", "image/webp"}
	}
	return nil
}
