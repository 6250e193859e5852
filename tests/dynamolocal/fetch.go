package dynamolocal

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cache"
	"github.com/vacancy-host/vacancy/localstack/ddb"
)

// copyDependencies is the Maven goal that lays the jars into a folder, at an
// exact version: the one Maven picks by itself differs between machines.
const copyDependencies = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"

// natives is the version in the file names of SQLite's native libraries, whose
// loader looks for the names without it.
const natives = "-1.0.392"

// Fetch makes sure that cacheDir holds an install of DynamoDB Local and returns
// its folder. Maven fetches the jars (about 50 MB, once), javac compiles the
// launcher. The folder's name is a digest of the recipe, so a change of it is
// a new install. Two processes may fetch at once: one waits for the other.
func Fetch(ctx context.Context, cacheDir string) (string, error) {
	recipe := sha256.New()
	for _, part := range [][]byte{ddb.POM, ddb.Launcher, []byte(copyDependencies + natives)} {
		recipe.Write(part)
	}
	install := cache.Install{
		Name: "dynamodb-local", Version: fmt.Sprintf("%x", recipe.Sum(nil)[:6]),
		Build: func(folder string) error {
			if err := build(ctx, folder); err != nil {
				return fmt.Errorf("installing DynamoDB Local: %w", err)
			}
			return nil
		},
	}
	return install.In(ctx, cacheDir)
}

// build lays jars, native libraries and the launcher's class into dir.
func build(ctx context.Context, dir string) error {
	for _, name := range []string{"java", "javac", "mvn"} {
		if _, err := tool(name); err != nil {
			return err
		}
	}
	pom, launcher := filepath.Join(dir, "pom.xml"), filepath.Join(dir, "LoopbackDynamo.java")
	lib, classes := filepath.Join(dir, "lib"), filepath.Join(dir, "classes")
	if err := errors.Join(os.WriteFile(pom, ddb.POM, 0o644), os.WriteFile(launcher, ddb.Launcher, 0o644)); err != nil {
		return err
	}
	if err := run(ctx, "mvn", "-B", "-q", "-f", pom, copyDependencies,
		"-DincludeScope=runtime", "-DoutputDirectory="+lib); err != nil {
		return err
	}
	files, err := os.ReadDir(lib)
	if err != nil {
		return err
	}
	for _, file := range files {
		name := file.Name()
		plain := strings.Replace(name, natives, "", 1)
		if plain == name || filepath.Ext(name) == ".jar" {
			continue
		}
		if err := os.Rename(filepath.Join(lib, name), filepath.Join(lib, plain)); err != nil {
			return err
		}
	}
	return run(ctx, "javac", "--release", "17", "-nowarn", "-cp", filepath.Join(lib, "*"), "-d", classes, launcher)
}

func run(ctx context.Context, name string, args ...string) error {
	path, err := tool(name)
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

// tool finds a program, in JAVA_HOME before PATH for those of the JDK, and
// says how to get it if it is not there.
func tool(name string) (string, error) {
	const jdk = "a JDK of version 17 or newer (Debian: apt-get install openjdk-17-jdk-headless)"
	from := map[string]string{"java": jdk, "javac": jdk, "mvn": "Maven 3.6 or newer (Debian: apt-get install maven)"}
	if home := os.Getenv("JAVA_HOME"); home != "" && name != "mvn" {
		if path, err := exec.LookPath(filepath.Join(home, "bin", name)); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("DynamoDB Local needs %s, which comes with %s: %w", name, from[name], err)
	}
	return path, nil
}
