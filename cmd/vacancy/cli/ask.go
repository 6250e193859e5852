package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// ask puts a question on standard error and wants exactly the given word. It
// gives up when the person interrupts: a read from a terminal does not end by
// itself then.
func (a *app) ask(ctx context.Context, question, word string) error {
	fmt.Fprintf(a.err, "%s ", question)
	type line struct {
		text string
		err  error
	}
	got := make(chan line, 1)
	go func() {
		s, err := a.in.ReadString('\n')
		got <- line{s, err}
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(a.err)
		return problem.New(problem.Canceled, "interrupted")
	case l := <-got:
		if strings.TrimSpace(l.text) == word {
			return nil
		}
		if l.err != nil {
			fmt.Fprintln(a.err)
		}
		return problem.New(problem.Usage, "not confirmed: nothing was done")
	}
}
