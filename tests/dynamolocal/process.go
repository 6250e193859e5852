package dynamolocal

import (
	"context"

	"github.com/vacancy-host/vacancy/tests/javaserver"
)

// StartProcess starts a server from the install in cacheDir, and installs it if
// missing. ctx limits the start. The server runs until Stop or the end of this
// process.
func StartProcess(ctx context.Context, cacheDir string) (*javaserver.Server, error) {
	return recipe().Start(ctx, cacheDir, javaserver.Options{
		JVM: func(lib string) []string {
			return []string{"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
				"-Djava.library.path=" + lib, "-Dsqlite4java.library.path=" + lib}
		},
		Env: []string{"DDB_LOCAL_TELEMETRY=0"},
	})
}
