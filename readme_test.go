package timingwheel_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A snippet that nobody compiles is wrong sooner or later.
func TestReadmeShowsOnlyCodeThatIsCompiled(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	examples, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	compiled := plain(string(examples))
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		assert.Contains(t, compiled, plain(block[1]), "example_test.go must hold each snippet of README.md")
	}
	assert.LessOrEqual(t, strings.Count(string(readme), "\n"), 150, "lines of README.md")
}

// plain strips indentation.
func plain(code string) string {
	return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(code, "")
}
