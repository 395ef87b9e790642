// Words counts the words of a text in a map, sorts them by how often they come, and hashes the table. Go's maps are seeded at random, and its runtime
// has threads of its own, which sleep by the clock.
package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"sort"
	"strings"
)

type word struct {
	text  string
	count int
}

//go:noinline
func counts(text string) map[string]int {
	counts := map[string]int{}
	isLetter := func(c rune) bool { return c < 'A' || c > 'Z' && c < 'a' || c > 'z' }
	for _, word := range strings.FieldsFunc(text, isLetter) {
		counts[strings.ToLower(word)]++
	}
	return counts
}

//go:noinline
func sorted(counts map[string]int) []word {
	table := make([]word, 0, len(counts))
	for text, count := range counts {
		table = append(table, word{text, count})
	}
	sort.Slice(table, func(i, j int) bool {
		if table[i].count != table[j].count {
			return table[i].count > table[j].count
		}
		return table[i].text < table[j].text
	})
	return table
}

func main() {
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	table := sorted(counts(string(text)))
	sum := sha256.New()
	words := 0
	for _, word := range table {
		fmt.Fprintln(sum, word.text, word.count)
		words += word.count
	}
	fmt.Printf("%d words; most often: %s %d; %x\n", words, table[0].text, table[0].count, sum.Sum(nil)[:8])
}
