//go:build !unix

package kit

import "os"

func columnsOf(*os.File) int { return 0 } // the width of a terminal is unknown on this system
