package startcmd

import "testing"

func TestANewAgentTakesAFreePort(t *testing.T) {
	none := func(int) bool { return false }
	fox, hen := freePort("/agents/fox", none), freePort("/agents/hen", none)
	if fox == hen {
		t.Errorf("two agents have port %d, want one each", fox)
	}
	if again := freePort("/agents/fox", none); again != fox {
		t.Errorf("freePort() = %d and then %d for the same directory", fox, again)
	}
	if next := freePort("/agents/fox", func(port int) bool { return port == fox }); next == fox || next < firstPort || next >= firstPort+ports {
		t.Errorf("freePort() = %d if %d is taken, want another one of %d to %d", next, fox, firstPort, firstPort+ports-1)
	}
	last := firstPort + ports - 1
	if got := freePort("/agents/fox", func(port int) bool { return port != last }); got != last {
		t.Errorf("freePort() = %d, want %d, the only free port", got, last)
	}
	if got := freePort("/agents/fox", func(int) bool { return true }); got != fox {
		t.Errorf("freePort() = %d if none is free, want the first choice %d", got, fox)
	}
}
