// Package javaserver installs and runs servers for tests that are Java programs. Maven fetches the
// jars, and a launcher of this project binds the server to the loopback address.
//
// A server ends with the process that started it, because it ends when its standard input is
// closed.
package javaserver

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cache"
)

// copyDependencies is the Maven goal that copies the jars into a directory, at
// an exact version: Maven's default version differs between machines.
const copyDependencies = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"

// Recipe describes how a server is installed.
type Recipe struct {
	Name     string // for messages: DynamoDB Local
	Folder   string // name of the install in the cache: dynamodb-local
	POM      []byte // lists the server as its runtime dependencies
	Class    string // of the launcher, and of its source file
	Launcher []byte // prints "listening PORT" and ends with its standard input
	// Finish changes the directory of the jars after the download; nil means no
	// change. Finished names the change, so that another change is another
	// install.
	Finish   func(lib string) error
	Finished string
}

// Fetch installs the server in cacheDir if it is missing and returns its
// directory, with the jars in lib and the launcher in classes. The directory's
// name is a digest of the recipe, so a changed recipe is a new install.
// Concurrent fetches wait for each other.
func (r Recipe) Fetch(ctx context.Context, cacheDir string) (string, error) {
	digest := sha256.New()
	for _, part := range [][]byte{r.POM, r.Launcher, []byte(copyDependencies + r.Finished)} {
		digest.Write(part)
	}
	install := cache.Install{
		Name: r.Folder, Version: fmt.Sprintf("%x", digest.Sum(nil)[:6]),
		Build: func(folder string) error {
			if err := r.build(ctx, folder); err != nil {
				return fmt.Errorf("installing %s: %w", r.Name, err)
			}
			return nil
		},
	}
	return install.EnsureIn(ctx, cacheDir)
}

// build puts the jars and the launcher's class into dir.
func (r Recipe) build(ctx context.Context, dir string) error {
	for _, name := range []string{"java", "javac", "mvn"} {
		if _, err := r.tool(name); err != nil {
			return err
		}
	}
	pom, launcher := filepath.Join(dir, "pom.xml"), filepath.Join(dir, r.Class+".java")
	lib, classes := filepath.Join(dir, "lib"), filepath.Join(dir, "classes")
	if err := errors.Join(os.WriteFile(pom, r.POM, 0o644), os.WriteFile(launcher, r.Launcher, 0o644)); err != nil {
		return err
	}
	if err := r.run(ctx, "mvn", "-B", "-q", "-f", pom, copyDependencies,
		"-DincludeScope=runtime", "-DoutputDirectory="+lib); err != nil {
		return err
	}
	if r.Finish != nil {
		if err := r.Finish(lib); err != nil {
			return err
		}
	}
	return r.run(ctx, "javac", "--release", "17", "-nowarn", "-cp", filepath.Join(lib, "*"), "-d", classes, launcher)
}

func (r Recipe) run(ctx context.Context, name string, args ...string) error {
	path, err := r.tool(name)
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	if err != nil {
		const most = 2 << 10
		return fmt.Errorf("%s: %w: %s", name, err, out[max(0, len(out)-most):])
	}
	return nil
}

// tool finds a program: programs of the JDK in JAVA_HOME before PATH. If it is
// missing, the error says how to install it.
func (r Recipe) tool(name string) (string, error) {
	const jdk = "a JDK of version 17 or newer (Debian: apt-get install openjdk-17-jdk-headless)"
	from := map[string]string{"java": jdk, "javac": jdk, "mvn": "Maven 3.6 or newer (Debian: apt-get install maven)"}
	if home := os.Getenv("JAVA_HOME"); home != "" && name != "mvn" {
		if path, err := exec.LookPath(filepath.Join(home, "bin", name)); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s needs %s, which comes with %s: %w", r.Name, name, from[name], err)
	}
	return path, nil
}
