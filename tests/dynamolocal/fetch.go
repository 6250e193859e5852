package dynamolocal

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/vacancy-host/vacancy/localstack/ddb"
	"github.com/vacancy-host/vacancy/tests/javaserver"
)

// natives is the version suffix of SQLite's native libraries. The loader looks
// for the names without it.
const natives = "-1.0.392"

func recipe() javaserver.Recipe {
	return javaserver.Recipe{
		Name: "DynamoDB Local", Folder: "dynamodb-local",
		POM: ddb.POM, Class: "LoopbackDynamo", Launcher: ddb.Launcher,
		Finish: renameNatives, Finished: natives,
	}
}

// Fetch installs DynamoDB Local in cacheDir if it is missing (about 50 MB of
// jars) and returns its directory.
func Fetch(ctx context.Context, cacheDir string) (string, error) {
	return recipe().Fetch(ctx, cacheDir)
}

func renameNatives(lib string) error {
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
	return nil
}
