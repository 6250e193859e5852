package memorybook_test

import (
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/booktest"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/memorybook"
)

func TestContract(t *testing.T) {
	var b memorybook.Book
	booktest.Run(t, func() dispatch.Book { return &b })
}
