// Package plugin contains the files to install LocalStack: the lock file of its Python packages,
// and this project's plugin package.
package plugin

import "embed"

// Lock names every Python package by exact version and digest, in the format of pip.
//
//go:embed localstack.lock
var Lock []byte

// Source contains the plugin package and its entry points.
//
//go:embed vacancy_localstack/*.py vacancy_localstack-1.0.0.dist-info/*
var Source embed.FS
