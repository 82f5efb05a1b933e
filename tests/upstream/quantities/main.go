// Writes tests/fixtures/quantities.txt: upstream's results for quantity texts that are biased to edge cases.
//
//	go run ./quantities > ../fixtures/quantities.txt
//
// Lines, tab-separated, texts as JSON strings:
//
//	=  text  MilliValue  Value      a valid quantity
//	!  text  error                  an invalid quantity
//	+  text  text  MilliValue  Value   the sum of two quantities
//	?  text  text  Cmp              their comparison
//
// Excluded are decimals from 10^29 on, for which upstream returns the low bits of a larger number, and sums with a zero of a finer scale than
// 1e-9, which change upstream's rounding direction for negative amounts.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"strings"

	inf "gopkg.in/inf.v0"
	"k8s.io/apimachinery/pkg/api/resource"
)

var (
	suffixes = []string{"", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
		"e0", "e1", "E2", "e3", "e-1", "e-3", "E-6", "e-9", "e-10", "e+4", "e9", "e15", "e18", "e19", "e-18", "e-25"}
	numbers = []string{"0", "1", "2", "5", "7", "9", "10", "15", "99", "100", "101", "250", "500", "512", "999", "1000", "1001", "1023", "1024",
		"1025", "4000", "8191", "8192", "65535", "1000000", "1048576", "123456789", "999999999", "1000000000", "999999999999",
		"1000000000000000", "9007199254740993", "9223372036854775", "9223372036854776", "922337203685477580", "999999999999999999",
		"1000000000000000000", "9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616",
		"99999999999999999999", "00", "007", "0000000000000000000000001", "0.1", "0.5", "0.001", "0.0001", "0.0005", "0.0000001", "0.000000001",
		"0.0000000001", "0.00000000051", "1.5", "1.05", "1.0005", "1.00049999", "1.000000001", "1.0000000001", "2.675", "3.1415926535897932384", ".5", ".", "1.",
		"0.", "00.50", "999.999", "999.9999", "1023.999", "7.99999999999999999999", "9.223372036854775807", "9223372036.854775807", "0.9999999999999999999"}
	bad = []string{"", " ", "+", "-", "+-1", "--1", "1+", "1-", "1 ", " 1", "1 Gi", "1GI", "1gi", "1K", "1i", "1Bi", "1b", "1B", "mi", "1mi", "1ki", "1KI",
		"1.2.3", "..", "1..", "1e", "1e+", "1e-", "1ee5", "1e5e", "1e1.5", "1e5m", "1em", "1E", "1Ee", "1Ei5", "1e99999999999999999999", "1e9223372036854775807", "1e4294967296", "1e4294967299",
		"e5", "E", "e", "k", "m", "n", "Ki", "Ei", "Pi", "-k", "-Ei", ".Ki", ".Pi", ".e-10", "-.e-10", "e-10", "0x10", "1_000", "1,5", "NaN", "inf", "Infinity", "½", "1µ", "١",
		"1\n", "1\t", "\"1\"", "null", "true", "1/2", "1%", "1kk", "1mm", "1MM", "1nu", "1m5", "1k+5", "1Gi1", "1G-1", "0Ki5", "1e1000", "1e2147483645", "1e2147483647", "1.5e2147483647", "0e2147483647", "1e-25", "0.0e-30"}
)

func quote(s string) string {
	out, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(out)
}

var limit = new(inf.Dec).SetUnscaledBig(inf.NewDec(1, 0).UnscaledBig()).SetScale(-29)

// plain reports whether upstream keeps the amount in its fast form, or keeps it small.
func plain(text string) bool {
	q := resource.MustParse(text)
	if _, fast := q.AsInt64(); fast || strings.Contains(text, "e21474") || strings.Contains(text, "e1000") {
		return true
	}
	return new(inf.Dec).Abs(q.AsDec()).Cmp(limit) < 0
}

// summable reports whether sums with the amount depend on its value alone, and finish in reasonable time.
func summable(text string) bool {
	if strings.Contains(text, "e21474") || strings.Contains(text, "e1000") {
		return false
	}
	q := resource.MustParse(text)
	dec := q.AsDec()
	return new(inf.Dec).Abs(dec).Cmp(limit) < 0 && (dec.Sign() != 0 || dec.Scale() <= 9)
}

func main() {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	random := rand.New(rand.NewSource(1))
	seen := map[string]bool{}
	var good []string
	one := func(text string) {
		if seen[text] {
			return
		}
		seen[text] = true
		q, err := resource.ParseQuantity(text)
		if err != nil {
			fmt.Fprintf(out, "!\t%s\t%s\n", quote(text), err)
			return
		}
		if !plain(text) {
			return
		}
		good = append(good, text)
		fmt.Fprintf(out, "=\t%s\t%d\t%d\n", quote(text), q.MilliValue(), q.Value())
	}
	for _, text := range bad {
		one(text)
	}
	for _, number := range numbers {
		for _, suffix := range suffixes {
			one(number + suffix)
		}
	}
	for _, sign := range []string{"-", "+"} {
		for _, number := range numbers {
			for range 5 {
				one(sign + number + suffixes[random.Intn(len(suffixes))])
			}
		}
	}
	digits := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteByte("0123456789999000"[random.Intn(16)])
		}
		return b.String()
	}
	for range 1200 {
		text := digits(random.Intn(21))
		if random.Intn(2) == 0 {
			text += "." + digits(random.Intn(24))
		}
		one(text + suffixes[random.Intn(len(suffixes))])
	}
	for lines := 0; lines < 1200; {
		a, b := good[random.Intn(len(good))], good[random.Intn(len(good))]
		if !summable(a) || !summable(b) {
			continue
		}
		lines++
		x, y := resource.MustParse(a), resource.MustParse(b)
		fmt.Fprintf(out, "?\t%s\t%s\t%d\n", quote(a), quote(b), x.Cmp(y))
		x, y = resource.MustParse(a), resource.MustParse(b)
		x.Add(y)
		fmt.Fprintf(out, "+\t%s\t%s\t%d\t%d\n", quote(a), quote(b), x.MilliValue(), x.Value())
	}
}
