// Package plugin contains what is installed to run LocalStack: the lock file of
// its Python packages, and this project's plugin package.
package plugin

import "embed"

// Lock names every Python package by exact version and digest, as pip reads it.
//
//go:embed localstack.lock
var Lock []byte

// Source is the plugin package and its entry points, laid out as on a Python
// path: a directory of modules and one of metadata.
//
//go:embed vacancy_localstack/*.py vacancy_localstack-1.0.0.dist-info/*
var Source embed.FS
