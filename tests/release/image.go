package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the uid and gid of the host in an image.
const user = 65532

// The places in an image.
const (
	imageProgram = "/vacancy"
	imageHome    = "/data" // identities and the host's data directory
	imageRoots   = "/etc/ssl/certs/ca-certificates.crt"
)

// writeImage writes the image of an architecture as a file that `docker load` and `podman
// load` read: a static program, the roots of public certificates, and a volume for the data.
func writeImage(dir string, s system, b stamp, program string) error {
	layer, err := imageLayer(b.time, program)
	if err != nil {
		return err
	}
	image, err := mutate.Append(empty.Image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: b.time}, CreatedBy: "vacancy " + b.version}})
	if err != nil {
		return err
	}
	image, err = mutate.ConfigFile(image, imageConfig(image, s, b))
	if err != nil {
		return err
	}
	tag, err := name.NewTag("vacancy:" + b.version)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(filepath.Join(dir, archiveName(s, b.version)+".image.tar"), tag, image)
}

// imageConfig says how a container runs. The data is for its owner only: the host refuses
// another mode, so the volume begins with the mode and the owner of the directory here.
func imageConfig(image v1.Image, s system, b stamp) *v1.ConfigFile {
	c, err := image.ConfigFile()
	if err != nil {
		c = &v1.ConfigFile{}
	}
	c = c.DeepCopy()
	c.OS, c.Architecture, c.Created = s.os, s.arch, v1.Time{Time: b.time}
	c.Config = v1.Config{
		User:         strconv.Itoa(user) + ":" + strconv.Itoa(user),
		Env:          []string{"VACANCY_HOME=" + imageHome},
		Volumes:      map[string]struct{}{imageHome: {}},
		ExposedPorts: map[string]struct{}{"443/tcp": {}},
		Entrypoint:   []string{imageProgram},
		Cmd:          []string{"serve", "--help"},
		WorkingDir:   "/",
		Healthcheck: &v1.HealthConfig{
			Test: []string{"CMD", imageProgram, "status"}, Interval: 30 * time.Second, Timeout: 5 * time.Second, StartPeriod: 30 * time.Second, Retries: 3,
		},
		Labels: map[string]string{"org.opencontainers.image.title": "vacancy", "org.opencontainers.image.version": b.version, "org.opencontainers.image.licenses": "Apache-2.0"},
	}
	return c
}

// imageLayer holds all files of an image.
func imageLayer(created time.Time, program string) (v1.Layer, error) {
	code, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	t := tar.NewWriter(&packed)
	for _, f := range []struct {
		path    string
		mode    int64
		owner   int
		content []byte // nil for a directory
	}{
		{"/etc/", 0o755, 0, nil}, {"/etc/ssl/", 0o755, 0, nil}, {"/etc/ssl/certs/", 0o755, 0, nil},
		{imageRoots, 0o644, 0, roots()},
		{imageHome + "/", 0o700, user, nil},
		{"/tmp/", 0o1777, 0, nil},
		{imageProgram, 0o755, 0, code},
	} {
		h := &tar.Header{Name: f.path[1:], Mode: f.mode, Uid: f.owner, Gid: f.owner, Size: int64(len(f.content)), ModTime: created, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if f.content == nil {
			h.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := t.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil })
}

// roots are the roots of public certificates that Mozilla trusts, in PEM. Roots with a
// constraint are left out, because a file in PEM cannot say it.
func roots() []byte {
	var b bytes.Buffer
	for r := range bundle.Roots() {
		if r.Constraint == nil {
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate})
		}
	}
	return b.Bytes()
}
