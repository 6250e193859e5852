// Runs the example provider of OpenID Connect of zitadel's library on loopback, with a client that
// logs people in. It prints its URL. Each line of its standard input is answered by the count of the
// requests for keys.
package main

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		slog.Error(err.Error())
		os.Exit(1)
	}
	issuer := "http://" + listener.Addr().String() + "/"
	storage.RegisterClients(storage.NativeClient("native", "http://localhost/callback"))
	data := storage.NewStorage(storage.NewUserStore(issuer))
	handler := exampleop.SetupServer(issuer, data, slog.New(slog.NewTextHandler(os.Stderr, nil)), false)
	var fetches atomic.Int64
	counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			fetches.Add(1)
		}
		handler.ServeHTTP(w, r)
	})
	go func() {
		slog.Error(http.Serve(listener, counted).Error())
		os.Exit(1)
	}()
	fmt.Println(issuer)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(fetches.Load())
	}
}
