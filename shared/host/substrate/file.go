package substrate

import (
	"slices"
	"strings"
)

// File is content that a caller sends in addition to its text: an image, a document, a JSON value,
// or the URL of one of them. The host neither checks that the bytes have the media type nor fetches
// the URL.
type File struct {
	Name      string // may be empty
	MediaType string // without parameters, in lower case
	Data      []byte // content of a file without a URL
	URL       string // "" if Data is set
}

// MediaJSON is the media type of JSON values.
const MediaJSON = "application/json"

func (f *File) IsText() bool { return isTextType(f.MediaType) }

func isTextType(mediaType string) bool {
	return mediaType == MediaJSON || strings.HasPrefix(mediaType, "text/")
}

// DescribeInputs lists, for display, the media types that the substrate can read in addition to
// text. If the substrate reads only text, the result is "".
func (s Spec) DescribeInputs() string {
	switch types := s.imageTypes(); {
	case s.AcceptsURLs():
		return "any media type"
	case types != nil:
		return strings.Join(types, ", ") + ", application/json, text/..."
	}
	return ""
}

// AcceptsMedia reports whether the substrate can read files of a media type. An HTTP agent and a
// worker can read all types, because the host only forwards the files. A model reads text and those
// images that its provider's API accepts.
func (s Spec) AcceptsMedia(mediaType string) bool {
	types := s.imageTypes()
	return s.AcceptsURLs() || types != nil && (isTextType(mediaType) || slices.Contains(types, mediaType))
}

func (s Spec) AcceptsURLs() bool { return s.Kind == KindHTTP || s.Kind == KindWorker }

func (s Spec) imageTypes() []string {
	switch s.Kind {
	case KindAnthropic, KindBedrock, KindOpenAI, KindMistral, KindOllama:
		return []string{"image/png", "image/jpeg", "image/gif", "image/webp"}
	case KindGemini: // does not accept GIF
		return []string{"image/png", "image/jpeg", "image/webp"}
	}
	return nil
}
