package boltstore_test

import (
	"errors"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// A snippet that nobody compiles is wrong sooner or later.
func TestReadmeShowsOnlyCodeThatIsCompiled(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the module stands alone")
	}
	var compiled string
	for _, name := range []string{"example_test.go", "../example_test.go"} {
		code, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		compiled += plain(string(code))
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) == 0 {
		t.Fatal("README.md shows no code")
	}
	for _, block := range blocks {
		if !strings.Contains(compiled, plain(block[1])) {
			t.Errorf("no example holds this snippet of README.md:\n%s", block[1])
		}
	}
}

// plain strips indentation.
func plain(code string) string {
	return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(code, "")
}
