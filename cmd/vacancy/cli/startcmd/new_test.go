package startcmd

import "testing"

func TestANewAgentTakesAFreePort(t *testing.T) {
	none := func(int) bool { return false }
	fox, hen := findFreePort("/agents/fox", none), findFreePort("/agents/hen", none)
	if fox == hen {
		t.Errorf("two agents have port %d, want one each", fox)
	}
	if again := findFreePort("/agents/fox", none); again != fox {
		t.Errorf("freePort() = %d and then %d for the same directory", fox, again)
	}
	if next := findFreePort("/agents/fox", func(port int) bool { return port == fox }); next == fox || next < firstPort || next >= firstPort+portCount {
		t.Errorf("freePort() = %d if %d is taken, want another one of %d to %d", next, fox, firstPort, firstPort+portCount-1)
	}
	last := firstPort + portCount - 1
	if got := findFreePort("/agents/fox", func(port int) bool { return port != last }); got != last {
		t.Errorf("freePort() = %d, want %d, the only free port", got, last)
	}
	if got := findFreePort("/agents/fox", func(int) bool { return true }); got != fox {
		t.Errorf("freePort() = %d if none is free, want the first choice %d", got, fox)
	}
}
