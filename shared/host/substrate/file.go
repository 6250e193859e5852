package substrate

import (
	"slices"
	"strings"
)

// File is content that a caller sends beside its text: an image, a document, a value in JSON, or
// the address of one. All of it is the caller's word: the host compares the bytes with no media
// type and fetches no URL.
type File struct {
	Name      string // or ""
	MediaType string // without parameters, in lower case
	Data      []byte // of a file without a URL
	URL       string // "" for a file with its bytes
}

// MediaJSON is the media type of values in JSON.
const MediaJSON = "application/json"

// IsText reports whether a model reads the file as text.
func (f *File) IsText() bool { return isText(f.MediaType) }

func isText(media string) bool { return media == MediaJSON || strings.HasPrefix(media, "text/") }

// Inputs describes the media types that the substrate can read beside text, for people; "" if it
// reads only text.
func (s Spec) Inputs() string {
	switch images := s.images(); {
	case s.Kind == KindHTTP:
		return "any media type"
	case images != nil:
		return strings.Join(images, ", ") + ", application/json, text/..."
	}
	return ""
}

// Reads reports whether the substrate can read files of a media type. An HTTP agent can read all,
// because the host only passes them on. A model reads images, as far as its provider's API takes
// them, and texts.
func (s Spec) Reads(media string) bool {
	images := s.images()
	return s.Kind == KindHTTP || images != nil && (isText(media) || slices.Contains(images, media))
}

// ReadsURLs reports whether the substrate may be told the URL of a file.
func (s Spec) ReadsURLs() bool { return s.Kind == KindHTTP }

// images returns the media types of images that the API of a model's provider takes; nil if the
// substrate is not a model at a provider or a server.
func (s Spec) images() []string {
	switch s.Kind {
	case KindAnthropic, KindBedrock, KindOpenAI, KindMistral, KindOllama:
		return []string{"image/png", "image/jpeg", "image/gif", "image/webp"}
	case KindGemini: // which takes no GIF
		return []string{"image/png", "image/jpeg", "image/webp"}
	}
	return nil
}
