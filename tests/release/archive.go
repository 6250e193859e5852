package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// archiveName is the name of a system's archive, without its extension. It is the archive's
// only directory, too.
func archiveName(s system, version string) string { return "vacancy_" + version + "_" + s.String() }

// writeArchive writes a system's archive: zip for Windows, otherwise tar with gzip.
func writeArchive(dir string, s system, b stamp, files []file) error {
	top, form, extension := archiveName(s, b.version), writeTar, ".tar.gz"
	if s.os == "windows" {
		form, extension = writeZip, ".zip"
	}
	f, err := os.Create(filepath.Join(dir, top+extension))
	if err != nil {
		return err
	}
	return errors.Join(form(f, top, b, files), f.Close())
}

func writeTar(w io.Writer, top string, b stamp, files []file) error {
	packed := gzip.NewWriter(w)
	t := tar.NewWriter(packed)
	for _, f := range files {
		content, err := os.ReadFile(f.path)
		if err != nil {
			return err
		}
		h := &tar.Header{Name: top + "/" + f.name, Mode: f.mode, Size: int64(len(content)), ModTime: b.time, Format: tar.FormatUSTAR}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(content); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), packed.Close())
}

func writeZip(w io.Writer, top string, b stamp, files []file) error {
	z := zip.NewWriter(w)
	for _, f := range files {
		content, err := os.ReadFile(f.path)
		if err != nil {
			return err
		}
		h := &zip.FileHeader{Name: top + "/" + f.name, Method: zip.Deflate, Modified: b.time}
		h.SetMode(os.FileMode(f.mode))
		part, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := part.Write(content); err != nil {
			return err
		}
	}
	return z.Close()
}
