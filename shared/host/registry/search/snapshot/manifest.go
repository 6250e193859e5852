package snapshot

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/store/blob"
)

type Manifest struct {
	Format      int       `json:"format"`
	Archive     string    `json:"archive"` // key of its blob
	SHA256      string    `json:"sha256"`
	Size        int64     `json:"size"`
	Mark        string    `json:"mark"` // position in the feed
	Entries     int       `json:"entries"`
	PublishedAt time.Time `json:"published"`
}

const (
	manifestFormat   = 1
	maxManifestBytes = 16 << 10
	archiveSuffix    = ".tar"
)

func (m Manifest) encode() ([]byte, error) {
	b, err := json.MarshalIndent(m, "", "  ")
	return append(b, '\n'), err
}

func parseManifest(text []byte) (Manifest, error) {
	// A manifest must not make a loader read blobs outside Prefix.
	if len(text) > maxManifestBytes {
		return Manifest{}, fmt.Errorf("longer than %d bytes", maxManifestBytes)
	}
	var m Manifest
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return Manifest{}, err
	}
	if _, err := d.Token(); err != io.EOF {
		return Manifest{}, errors.New("unexpected data after the object")
	}
	if m.Format != manifestFormat {
		return m, fmt.Errorf("format is %d, want %d", m.Format, manifestFormat)
	}
	name, hasPrefix := strings.CutPrefix(m.Archive, Prefix)
	if !hasPrefix || strings.Contains(name, "/") || !strings.HasSuffix(name, archiveSuffix) || blob.CheckKey(m.Archive) != nil {
		return m, fmt.Errorf("archive %q is not one of %s*%s", m.Archive, Prefix, archiveSuffix)
	}
	if sum, err := hex.DecodeString(m.SHA256); err != nil || len(sum) != 32 {
		return m, fmt.Errorf("sha256 %q is not 32 bytes of hex", m.SHA256)
	}
	if m.Size < 1 || m.Size > blob.MaxSize || m.Entries < 0 {
		return m, fmt.Errorf("size %d or entry count %d is out of range", m.Size, m.Entries)
	}
	return m, nil
}
