package hangs

import (
	"os"
	"testing"
)

func TestHangs(*testing.T) {
	if os.Getenv("VACANCY_TEST_HANGS") != "" {
		waitForever()
	}
}

func waitForever() { <-make(chan int) }
