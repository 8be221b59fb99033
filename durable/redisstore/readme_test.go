package redisstore_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// A snippet that nobody compiles is wrong sooner or later.
func TestReadmeShowsOnlyCodeThatIsCompiled(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	indent := regexp.MustCompile(`(?m)^[ \t]+`)
	compiled := indent.ReplaceAllString(string(example), "")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) == 0 {
		t.Fatal("README.md shows no code")
	}
	for _, block := range blocks {
		if !strings.Contains(compiled, indent.ReplaceAllString(block[1], "")) {
			t.Errorf("no example holds this snippet of README.md:\n%s", block[1])
		}
	}
}
