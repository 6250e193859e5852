package substrate

import (
	"slices"
	"strings"
)

type File struct {
	Name      string
	MediaType string // without parameters, in lower case
	Data      []byte
	URL       string // "" if Data is set; the host does not fetch the URL
}

const MediaJSON = "application/json"

func (f *File) IsText() bool { return isTextType(f.MediaType) }

func isTextType(mediaType string) bool {
	return mediaType == MediaJSON || strings.HasPrefix(mediaType, "text/")
}

func (s Spec) DescribeInputs() string {
	switch types := s.imageTypes(); {
	case s.AcceptsURLs():
		return "any media type"
	case types != nil:
		return strings.Join(types, ", ") + ", application/json, text/..."
	}
	return ""
}

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
