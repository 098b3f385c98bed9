package faulty_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// correct are the files without a bug, which many mutants use.
var correct = []string{"base.go", "patch.go", "answer.go", "doc.go"}

// source is the code of this package that holds bugs.
type source struct {
	fset    *token.FileSet
	decls   map[string][]ast.Node // by name: a function, or a type and its methods
	entries []entry
}

// entry is a mutant as it stands in a table, which is a function that returns mutants.
type entry struct {
	name    string
	literal *ast.CompositeLit
}

func readSource(t *testing.T) *source {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	src := &source{fset: token.NewFileSet(), decls: map[string][]ast.Node{}}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || slices.Contains(correct, name) {
			continue
		}
		f, err := parser.ParseFile(src.fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			src.add(d)
		}
	}
	return src
}

func (s *source) add(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		switch {
		case isTable(d):
			ast.Inspect(d, s.addEntry)
		case d.Recv != nil:
			s.note(typeName(d.Recv.List[0].Type), d)
		default:
			s.note(d.Name.Name, d)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				s.note(spec.Name.Name, spec)
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					s.note(name.Name, spec)
				}
			}
		}
	}
}

func (s *source) note(name string, n ast.Node) { s.decls[name] = append(s.decls[name], n) }

func (s *source) addEntry(n ast.Node) bool {
	literal, ok := n.(*ast.CompositeLit)
	if !ok {
		return true
	}
	for _, element := range literal.Elts {
		kv, ok := element.(*ast.KeyValueExpr)
		if !ok || typeName(kv.Key) != "Name" {
			continue
		}
		if text, ok := kv.Value.(*ast.BasicLit); ok {
			name, _ := strconv.Unquote(text.Value)
			s.entries = append(s.entries, entry{name, literal})
		}
	}
	return true
}

// isTable tells functions that return []Mutant.
func isTable(d *ast.FuncDecl) bool {
	if d.Recv != nil || d.Type.Results == nil {
		return false
	}
	list, ok := d.Type.Results.List[0].Type.(*ast.ArrayType)
	return ok && typeName(list.Elt) == "Mutant"
}

// typeName returns the identifier that e is, or points to.
func typeName(e ast.Expr) string {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// lines counts those that n stands on; the doc comment of a declaration does not belong to it.
func (s *source) lines(n ast.Node) int {
	return s.fset.Position(n.End()).Line - s.fset.Position(n.Pos()).Line + 1
}

// reach returns the names of all declarations that n uses, and those use, in order.
func (s *source) reach(n ast.Node) []string {
	var names []string
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr: // the name of a field or method says nothing
			ast.Inspect(n.X, visit)
			return false
		case *ast.KeyValueExpr:
			ast.Inspect(n.Value, visit)
			return false
		case *ast.Ident:
			if parts := s.decls[n.Name]; len(parts) > 0 && !slices.Contains(names, n.Name) {
				names = append(names, n.Name)
				for _, part := range parts {
					ast.Inspect(part, visit)
				}
			}
		}
		return true
	}
	ast.Inspect(n, visit)
	return names
}
