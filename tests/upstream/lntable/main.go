// Writes the bits of math.Log for possible topology sizes. On amd64 they come from Go's assembly routine:
//
//	GOARCH=amd64 go run ./lntable > ../../crates/core/tests/tables/spread-ln.txt
package main

import (
	"fmt"
	"math"
	"runtime"
)

func main() {
	fmt.Printf("# math.Log of %s on %s: x, and the bits of its logarithm\n", runtime.Version(), runtime.GOARCH)
	row := func(x int) { fmt.Printf("%d %x\n", x, math.Float64bits(math.Log(float64(x)))) }
	for x := 2; x <= 2002; x++ {
		row(x)
	}
	for x := 2500; x <= 2000000; x += x/7 + 13 {
		row(x)
	}
}
