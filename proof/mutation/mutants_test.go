package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A mutant whose text has gone from the source would break nothing, unnoticed.
func TestEveryMutantFindsItsText(t *testing.T) {
	for n, m := range mutants {
		source, err := os.ReadFile(filepath.Join("..", "..", m.file))
		if err != nil {
			t.Fatal(err)
		}
		if count := strings.Count(string(source), m.old); count != 1 {
			t.Errorf("mutant %d: its text occurs %d times in %s: %q", n+1, count, m.file, m.old)
		}
	}
}
