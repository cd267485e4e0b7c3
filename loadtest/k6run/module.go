package k6run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/grafana/sobek"
)

// loader resolves the imports of one VU. The same specifier must give the same record, or
// a module would be evaluated twice.
type loader struct {
	host    map[string]*hostModule
	records map[string]sobek.ModuleRecord
	dirs    map[sobek.ModuleRecord]string
}

func newLoader(host map[string]*hostModule) *loader {
	return &loader{host: host, records: map[string]sobek.ModuleRecord{}, dirs: map[sobek.ModuleRecord]string{}}
}

// file parses the module at path, once.
func (l *loader) file(path string) (sobek.ModuleRecord, error) {
	if known, ok := l.records[path]; ok {
		return known, nil
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("k6run: %w", err)
	}
	record, err := sobek.ParseModule(path, string(source), l.resolve)
	if err != nil {
		return nil, fmt.Errorf("k6run: %w", err)
	}
	l.records[path], l.dirs[record] = record, filepath.Dir(path)
	return record, nil
}

func (l *loader) resolve(from any, specifier string) (sobek.ModuleRecord, error) {
	if m, ok := l.host[specifier]; ok {
		return m, nil
	}
	if !strings.HasPrefix(specifier, "./") && !strings.HasPrefix(specifier, "../") {
		return nil, fmt.Errorf("k6run: there is no stand-in for the module %q", specifier)
	}
	importer, ok := from.(sobek.ModuleRecord)
	if !ok {
		return nil, fmt.Errorf("k6run: %q is imported from nowhere", specifier)
	}
	return l.file(filepath.Join(l.dirs[importer], filepath.FromSlash(specifier)))
}

// hostModule is a stand-in for one of k6's modules, of one VU.
type hostModule struct{ exports map[string]sobek.Value }

// newHostModule offers the members by name and together as default, as k6 does.
func newHostModule(rt *sobek.Runtime, members map[string]any) *hostModule {
	m := &hostModule{exports: map[string]sobek.Value{}}
	all := rt.NewObject()
	for name, member := range members {
		v := rt.ToValue(member)
		m.exports[name] = v
		_ = all.Set(name, v) // a fresh object refuses nothing
	}
	m.exports["default"] = all
	return m
}

// The methods below make it a sobek.CyclicModuleRecord and its own instance.

func (m *hostModule) GetExportedNames(callback func([]string), _ ...sobek.ModuleRecord) bool {
	names := make([]string, 0, len(m.exports))
	for name := range m.exports {
		names = append(names, name)
	}
	callback(names)
	return true
}

func (m *hostModule) ResolveExport(name string, _ ...sobek.ResolveSetElement) (*sobek.ResolvedBinding, bool) {
	if _, ok := m.exports[name]; !ok {
		return nil, false
	}
	return &sobek.ResolvedBinding{Module: m, BindingName: name}, false
}

func (m *hostModule) Link() error                  { return nil }
func (m *hostModule) InitializeEnvironment() error { return nil }
func (m *hostModule) RequestedModules() []string   { return nil }
func (m *hostModule) HasTLA() bool                 { return false }

func (m *hostModule) Instantiate(*sobek.Runtime) (sobek.CyclicModuleInstance, error) { return m, nil }
func (m *hostModule) GetBindingValue(name string) sobek.Value                        { return m.exports[name] }

func (m *hostModule) ExecuteModule(*sobek.Runtime, func(any) error, func(any) error) (sobek.CyclicModuleInstance, error) {
	return m, nil
}

func (m *hostModule) Evaluate(rt *sobek.Runtime) *sobek.Promise {
	p, resolve, _ := rt.NewPromise()
	_ = resolve(sobek.Undefined())
	return p
}
