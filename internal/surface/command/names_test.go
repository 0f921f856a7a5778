package command

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// filters returns the flags that choose by a name from a short list, each with a name in the tests'
// database.
func filters() map[string]string {
	return map[string]string{
		"group": "search", "projection": "scores", "topic": "orders", "publisher": "shop",
		"class": "permanent",
	}
}

// besides returns the other arguments that commands with such flags need.
func besides() map[string]string {
	return map[string]string{
		"failed resolve":           "--reason r --yes",
		"publisher parked resolve": "--reason r --yes",
		"publisher parked show":    "--campaign oak --seq 2",
		"failed show":              "scores oak",
		"failed unresolve":         "scores oak --seq 3 --reason r",
		"campaign replay":          "oak",
		"campaign pause":           "oak",
		"campaign resume":          "oak",
		"publisher pause":          "shop",
		"publisher resume":         "shop",
		"publisher reset":          "shop",
		"publisher show":           "shop",
		"publisher ghosts":         "shop",
		"outbox requeue":           "oak 2",
		"campaign repair-gap":      "oak",
		"group replay":             "default",
		"publisher replay":         "shop oak --from 1",
	}
}

func TestAFilterRefusesANameThatNothingHas(t *testing.T) {
	t.Parallel()
	url := database(t, "failed.sql", "published.sql")
	for command, c := range leaves(newRoot(environment("", false, nil, nil), stock())) {
		for flag, known := range filters() {
			if c.Flags().Lookup(flag) == nil {
				continue
			}
			if c.Flags().Lookup("publishers") != nil || c.Flags().Lookup("projections-dir") != nil {
				continue // the names are in files that the command reads
			}
			t.Run(command+" --"+flag, func(t *testing.T) {
				t.Parallel()
				args := command + " " + besides()[command] + " --" + flag + " nosuch"
				got := execute(t, url, false, args)
				if got.code == cli.ExitOK || !strings.Contains(got.err, `"nosuch"`) || !strings.Contains(got.err, known) {
					t.Errorf("%s\nexit code %d, stdout %q, stderr %q: want a refusal that names nosuch and %s", args, got.code,
						got.out, got.err, known)
				}
			})
		}
	}
}

// TestEveryHintIsACommandThatThereIs reads the sources. Each command line that they suggest must
// exist, with its flags.
func TestEveryHintIsACommandThatThereIs(t *testing.T) {
	t.Parallel()
	found, root := 0, newRoot(environment("", false, nil, nil), stock())
	for _, folder := range []string{"../../../internal", "../../../pkg"} {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") ||
				!slices.Contains([]string{".go", ".html"}, filepath.Ext(path)) {
				return err
			}
			for _, text := range texts(t, path) {
				for _, hint := range hints(root, text) {
					found++
					checkHint(t, root, path, hint)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 60 {
		t.Errorf("only %d hints were found", found)
	}
}

// texts returns the string literals of a Go file, or the whole of another file.
func texts(t *testing.T, path string) (all []string) {
	t.Helper()
	if filepath.Ext(path) != ".go" {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return []string{string(raw)}
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, is := n.(*ast.BasicLit); is && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				all = append(all, text)
			}
		}
		return true
	})
	return all
}

// hints returns the command lines in a text. A noun in prose, as in "tidemark command", is not one.
func hints(root *cobra.Command, text string) (all []string) {
	nouns := map[string]bool{}
	for _, c := range root.Commands() {
		nouns[c.Name()] = true
	}
	for _, m := range regexp.MustCompile("tidemark ([a-z-]+)([^\n;:`<]*)").FindAllStringSubmatch(text, -1) {
		if nouns[m[1]] && !strings.HasSuffix(text, m[1]+" ") { // otherwise the line is concatenated from parts
			all = append(all, m[1]+m[2])
		}
	}
	return all
}

func checkHint(t *testing.T, root *cobra.Command, path, hint string) {
	t.Helper()
	words := strings.Fields(strings.NewReplacer("(", " ", ")", " ", ",", " , ").Replace(hint))
	command, rest, err := root.Find(words)
	if err != nil || command.HasSubCommands() {
		t.Errorf("%s: %q is no command", path, "tidemark "+hint)
		return
	}
	for _, word := range rest {
		if word == "," {
			return
		}
		if name, is := strings.CutPrefix(strings.TrimRight(word, ".'\""), "--"); is &&
			!hasFlag(command, strings.SplitN(name, "=", 2)[0]) {
			t.Errorf("%s: %q: command %q has no --%s", path, hint, command.CommandPath(), name)
		}
	}
}

func hasFlag(c *cobra.Command, name string) bool {
	return name == "help" || c.Flags().Lookup(name) != nil
}
