package e2e

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/hammer"
)

// hammerCommand is the command: hammer URL CALLS [ID], which calls a vacant from eight callers at once and
// verifies every answer.
func hammerCommand() {
	if err := hammerHost(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func hammerHost(args []string) (err error) {
	if len(args) < 2 {
		return errors.New("usage: hammer URL CALLS [ID]")
	}
	calls, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	var id identity.ID
	if len(args) > 2 {
		if id, err = identity.ParseID(args[2]); err != nil {
			return err
		}
	}
	target, err := hammer.Find(context.Background(), args[0], id)
	if err != nil {
		return err
	}
	sum, err := hammer.Run(context.Background(), hammer.Config{
		Target: target, Pairs: 8, For: time.Minute, Calls: calls, Size: 100, Now: time.Now, Rand: rand.Reader,
	})
	fmt.Printf("%d calls answered and verified\n", sum.Calls)
	if err == nil && len(sum.Errors) > 0 {
		err = fmt.Errorf("calls failed: %v", sum.First)
	}
	return err
}
